"""``holdfast workers``: who works here, and what each of them serves."""

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
    """List the workers: whether they are alive, what they serve, and how many runs each has at
    work; then what nobody serves."""
    with command_context().opened() as office:
        found, now = look_at_workers(office.store, command_context().namespace), office.store.now()
        busy = at_work(office.store, found)
        for seen in found:
            seen.at_work = len(busy[seen.session.id])
        if command_context().as_json:
            print_json([as_data(seen) for seen in found])
        elif not found:
            print(
                "no workers: start one with"
                f" `{command_context().command('holdfast worker MODULE')}`"
            )
        else:
            print_table(
                ("WORKER", "STATE", "HOST", "PID", "STARTED", "BEAT", "AT WORK", "SERVES"),
                [_row(seen, now) for seen in found],
            )
        if not command_context().as_json:
            for one in unserved(office.store, found, command_context().namespace):
                print(f"{one.text}\n  $ {command_context().command(one.remedy)}")


def as_data(seen: WorkerView) -> dict[str, Any]:
    """Return a worker as plain data."""
    session, offer = seen.session, seen.offer
    return {
        "worker": session.worker,
        "session": session.id,
        "state": seen.life.value,
        "host": session.host,
        "pid": session.pid,
        "started_at": iso(session.started_at),
        "beat_at": iso(session.beat_at),
        "expires_at": iso(session.expires_at),
        "at_work": seen.at_work,
        "workflows": offer.workflows,
        "lanes": offer.lanes,
        "capabilities": offer.capabilities,
        "namespace": offer.namespace,
        "concurrency": offer.concurrency,
        "claims": offer.claims,
    }


def _row(seen: WorkerView, now: int) -> tuple[str, ...]:
    session = seen.session
    return (
        session.worker,
        seen.life.value,
        session.host,
        str(session.pid),
        away(session.started_at, now),
        away(session.beat_at, now),
        f"{seen.at_work} of {seen.offer.concurrency}",
        serves(seen),
    )


def serves(seen: WorkerView) -> str:
    """Write in one line what a worker serves."""
    offer = seen.offer
    if not offer.claims:
        return "only what it has leased"
    parts = [
        (
            "any workflow"
            if offer.workflows is None
            else short(", ".join(sorted(offer.workflows)), 60) or "nothing"
        ),
        f"in {', '.join(offer.lanes)}" if offer.lanes is not None else "",
        f"with {', '.join(offer.capabilities)}" if offer.capabilities else "",
        f"of namespace {offer.namespace}" if offer.namespace else "",
    ]
    return " ".join(part for part in parts if part)
