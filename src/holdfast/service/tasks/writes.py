"""The write of a holder: events, and the place where its run stands after them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.events import Event, EventKind
from holdfast.core.status import FINAL, Status
from holdfast.service.requests import Request
from holdfast.service.tasks.lease_state import ChildrenLeft, LeaseState
from holdfast.store.effects import Effect, RevisionChanged
from holdfast.store.runs.operations import Advance, Advanced, end_of

ENDS_OF_RUNS = (
    EventKind.RUN_COMPLETED,
    EventKind.RUN_FAILED,
    EventKind.RUN_CANCELLED,
    EventKind.RUN_EXPIRED,
)
ENDS_OF_LEASES = (
    *ENDS_OF_RUNS,
    EventKind.ATTEMPT_FAILED,
    EventKind.RUN_DELAYED,
    EventKind.WAIT_OPENED,
    EventKind.CHILDREN_AWAITED,
)
"""The kinds of events with which a lease ends: they tell when it began."""


def write_as_holder(
    held: LeaseState,
    events: list[Event],
    outcome: Any,
    *,
    status: Status | None = None,
    revision: int | None = None,
    release: bool = False,
    waits: bytes | None = None,
    wake_at: int | None = None,
    result: bytes | None = None,
    error: bytes | None = None,
    effects: Sequence[Effect] = (),
) -> Request[Any]:
    """Return the request that writes *events* as the holder; the other options are fields of
    ``Advance``. Its answer is *outcome*, RevisionChanged if *revision* is not current, or
    ChildrenLeft if an end must be written once more."""
    run = held.run
    for number, event in enumerate(events, start=held.seq + 1):
        event.seq = number
        if held.leased_at is None:  # written with the claim: there is no attempt yet
            continue
        if event.kind in ENDS_OF_LEASES:
            event.started_at = held.leased_at
        if event.kind in ENDS_OF_RUNS:
            event.data = held.term.stamp
    op = Advance(
        run_id=run.id,
        generation=held.proof.generation,
        events=events,
        status=status,
        revision=revision,
        release=release,
        waits=waits,
        wake_at=wake_at,
        result=result,
        error=error,
        effects=effects,
    )
    if status in FINAL:
        op.graph_id = run.graph_id
        end = end_of(run, had_children=held.has_children)
        if end is not None:
            op.effects = [*effects, end]

    def decode(answer: Any) -> Any:
        if isinstance(answer, RevisionChanged):
            return answer
        if status in FINAL and isinstance(answer, Advanced) and answer.unasked:
            return ChildrenLeft()
        held.seq += len(events)
        return outcome

    return Request(op, decode)
