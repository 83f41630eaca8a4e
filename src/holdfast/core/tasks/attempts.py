"""The attempts at a run, read from its history. Pure.

An attempt begins with a lease and ends with a failure, the loss of the lease, or the run. A holder
that delays or suspends its run continues the same attempt later.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.core.events import Event, EventKind
from holdfast.core.runs import RunRecord
from holdfast.core.status import FINAL
from holdfast.core.stored_json import object_of
from holdfast.core.tasks.policy import FailureKind


class AttemptKind(StrEnum):
    """Why an attempt was made."""

    INITIAL = "initial"
    RETRY = "retry"
    """The attempt before it failed."""
    RECLAIM = "reclaim"
    """The attempt before it was lost: with its holder, its lease or its machine."""
    REPLAY = "replay"
    """The run had ended, and was replayed."""


class Attempt(msgspec.Struct, kw_only=True):
    """An attempt at a run. Its worker, session and start are None if they are not known; the end,
    outcome and error are None while it lasts."""

    number: int
    kind: AttemptKind
    worker: str | None = None
    session: str | None = None
    started_at: int | None = None
    ended_at: int | None = None
    outcome: str | None = None
    error: bytes | None = None


LOST = "lost"
REVOKED = "revoked"

_PAUSES = (EventKind.WAIT_OPENED, EventKind.RUN_DELAYED, EventKind.CHILDREN_AWAITED)
_LOSSES = {EventKind.LEASE_LOST: LOST, EventKind.LEASE_REVOKED: REVOKED, EventKind.RUN_STUCK: LOST}
_ENDS = {
    EventKind.RUN_COMPLETED: "completed",
    EventKind.RUN_FAILED: "failed",
    EventKind.RUN_CANCELLED: "cancelled",
    EventKind.RUN_EXPIRED: "expired",
}
_FROM_OUTSIDE = (
    EventKind.PRIORITY_CHANGED,
    EventKind.RUN_RELEASED,
    EventKind.RUN_RESUMED,
    EventKind.RUN_FORKED,
    EventKind.CANCEL_REQUESTED,
)
"""Kinds of events that do not prove that a holder was at work."""


def attempts_of(run: RunRecord, history: Sequence[Event], worker: str | None) -> list[Attempt]:
    """Return the attempts at a run, oldest first. *worker* is the name of the holder that it has
    now. Raises BadData if the history cannot be read."""
    attempts = _Attempts(run)
    for event in history:
        attempts.add(event)
    if run.session_id is not None and run.status not in FINAL:
        current = attempts.begin(None)
        current.session = run.session_id
        current.worker = worker
    return attempts.done


class _Attempts:
    """The attempts that a history has told so far."""

    def __init__(self, run: RunRecord) -> None:
        self._run: RunRecord = run
        self._label: str = f"the history of run {run.id}"
        self._next: AttemptKind = AttemptKind.INITIAL
        self._open: Attempt | None = None
        self._last_failure: int = -1
        """The number of the event of the last failure, which the end of the run may repeat."""
        self._is_overridden: bool = False
        """Whether an operator ends the run."""
        self.done: list[Attempt] = []

    def begin(self, started_at: int | None) -> Attempt:
        """Return the attempt that lasts, or a new one."""
        if self._open is None:
            self._open = Attempt(number=len(self.done) + 1, kind=self._next)
            self.done.append(self._open)
        if self._open.started_at is None:
            is_first = self._open.number == 1
            self._open.started_at = self._run.started_at if is_first else started_at
        return self._open

    def add(self, event: Event) -> None:
        if event.kind == EventKind.RUN_REPLAYED:
            self._open = None
            self._next = AttemptKind.REPLAY
            self._is_overridden = False
        elif event.kind == EventKind.RUN_OVERRIDDEN:
            self._is_overridden = True
        elif event.kind in _LOSSES:
            self._end(event, _LOSSES[event.kind], AttemptKind.RECLAIM)
        elif event.kind == EventKind.ATTEMPT_FAILED:
            failure = str(self._data(event).get("kind"))
            is_lost = failure == FailureKind.INFRASTRUCTURE
            self._end(event, failure, AttemptKind.RECLAIM if is_lost else AttemptKind.RETRY)
            self._last_failure = event.seq
        elif event.kind in _ENDS:
            self._end_run(event)
        elif event.kind in _PAUSES or event.kind not in _FROM_OUTSIDE:
            self.begin(event.started_at if event.kind in _PAUSES else None)

    def _end_run(self, event: Event) -> None:
        """End the attempt with its run, unless the run ended between two attempts."""
        is_completed = event.kind == EventKind.RUN_COMPLETED and not self._is_overridden
        repeats_failure = self._last_failure == event.seq - 1 and not is_completed
        is_by_holder = event.started_at is not None or is_completed
        if self._open is not None or (is_by_holder and not repeats_failure):
            self._end(event, _ENDS[event.kind], AttemptKind.REPLAY)

    def _end(self, event: Event, outcome: str, then: AttemptKind) -> None:
        attempt = self.begin(event.started_at)
        data = self._data(event)
        attempt.session = data.get("session")
        attempt.worker = data.get("worker")
        attempt.ended_at = event.at
        attempt.outcome = outcome
        attempt.error = event.error
        self._open = None
        self._next = then

    def _data(self, event: Event) -> dict[str, Any]:
        return object_of(event.data, self._label)
