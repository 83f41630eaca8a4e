"""``holdfast workers``: list the workers, with their state and the runs that they serve."""

from __future__ import annotations

from datetime import datetime

import click

from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_json, print_table
from holdfast.views.text import away
from holdfast.views.workers import WorkerView, serves


@click.command(short_help="List the workers.", epilog="Example: holdfast workers --json")
@printing
def workers() -> None:
    """List the workers: whether they are alive, what they serve, and how many runs each of them
    executes; then the runs that no worker serves."""
    with command_context().opened() as database:
        views = database.engine.workers.list()
        now = database.now
        if command_context().as_json:
            print_json(views)
        elif not views:
            print(
                "no workers: start one with"
                f" `{command_context().command('holdfast worker MODULE')}`"
            )
        else:
            print_table(
                ("WORKER", "STATE", "HOST", "PID", "STARTED", "HEARTBEAT", "RUNNING", "SERVES"),
                [_row(view, now) for view in views],
            )
        if not command_context().as_json:
            for route in database.engine.workers.unserved():
                print(f"{route.text}\n  $ {command_context().command(route.remedy)}")


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
