"""Answer calls that a holder repeats, and explain writes that the store refuses.

A holder whose first answer was lost calls again. If the same write was committed under the same
lease, it gets the answer of the first call; otherwise LeaseLost says why.
"""

from __future__ import annotations

from typing import Any

from holdfast.core.duration import as_datetime
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import RunRecord
from holdfast.core.status import FINAL
from holdfast.core.stored_json import object_of
from holdfast.errors import LeaseLost
from holdfast.payloads.opener import PayloadOpener
from holdfast.service.requests import Request
from holdfast.service.runs import RunService
from holdfast.service.tasks.lease_state import Deferred, LeaseState, Retried
from holdfast.service.tasks.terms import LeaseTerms
from holdfast.store.runs.operations import Advance
from holdfast.store.store import Store


class RepeatedCalls:
    """Recognises calls that a holder has made before."""

    def __init__(self, client: RunService, terms: LeaseTerms) -> None:
        self._store: Store = client.store
        self._opener: PayloadOpener = client.sealer.opener
        self._terms: LeaseTerms = terms

    def explain(self, held: LeaseState, request: Request[Any], refused: LeaseLost) -> Any:
        """Return the first answer if the holder has repeated a committed write; raise LeaseLost
        with the reason otherwise."""
        op = request.op
        assert isinstance(op, Advance)
        run = self._terms.find_run(held.proof)
        if self._is_repeated(op, run):
            return self._first_answer(op, run) or request.decode(None)
        raise self._terms.lost(held) from refused

    def catch_up(self, held: LeaseState) -> bool:
        """Return whether another process has written to the run with the same proof; if so, this
        lease continues after its events."""
        seq = last_seq(self._store.runs.history(held.run.id))
        changed = seq != held.seq
        held.seq = seq
        return changed

    def _first_answer(self, op: Advance, run: RunRecord) -> Any:
        """Return the answer to the first of two equal calls, if it depends on the time of the call,
        else None."""
        if op.status in FINAL:
            return None
        last = self._events_of_holders(run)[-1]
        until: Any = object_of(last.data, f"the history of run {run.id}").get("until")
        if last.kind == EventKind.ATTEMPT_FAILED:
            return Retried(as_datetime(until))
        return Deferred(op.status or run.status, None if until is None else as_datetime(until))

    def _is_repeated(self, op: Advance, run: RunRecord) -> bool:
        if run.generation != op.generation or run.session_id is not None:
            return False
        if op.status in FINAL:
            run = self._opener.run(run)
            return (run.status, run.result, run.error) == (op.status, op.result, op.error)
        last = self._events_of_holders(run)[-len(op.events) :]
        recorded = self._opener.events(run.id, last)
        return [_timeless(event) for event in recorded] == [_timeless(event) for event in op.events]

    def _events_of_holders(self, run: RunRecord) -> list[Event]:
        """Return the events that holders have written. Events of operators are left out: they do
        not change the answers that holders got."""
        return [
            event for event in self._store.runs.history(run.id) if event.kind not in _BY_OPERATORS
        ]


_BY_OPERATORS = (EventKind.PRIORITY_CHANGED, EventKind.RUN_RELEASED)


def last_seq(history: list[Event]) -> int:
    """Return the number of the last event; 0 if there is none."""
    if not history:
        return 0
    return history[-1].seq


def _timeless(event: Event) -> tuple[object, ...]:
    """Return the fields that are equal in two events of repeated calls: all but the times."""
    wait: dict[str, object] = {}
    if event.kind == EventKind.WAIT_OPENED:
        wait = object_of(event.data, "a wait of the run")
    return event.kind, event.step, event.error, wait.get("condition"), wait.get("on_timeout")
