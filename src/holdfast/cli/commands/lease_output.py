"""Print what the commands of holders do to their leases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.cli.context import command_context
from holdfast.cli.output import print_json
from holdfast.connect.blocking.lease import Lease
from holdfast.connect.open_database import OpenDatabase
from holdfast.core.signature import GivenArguments
from holdfast.service.tasks.lease_state import Deferred, Retried, RunEnded
from holdfast.views import tasks as views
from holdfast.views.tasks import LeaseView
from holdfast.views.text import seconds


def end_lease(lease: str, act: Callable[[Lease], RunEnded | Retried | Deferred]) -> None:
    """End a lease with *act*, and report what happens to its run."""
    with command_context().opened() as database:
        held = database.engine.tasks.lease(lease)
        answer = act(held)
        report(_answer(database, held, answer), _line(held, answer))


def _answer(
    database: OpenDatabase, held: Lease, answer: RunEnded | Retried | Deferred
) -> dict[str, Any]:
    until = None
    if isinstance(answer, Retried):
        until = answer.at
    elif isinstance(answer, Deferred):
        until = answer.until
    return {
        "run": held.run_id,
        "status": database.engine.run(held.run_id).status.value,
        "until": until,
    }


def _line(held: Lease, answer: RunEnded | Retried | Deferred) -> str:
    if isinstance(answer, RunEnded):
        return f"run {held.run_id} is {answer.status.value}"
    if isinstance(answer, Retried):
        return f"run {held.run_id} will be retried at {seconds(answer.at)}"
    return f"run {held.run_id} is {answer.status.value}" + (
        f" until {seconds(answer.until)}" if answer.until else ""
    )


def lease_view(lease: Lease) -> LeaseView:
    """Return what a holder needs to know of its lease."""
    return views.of(
        lease.run,
        proof=lease.proof,
        arguments=GivenArguments(lease.args, lease.kwargs),
        attempt=lease.attempt,
        signals=lease.signals,
        timed_out=lease.timed_out,
        released_by=None if lease.waited is None else lease.waited.by,
        children=lease.children(),
    )


def report(data: dict[str, Any] | LeaseView, line: str) -> None:
    """Print an outcome: as JSON, or as a line for people."""
    if command_context().as_json:
        print_json(data)
    else:
        print(line)
