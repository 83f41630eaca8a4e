"""``holdfast prune``: delete what ended long ago."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime

import click

from holdfast.cli.context import OpenDatabase, command_context, printing
from holdfast.cli.output import print_json
from holdfast.cli.params import MOMENT, ListValue
from holdfast.cli.progress import counting
from holdfast.core.runs import RunRecord
from holdfast.core.status import FINAL, Status
from holdfast.service.export import tree
from holdfast.service.runs import Moment, moment
from holdfast.store.contract import RunFilter, Store

EPILOG = """\b
Examples:
  holdfast prune --older-than 30d --dry-run
  holdfast prune --older-than 30d --status completed,cancelled --yes"""

PAGE = 500


@click.command(short_help="Delete runs that ended long ago.", epilog=EPILOG)
@click.option(
    "--older-than",
    metavar="WHEN",
    type=MOMENT,
    required=True,
    help="Delete runs that ended before that. E.g. --older-than 30d",
)
@click.option(
    "--status",
    metavar="A,B",
    type=ListValue(Status),
    help="Only those that ended so; default: all. E.g. --status failed,expired",
)
@click.option(
    "--workflow",
    metavar="NAME",
    help="Only runs of that workflow; default: all. E.g. --workflow checkout",
)
@click.option("--dry-run", is_flag=True, help="Only say how many would go.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@printing
def prune(
    older_than: str | datetime,
    status: list[str] | None,
    workflow: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete finished runs, with all below them, that ended long ago. A run with a live child
    stays."""
    wrong = [one for one in status or () if one not in FINAL]
    if wrong:
        raise click.UsageError(
            f"a run that is {wrong[0]} has not ended: only finished runs can be pruned"
        )
    with command_context().opened() as office:
        if dry_run:
            _tell(
                sum(_doomed(office.store, older_than, status or sorted(FINAL), workflow)),
                "would be deleted",
                dry_run=True,
            )
            return
        if not yes and not _agreed(older_than):
            raise click.ClickException("nothing was deleted")
        _tell(_delete(office, older_than, status or (), workflow), "deleted", dry_run=False)


def _agreed(older_than: str | datetime) -> bool:
    if not sys.stdin.isatty():
        raise click.UsageError("nobody can be asked here: say --yes, or --dry-run first")
    return click.confirm(f"Delete all finished runs that ended before {older_than} ago?", err=True)


def _tell(count: int, done: str, *, dry_run: bool) -> None:
    if command_context().as_json:
        print_json({"runs": count, "dry_run": dry_run})
    else:
        print(f"{count} {'run' if count == 1 else 'runs'} {done}")


def _delete(
    office: OpenDatabase, older_than: Moment, status: Sequence[str], workflow: str | None
) -> int:
    with counting("{} runs deleted") as progress:
        return office.engine.prune(
            older_than, status=status, workflow=workflow, batch=PAGE, progress=progress
        )


def _doomed(
    store: Store, older_than: Moment, status: Sequence[str], workflow: str | None
) -> Iterator[int]:
    """Yield, for each root that would go, how many runs go with it."""
    limit = moment(older_than, store.now(), sign=-1)
    for root in _roots(store, status, workflow):
        if root.finished_at is not None and root.finished_at < limit:
            runs = tree(store, root)
            if all(run.status in FINAL for run in runs):
                yield len(runs)


def _roots(store: Store, status: Sequence[str], workflow: str | None) -> Iterator[RunRecord]:
    namespace = command_context().namespace
    before: str | None = None
    while page := store.runs(
        RunFilter(
            statuses=status,
            workflow=workflow,
            roots=True,
            before=before,
            limit=PAGE,
            namespace=namespace,
        )
    ):
        yield from page
        before = page[-1].id
