"""Options of the commands that take leases, and the output of the commands that end them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import click

from holdfast.cli.context import command_context
from holdfast.cli.output import print_json
from holdfast.cli.params import DURATION, many
from holdfast.connect.blocking.lease import Lease
from holdfast.connect.open_database import OpenDatabase
from holdfast.core.signature import GivenArguments
from holdfast.service.tasks.lease_state import Deferred, Retried, RunEnded
from holdfast.views import tasks as views
from holdfast.views.tasks import LeaseView
from holdfast.views.text import seconds

CAPABILITIES = many(
    "--capability",
    "capabilities",
    metavar="A,B",
    help="The capabilities that you offer. E.g. --capability cuda",
)
TTL = click.option(
    "--ttl",
    type=DURATION,
    default="60s",
    show_default=True,
    metavar="TIME",
    help="How long the lease lasts, from now on. E.g. --ttl 2m",
)
WORKER = click.option(
    "--worker", default="", metavar="NAME", help="The name of the holder. E.g. --worker render-7"
)


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


def lease_view(lease: Lease) -> LeaseView | dict[str, Any]:
    """Return what a holder needs to know of its lease; of a lease over HTTP, what the server has
    answered."""
    if command_context().is_remote:
        answered: dict[str, Any] = cast(Any, lease).view
        return answered
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
