"""``holdfast workers``: list the workers, with their state and the runs that they serve."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.context import command_context, printing
from holdfast.cli.output import iso, print_json, print_table, short
from holdfast.core.why.model import away
from holdfast.core.why.workers import WorkerView
from holdfast.service.why import at_work, look_at_workers, unserved


@click.command(short_help="List the workers.", epilog="Example: holdfast workers --json")
@printing
def workers() -> None:
    """List the workers: whether they are alive, what they serve, and how many runs each of them
    executes; then the runs that no worker serves."""
    namespace = command_context().namespace
    with command_context().opened() as database:
        views = look_at_workers(database.store, namespace)
        now = database.store.now()
        runs_by_session = at_work(database.store, views)
        for view in views:
            view.at_work = len(runs_by_session[view.session.id])
        if command_context().as_json:
            print_json([as_data(view) for view in views])
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
            for route in unserved(database.store, views, namespace):
                print(f"{route.text}\n  $ {command_context().command(route.remedy)}")


def as_data(view: WorkerView) -> dict[str, Any]:
    """Return a worker as plain data, with times as ISO 8601."""
    session = view.session
    offer = view.offer
    return {
        "worker": session.worker,
        "session": session.id,
        "state": view.life.value,
        "host": session.host,
        "pid": session.pid,
        "started_at": iso(session.started_at),
        "beat_at": iso(session.beat_at),
        "expires_at": iso(session.expires_at),
        "at_work": view.at_work,
        "workflows": offer.workflows,
        "lanes": offer.lanes,
        "capabilities": offer.capabilities,
        "namespace": offer.namespace,
        "concurrency": offer.concurrency,
        "claims": offer.claims,
    }


def _row(view: WorkerView, now: int) -> tuple[str, ...]:
    session = view.session
    return (
        session.worker,
        view.life.value,
        session.host,
        str(session.pid),
        away(session.started_at, now),
        away(session.beat_at, now),
        f"{view.at_work} of {view.offer.concurrency}",
        serves(view),
    )


def serves(view: WorkerView) -> str:
    """Return in one line what a worker serves."""
    offer = view.offer
    if not offer.claims:
        return "only the runs that it has leased"
    parts = ["any workflow"]
    if offer.workflows is not None:
        parts = [short(", ".join(sorted(offer.workflows)), 60) or "nothing"]
    if offer.lanes is not None:
        parts.append(f"in {', '.join(offer.lanes)}")
    if offer.capabilities:
        parts.append(f"with {', '.join(offer.capabilities)}")
    if offer.namespace:
        parts.append(f"of namespace {offer.namespace}")
    return " ".join(parts)
