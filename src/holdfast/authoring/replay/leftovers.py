"""Detect divergence: recorded outcomes that the workflow code can no longer request.

An outcome is left over if the code has not requested it when its turn in the history comes.
Replaying the code that recorded a history leaves none: the code requests each outcome before its
turn, or has dropped the command itself. Changed code may leave some for a while, because a step
that was added before a recorded one runs first.

The code has diverged once it can no longer request a leftover that it must request:

- The workflow ends, with any status.
- The workflow begins to compensate, and the outcome does not belong to a compensation.
- The code issues a new command after it has passed the place of the outcome: its branch has
  requested something that was recorded as requested after that outcome.
- The code issues a new command, and no live code leads to the step, the child or the verb of the
  outcome any more.

The code need not request an outcome that was recorded after an event that a later replay of the
run declared void: it may have got there only because of the failure that the replay repeats.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from holdfast.core import typed_json
from holdfast.core.event_table import REQUESTS, STEP_ENDS
from holdfast.core.events import Event, EventKind


class _Replayed(msgspec.Struct):
    """The data of a ``RUN_REPLAYED`` event, as stored: sequence numbers of events."""

    void: list[int] = []
    since: int | None = None


class Leftovers:
    """The outcomes of one history that the code has not requested yet."""

    def __init__(self, history: Sequence[Event]) -> None:
        self._history: Sequence[Event] = history
        self.events: dict[str, Event] = {}
        """Leftover outcomes by step. The program checks in each turn whether there are any."""
        self._requested: set[str] | None = None
        self._optional: list[range] = _repeated_ranges(history)

    def keep(self, event: Event) -> None:
        """Keep an outcome until the code requests it."""
        self.events[event.step or ""] = event

    def take(self, step: str) -> Event | None:
        """Remove the outcome of *step* and return it; return None if there is none."""
        return self.events.pop(step, None)

    def has(self, step: str) -> bool:
        return step in self.events

    def note_requested(self, step: str) -> None:
        """Record that the code has requested *step*, which is in the history."""
        if self._requested is None:
            self._requested = set()
        self._requested.add(step)

    def required(self) -> list[Event]:
        """Return the outcomes that the code must still request, in the order of the history."""
        return [
            event
            for event in self.events.values()
            if not any(event.seq in seqs for seqs in self._optional)
        ]

    def is_passed(self, outcome: Event) -> bool:
        """Return whether the branch of *outcome* has requested something that the history records
        as requested after it."""
        if self._requested is None:
            return False
        branch = branch_of(outcome.step or "")
        return any(
            event.step in self._requested
            and branch_of(event.step or "") == branch
            and _requested_after(event, outcome)
            for event in self._history
        )


def _requested_after(event: Event, outcome: Event) -> bool:
    if event.kind in REQUESTS:
        return event.seq > outcome.seq
    if event.kind in STEP_ENDS and event.attempt == 1 and event.started_at is not None:
        return event.started_at > outcome.at
    return False


def _repeated_ranges(history: Iterable[Event]) -> list[range]:
    """Return the ranges of sequence numbers whose work a replay of the run has repeated."""
    ranges: list[range] = []
    for event in history:
        if event.kind == EventKind.RUN_REPLAYED:
            replayed = typed_json.decode(event.data or b"{}", _Replayed)
            since = replayed.since
            if since is None:
                since = min(replayed.void, default=event.seq)
            ranges.append(range(since, event.seq))
    return ranges


def branch_of(step: str) -> str:
    """Return the path of branches in which a step was called."""
    return step.rpartition("/")[0]
