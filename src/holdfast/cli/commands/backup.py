"""``holdfast db backup``: copy a SQLite database to a file while workers run."""

from __future__ import annotations

import os

import click

from holdfast.cli.context import command_context, confirm, deleting, printing
from holdfast.cli.output import print_json
from holdfast.cli.progress import measuring
from holdfast.views.text import size

EPILOG = """\b
Examples:
  holdfast db backup orders-monday.db
  holdfast db backup latest.db --yes
  holdfast --db latest.db runs                  look into the backup
  holdfast --db latest.db db unseal             let its runs continue there"""


@click.command(short_help="Copy the database to a file while workers run.", epilog=EPILOG)
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False))
@deleting
@printing
def backup(file: str, yes: bool) -> None:
    """Copy the database, as it stands at one instant, to FILE, and check the copy. Workers
    continue. An existing FILE is replaced after confirmation, once the new copy is complete.

    The copy is sealed: it can be read, and its runs continue there only after `db unseal`.
    PostgreSQL is backed up with pg_dump. The exit code is 1 if a check fails."""
    command_context().concerns_all("db backup")
    with command_context().opened() as database:
        if os.path.exists(file):
            confirm(f"Replace {file}?", yes=yes)
        with measuring("pages") as progress:
            report = database.engine.database.backup(
                file, overwrite=os.path.exists(file), progress=progress
            )
    if command_context().as_json:
        print_json(report)
    else:
        print(f"{report.runs} runs ({size(report.bytes)}) copied to {report.path}")
        print("the copy is sealed until `holdfast db unseal`: its runs continue in the original")
        print("\n".join(report.broken) or "the copy is sound: every law holds")
    if report.broken:
        raise click.exceptions.Exit(1)
