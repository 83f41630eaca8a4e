"""``holdfast runs``: list runs in pages, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_json, print_table
from holdfast.cli.paging import print_next
from holdfast.cli.params import MOMENT, STATUSES, TAGS, many
from holdfast.connect.open_database import OpenDatabase
from holdfast.core.status import Status
from holdfast.views.pages import Page
from holdfast.views.runs import RunView
from holdfast.views.text import away, brief, error_line, payload, seconds, short

EPILOG = """\b
Examples:
  holdfast runs --status failed,stuck --since 1d
  holdfast runs --workflow checkout --tag customer=7 --limit 10 --json"""


@click.command(epilog=EPILOG)
@many(
    "--status", metavar="A,B", type=STATUSES, help="Only these statuses. E.g. --status failed,stuck"
)
@click.option("--live", is_flag=True, help="Only runs that have not ended.")
@click.option(
    "--workflow", metavar="NAME", help="Only runs of this workflow. E.g. --workflow checkout"
)
@click.option("--version", metavar="TEXT", help="Only runs of this version. E.g. --version 2")
@click.option("--lane", metavar="NAME", help="Only runs in this lane. E.g. --lane reports")
@click.option("--share", metavar="NAME", help="Only runs of this share. E.g. --share tenant-7")
@many(
    "--tag",
    "tags",
    metavar="NAME=VALUE",
    type=TAGS,
    help="Only runs with these tags. E.g. --tag customer=7",
)
@click.option("--key", metavar="TEXT", help="Only runs with this key. E.g. --key order-7")
@click.option(
    "--id-prefix",
    metavar="TEXT",
    help="Only runs whose ids begin with this text. E.g. --id-prefix order-",
)
@click.option(
    "--since",
    metavar="WHEN",
    type=MOMENT,
    help="Only runs created since then. E.g. --since 1h or 2026-11-15",
)
@click.option(
    "--until", metavar="WHEN", type=MOMENT, help="Only runs created before then. E.g. --until 30m"
)
@click.option(
    "--worker", metavar="NAME", help="Only runs that this worker holds. E.g. --worker gpu-1"
)
@click.option(
    "--namespace", metavar="NAME", help="Only runs of this namespace. E.g. --namespace acme"
)
@click.option("--parent", metavar="RUN", help="Only children of this run. E.g. --parent last")
@click.option("--roots", is_flag=True, help="Only runs without a parent.")
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
    help="The next page: begin after this place, which the previous page names, or after a run."
    " E.g. --after 01m7ge8gkb9apz",
)
@click.option("--count", is_flag=True, help="Only print the number of runs.")
@printing
def runs(
    limit: int,
    after: str | None,
    count: bool,
    tags: Sequence[tuple[str, str]],
    parent: str | None,
    **filters: Any,
) -> None:
    """List runs, newest first."""
    filters["namespace"] = filters["namespace"] or command_context().namespace
    filters["status"] = filters["status"] or None
    with command_context().opened() as database:
        if parent is not None:
            filters["parent_id"] = database.find(parent).id
        query = database.engine.runs(tags=dict(tags), **filters)
        if count:
            _print_count(query.count())
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


def _none(database: OpenDatabase, workflow: str | None) -> str:
    """Return the line for an empty list; it names the workflow that may have been meant."""
    similar = None if workflow is None else database.similar_workflow(workflow)
    if similar is None:
        return "no runs"
    return f"no runs of workflow {workflow}: did you mean {similar}?"


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
    text = f"{wait.get('kind')} {wait.get('name') or wait.get('run') or wait.get('step')}"
    return text if wait.get("until") is None else f"{text} {away(wait['until'], now)}"
