"""``holdfast workers``: list the workers, with their state and the runs that they serve, and remove
dead ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import click

from holdfast.cli.context import command_context, confirm, deleting, printing
from holdfast.cli.output import print_json, print_table
from holdfast.cli.paging import items_after, paged, print_page
from holdfast.views.text import away
from holdfast.views.workers import WorkerView, serves

EPILOG = """\b
Examples:
  holdfast workers --json
  holdfast workers remove render-7"""


@click.group(short_help="List the workers.", epilog=EPILOG, invoke_without_command=True)
@paged(limit=100)
@printing
@click.pass_context
def workers(ctx: click.Context, limit: int, after: str | None) -> None:
    """List the workers: whether they are alive, what they serve, and how many runs each of them
    executes; then the runs that no worker serves."""
    if ctx.invoked_subcommand is None:
        _print(limit, after)


@workers.command(epilog="Example: holdfast workers remove render-7 --yes")
@click.argument("worker", metavar="WORKER")
@deleting
@printing
def remove(worker: str, yes: bool) -> None:
    """Declare a worker dead, by its name or its session: other workers may claim its runs at once,
    and its own later writes are refused."""
    with command_context().opened() as database:
        confirm(f"Take all runs from worker {worker}?", yes=yes)
        removed = database.engine.workers.remove(worker, by=command_context().person())
        if command_context().as_json:
            print_json(removed)
            return
        for view in removed:
            count = len(view.runs)
            runs = "1 run is" if count == 1 else f"{count} runs are"
            print(f"worker {view.worker} (session {view.session}) was removed: {runs} free")


def _print(limit: int, after: str | None) -> None:
    with command_context().opened() as database:
        listed = items_after(database.engine.workers.list(), after, _session, limit)
        now = database.now
        print_page(listed, limit, _session, lambda page: _print_workers(page, now))
        if not command_context().as_json:
            for route in database.engine.workers.unserved():
                print(f"{route.text}\n  $ {command_context().command(route.remedy)}")


def _session(view: WorkerView) -> str:
    return view.session


def _print_workers(page: Sequence[WorkerView], now: datetime) -> None:
    if not page:
        command = command_context().command("holdfast worker MODULE")
        print(f"no workers: start one with `{command}`")
        return
    print_table(
        ("WORKER", "STATE", "HOST", "PID", "STARTED", "HEARTBEAT", "RUNNING", "SERVES"),
        [_row(view, now) for view in page],
    )


def _row(view: WorkerView, now: datetime) -> tuple[str, ...]:
    return (
        view.worker,
        view.state.value,
        view.host,
        str(view.pid),
        away(view.started_at, now),
        away(view.beat_at, now),
        f"{view.at_work} of {view.concurrency}",
        serves(view),
    )
