"""``holdfast db prune``: delete runs that ended long ago."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import click

from holdfast.cli.context import command_context, confirm, deleting, printing
from holdfast.cli.output import print_json
from holdfast.cli.params import MOMENT, STATUSES, many
from holdfast.cli.progress import counting
from holdfast.connect.open_database import OpenDatabase
from holdfast.core.status import FINAL
from holdfast.service.instants import Moment

EPILOG = """\b
Examples:
  holdfast db prune --older-than 30d --dry-run
  holdfast db prune --older-than 30d --status completed,cancelled --yes"""

PAGE = 500


@click.command(short_help="Delete runs that ended long ago.", epilog=EPILOG)
@click.option(
    "--older-than",
    metavar="WHEN",
    type=MOMENT,
    required=True,
    help="Only runs that ended before this time, or this long ago. E.g. --older-than 30d",
)
@many(
    "--status",
    metavar="A,B",
    type=STATUSES,
    help="Only runs with these final statuses; default: all. E.g. --status failed,expired",
)
@click.option(
    "--workflow",
    metavar="NAME",
    help="Only runs of this workflow; default: all. E.g. --workflow checkout",
)
@click.option("--dry-run", is_flag=True, help="Only show how many runs would be deleted.")
@deleting
@printing
def prune(
    older_than: str | datetime,
    status: list[str],
    workflow: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete finished runs that ended long ago, with all their descendants. A run with a live
    descendant is kept."""
    not_final = [name for name in status if name not in FINAL]
    if not_final:
        raise click.UsageError(
            f"a run with the status {not_final[0]} has not ended: only finished runs can be pruned"
        )
    with command_context().opened() as database:
        if dry_run:
            count = database.count_prunable(older_than, status or sorted(FINAL), workflow)
            _report(count, "would be deleted", dry_run=True)
            return
        confirm(_question(older_than), yes=yes, preview="--dry-run")
        _report(_delete(database, older_than, status, workflow), "deleted", dry_run=False)


def _question(older_than: str | datetime) -> str:
    if isinstance(older_than, datetime):
        return f"Delete all finished runs that ended before {older_than}?"
    return f"Delete all finished runs that ended more than {older_than} ago?"


def _report(count: int, outcome: str, *, dry_run: bool) -> None:
    if command_context().as_json:
        print_json({"runs": count, "dry_run": dry_run})
    else:
        print(f"{count} {'run' if count == 1 else 'runs'} {outcome}")


def _delete(
    database: OpenDatabase, older_than: Moment, status: Sequence[str], workflow: str | None
) -> int:
    with counting("{} runs deleted") as progress:
        return database.engine.retention.prune(
            older_than,
            status=status,
            workflow=workflow,
            batch=PAGE,
            progress=progress,
            by=command_context().person(),
        )
