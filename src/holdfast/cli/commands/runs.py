"""``holdfast runs``: list runs in pages, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_json, print_table
from holdfast.cli.paging import print_next
from holdfast.cli.run_filters import filtering, query_of
from holdfast.connect.open_database import OpenDatabase
from holdfast.core.status import Status
from holdfast.core.waits import WaitKind
from holdfast.views.error_groups import ErrorGroupView
from holdfast.views.pages import Page
from holdfast.views.runs import RunView
from holdfast.views.text import away, brief, error_line, payload, seconds, short

EPILOG = """\b
Examples:
  holdfast runs --status failed,stuck --since 1d
  holdfast runs --group error --since 1d
  holdfast runs --workflow checkout --tag customer=7 --limit 10 --json"""

GROUPED = 10_000
"""Runs that are read to group them by error."""


@click.command(epilog=EPILOG)
@filtering
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="The maximum number of runs. E.g. --limit 10",
)
@click.option(
    "--after",
    metavar="CURSOR",
    help="Continue after this cursor, which the previous page prints, or after a run."
    " E.g. --after 01m7ge8gkb9apz",
)
@click.option(
    "--group",
    metavar="BY",
    type=click.Choice(["error"]),
    help="Group failed runs, or the runs of --status, by their root cause. E.g. --group error",
)
@click.option("--count", is_flag=True, help="Only print the number of runs.")
@printing
def runs(limit: int, after: str | None, count: bool, group: str | None, **filters: Any) -> None:
    """List runs, newest first."""
    if count and group is not None:
        raise click.UsageError("use --count or --group, not both: each group has its count")
    if group is not None:
        filters["status"] = filters["status"] or ["failed"]
    with command_context().opened() as database:
        query = query_of(database, **filters)
        if count:
            _print_count(query.count())
            return
        if group is not None:
            _print_groups(query.group(group, after=after, limit=GROUPED))
            return
        page = query.page(after=after, limit=limit)
        if command_context().as_json:
            print_json(page.as_object())
            return
        if not page:
            print(_none(database, filters["workflow"]))
            return
        _print_page(page, database.now)
        print_next(page.next)


def _none(database: OpenDatabase, workflows: Sequence[str]) -> str:
    """Return the line for an empty list; it names the workflow that may have been meant."""
    for workflow in workflows:
        similar = database.similar_workflow(workflow)
        if similar is not None:
            return f"no runs of workflow {workflow}: did you mean {similar}?"
    return "no runs"


def _print_groups(groups: Page[ErrorGroupView]) -> None:
    if command_context().as_json:
        print_json(groups.as_object())
        return
    if not groups:
        print("no runs with an error")
        return
    rows = [
        (
            str(group.count),
            group.workflow,
            group.step or "",
            seconds(group.first_at),
            seconds(group.last_at),
            group.example,
            short(group.error, 100),
        )
        for group in groups
    ]
    print_table(("RUNS", "WORKFLOW", "STEP", "FIRST", "LAST", "EXAMPLE", "CAUSE"), rows)
    if groups.next is not None:
        print(f"these are the groups of the newest {GROUPED} runs")
    print_next(groups.next)


def _print_count(count: int) -> None:
    if command_context().as_json:
        print_json({"runs": count})
    else:
        print(count)


def _print_page(page: Page[RunView], now: datetime) -> None:
    rows = [
        (
            run.id,
            run.workflow,
            run.status.value,
            seconds(run.created_at),
            _elapsed(run, now),
            _note(run, now),
        )
        for run in page
    ]
    print_table(("ID", "WORKFLOW", "STATUS", "CREATED", "TOOK", "NOTE"), rows)


def _elapsed(run: RunView, now: datetime) -> str:
    elapsed = run.elapsed(now)
    return "" if elapsed is None else brief(elapsed)


def _note(run: RunView, now: datetime) -> str:
    if run.error is not None:
        return error_line(run.error, 100)
    if run.status is Status.COMPLETED:
        return payload(run.result, 50)
    if run.wake_at is not None and not run.waits:
        return f"begins {away(run.wake_at, now)}"
    if run.waits:
        return short(", ".join(_wait(wait, now) for wait in run.waits), 70)
    return f"worker {run.worker}" if run.worker is not None else ""


def _wait(wait: dict[str, Any], now: datetime) -> str:
    if wait.get("kind") == WaitKind.OTHERS:
        return f"{wait.get('count')} more of the kind {wait.get('of')}"
    text = f"{wait.get('kind')} {wait.get('name') or wait.get('run') or wait.get('step')}"
    return text if wait.get("until") is None else f"{text} {away(wait['until'], now)}"
