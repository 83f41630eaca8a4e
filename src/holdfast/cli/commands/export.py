"""``holdfast export``: copy a run and all below it, or a whole graph, to a database of its own."""

from __future__ import annotations

import os
from contextlib import closing

import click

from holdfast.cli.commands.copy import open_as_it_is
from holdfast.cli.context import OpenDatabase, command_context, printing
from holdfast.cli.output import print_json
from holdfast.cli.progress import counting
from holdfast.errors import GraphNotFound

EPILOG = """\b
Example:
  holdfast export last broken-order.db
  holdfast export release-7 release.db
  holdfast --db broken-order.db show last"""


@click.command(short_help="Copy a run, or a graph, to a file of its own.", epilog=EPILOG)
@click.argument("run", metavar="RUN|GRAPH")
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False))
@printing
def export(run: str, file: str) -> None:
    """Copy a run and all below it, or a graph with all its members, to the new database FILE, to
    look at it elsewhere.

    Runs that have not ended continue here. FILE is sealed then: it can be read, and its runs
    continue only after `db unseal`."""
    with command_context().opened() as office:
        graph = _graph(office, run)
        found = office.find(run).id if graph is None else graph
        if os.path.exists(file):
            raise click.ClickException(f"there is a file {file} already: name a new one")
        with counting("{} runs copied") as progress:
            copy = office.engine.export if graph is None else office.engine.graphs.export
            count = copy(found, file, progress=progress)
        copied, _ = open_as_it_is(file)
        with closing(copied):
            is_sealed = copied.seal() is not None
        if command_context().as_json:
            print_json(
                {
                    "run" if graph is None else "graph": found,
                    "file": file,
                    "runs": count,
                    "sealed": is_sealed,
                }
            )
        else:
            print(f"{count} {'run' if count == 1 else 'runs'} copied to {file}")
            if is_sealed:
                print(
                    "not all of it has ended: it continues here, and the copy is sealed (`holdfast"
                    " db unseal`)"
                )


def _graph(office: OpenDatabase, name: str) -> str | None:
    """Return the id of a graph that is meant; None when it is none."""
    try:
        office.engine.graphs.status(name)
    except GraphNotFound:
        return None
    return name
