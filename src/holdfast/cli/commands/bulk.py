"""``holdfast release, prioritise, delete``: operations on a run, or on many."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from holdfast.cli.bulk import apply_to, is_single, selecting
from holdfast.cli.context import command_context, printing
from holdfast.cli.params import JSON, NEGATIVE_NUMBERS
from holdfast.connect.blocking.runs import RunQuery
from holdfast.core.operations import BulkVerb

RELEASE = """\b
Examples:
  holdfast release last --payload true --by ann
  holdfast release --status waiting --workflow review"""

PRIORITISE = """\b
Examples:
  holdfast prioritise last 5
  holdfast prioritise 10 --status pending --tag customer=7"""

DELETE = """\b
Examples:
  holdfast delete order-7
  holdfast delete --status completed --until 90d --dry-run"""


@click.command(short_help="Let runs continue without what they wait for.", epilog=RELEASE)
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option(
    "--payload",
    type=JSON,
    metavar="JSON",
    help="The value that the wait returns. E.g. --payload true",
)
@selecting()
@printing
def release(
    runs: tuple[str, ...], payload: Any, dry_run: bool, yes: bool, by: str | None, **filters: Any
) -> None:
    """Release the wait of a run: a timer, a retry or a wait with a condition. Without RUN, release
    all runs that the options select; `waits release` releases one of several waits."""
    is_single(runs, dry_run=dry_run, filters=filters)
    with command_context().opened() as database:
        call = partial(RunQuery.release, payload=payload)
        apply_to(database, BulkVerb.RELEASE, call, runs, filters, dry_run=dry_run, yes=yes, by=by)


@click.command(
    short_help="Change the priority of runs.", epilog=PRIORITISE, context_settings=NEGATIVE_NUMBERS
)
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.argument("priority", metavar="N", type=int)
@selecting()
@printing
def prioritise(
    runs: tuple[str, ...], priority: int, dry_run: bool, yes: bool, by: str | None, **filters: Any
) -> None:
    """Change the priority of an unfinished run, from -1000 to 1000. Without RUN, change all runs
    that the options select."""
    is_single(runs, dry_run=dry_run, filters=filters)
    with command_context().opened() as database:
        call = partial(RunQuery.prioritise, priority=priority)
        apply_to(
            database, BulkVerb.PRIORITISE, call, runs, filters, dry_run=dry_run, yes=yes, by=by
        )


@click.command(short_help="Delete finished runs.", epilog=DELETE)
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@selecting()
@printing
def delete(runs: tuple[str, ...], dry_run: bool, yes: bool, by: str | None, **filters: Any) -> None:
    """Delete a finished run with its descendants and everything that belongs to them. Without RUN,
    delete all runs without a parent that the options select."""
    is_single(runs, dry_run=dry_run, filters=filters)
    with command_context().opened() as database:
        if not runs:
            filters["roots"] = True
        apply_to(
            database,
            BulkVerb.DELETE,
            RunQuery.delete,
            runs,
            filters,
            dry_run=dry_run,
            yes=yes,
            by=by,
        )
