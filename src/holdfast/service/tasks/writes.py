"""The write of a holder: events, and the place where its run stands after them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.events import Event
from holdfast.core.status import FINAL, Status
from holdfast.service.requests import Request
from holdfast.service.tasks.lease_state import LeaseState
from holdfast.store.effects import Effect, RevisionChanged
from holdfast.store.runs.operations import Advance, end_of


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
    ``Advance``. Its answer is *outcome*, or RevisionChanged if *revision* is not current."""
    run = held.run
    for number, event in enumerate(events, start=held.seq + 1):
        event.seq = number
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
        end = end_of(run, had_children=False)
        if end is not None:
            op.effects = [*effects, end]

    def decode(answer: Any) -> Any:
        if isinstance(answer, RevisionChanged):
            return answer
        held.seq += len(events)
        return outcome

    return Request(op, decode)
