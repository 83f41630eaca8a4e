"""``holdfast db unseal``: let a sealed database accept writes again."""

from __future__ import annotations

import click

from holdfast.cli.context import command_context, must_be_there, printing
from holdfast.cli.output import print_json
from holdfast.connect.moved_database import unseal_database

EPILOG = """\b
Example: use the old file after a move, or continue a run that was exported
  holdfast --db orders.db db unseal"""


@click.command(short_help="Let a sealed database accept writes again.", epilog=EPILOG)
@printing
def unseal() -> None:
    """Let a database that `db copy` or `export` has sealed accept writes again.

    Its runs then continue in this database as well as in the other one, and their work is done
    twice. Before a worker opens this database, end the runs in the other one or delete it."""
    command_context().concerns_all("db unseal")
    must_be_there(command_context().url, "name a database with --db")
    _report(unseal_database(command_context().url))


def _report(other: str | None) -> None:
    if command_context().as_json:
        print_json({"unsealed": other is not None, "other": other})
    elif other is None:
        print("the database is not sealed")
    else:
        print(
            f"the database is no longer sealed; make sure that its runs do not continue in {other}"
            " as well"
        )
