"""``holdfast db export``: copy a run with its descendants, or a whole graph, to a new database."""

from __future__ import annotations

import os

import click

from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_json
from holdfast.cli.progress import counting
from holdfast.connect.moved_database import is_sealed
from holdfast.connect.open_database import OpenDatabase
from holdfast.errors import GraphNotFound

EPILOG = """\b
Example:
  holdfast db export last broken-order.db
  holdfast db export release-7 release.db
  holdfast --db broken-order.db show last"""


@click.command(short_help="Copy a run or a graph to a new database file.", epilog=EPILOG)
@click.argument("run", metavar="RUN|GRAPH")
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False))
@printing
def export(run: str, file: str) -> None:
    """Copy a run with all its descendants, or a graph with all its members, to the new database
    FILE, for inspection elsewhere.

    Runs that have not ended continue in the original database. FILE is then sealed: it can be read,
    and its runs continue only after `db unseal`."""
    with command_context().opened() as database:
        is_graph = _is_graph(database, run)
        source_id = run if is_graph else database.find(run).id
        if os.path.exists(file):
            raise click.ClickException(f"the file {file} already exists: name a new one")
        with counting("{} runs copied") as progress:
            copy = database.engine.graphs.export if is_graph else database.engine.database.export
            count = copy(source_id, file, progress=progress)
        sealed = is_sealed(file)
        if command_context().as_json:
            print_json(
                {
                    "graph" if is_graph else "run": source_id,
                    "file": file,
                    "runs": count,
                    "sealed": sealed,
                }
            )
        else:
            print(f"{count} {'run' if count == 1 else 'runs'} copied to {file}")
            if sealed:
                print(
                    "some runs have not ended: they continue in the original database, and the copy"
                    " is sealed (see `holdfast db unseal`)"
                )


def _is_graph(database: OpenDatabase, name: str) -> bool:
    """Return whether *name* is the id of a graph."""
    try:
        database.engine.graphs.status(name)
    except GraphNotFound:
        return False
    return True
