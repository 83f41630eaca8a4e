"""``holdfast export``: copy a run and all below it to a database of its own."""

from __future__ import annotations

import os

import click

from holdfast.cli.desk import desk, printing
from holdfast.cli.output import print_json
from holdfast.cli.progress import counting

EPILOG = """\b
Example:
  holdfast export last broken-order.db
  holdfast --db broken-order.db show last"""


@click.command(short_help="Copy a run to a file of its own.", epilog=EPILOG)
@click.argument("run", metavar="RUN")
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False))
@printing
def export(run: str, file: str) -> None:
    """Copy a run and all below it to the new database FILE, to look at it, or to go on with it, elsewhere."""
    with desk().opened() as office:
        found = office.find(run)
        if os.path.exists(file):
            raise click.ClickException(f"there is a file {file} already: name a new one")
        with counting("{} runs copied") as progress:
            count = office.engine.export(found.id, file, progress=progress)
        if desk().as_json:
            print_json({"run": found.id, "file": file, "runs": count})
        else:
            print(f"{count} {'run' if count == 1 else 'runs'} copied to {file}")
