"""How to continue from a stored history: live events, progress, and what a replay voids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.core.event_table import OUTCOMES, OnReplay, kinds_with
from holdfast.core.events import Event, EventKind

UNDONE = "undo "
DEADLINE = "deadline"
DROPPED = "nobody waits for it any more"
"""The reason for which a child is cancelled that its parent no longer waits for."""


def live_events(history: Sequence[Event]) -> list[Event]:
    """Return the events that count, without those voided by a replay."""
    void: set[int] = set()
    for event in history:
        if event.kind == EventKind.RUN_REPLAYED:
            void.update(msgspec.json.decode(event.data or b"{}").get("void", ()))
    return [event for event in history if event.seq not in void]


def voided_by_replay(history: Sequence[Event], from_step: str | None) -> list[int] | None:
    """Return the numbers of the events that a replay of a finished run voids; None if the run has
    no step *from_step*.

    Failures and the end of the run are void, and all events from *from_step* on. If any step was
    compensated, all events are void.
    """
    events = live_events(history)
    if was_undone(events):
        return [event.seq for event in events]
    start = None
    if from_step is not None:
        start = next((event.seq for event in events if event.step == from_step), None)
        if start is None:
            return None
    timed_out = _timed_out(events)
    void = {
        event.seq
        for event in events
        if _is_void(event, timed_out) or (start is not None and event.seq >= start)
    }
    reopened = {event.step for event in events if _reopens_gate(event)}
    void.update(
        event.seq
        for event in events
        if event.kind in _VOID_IF_GATE_REOPENS and event.step in reopened
    )
    return sorted(void)


def _reopens_gate(event: Event) -> bool:
    """Return whether the gate of this event is opened again by a replay."""
    if event.kind == EventKind.GATE_CLOSED:
        return bool(event.error)
    return event.kind == EventKind.GATE_WITHDRAWN


def was_undone(events: Sequence[Event]) -> bool:
    """Return whether any step was compensated: then no completed step counts any more."""
    return any(
        event.kind == EventKind.STEP_COMPLETED
        and (event.step or "").rsplit("/", 1)[-1].startswith(UNDONE)
        for event in events
    )


def _timed_out(events: Sequence[Event]) -> set[str]:
    """Return the waits that timed out: a repeated wait gets its full time."""
    late = {
        event.step or ""
        for event in events
        if event.kind in (EventKind.SIGNAL_TIMED_OUT, EventKind.WAIT_TIMED_OUT)
    }
    return late | {
        str(_data(event).get("wait"))
        for event in events
        if event.kind == EventKind.CANCEL_REQUESTED
    }


_VOID = kinds_with(OnReplay.VOID)
_VOID_IF_FAILED = kinds_with(OnReplay.VOID_IF_FAILED)
_VOID_IF_TIMED_OUT = kinds_with(OnReplay.VOID_IF_TIMED_OUT)
_VOID_IF_GATE_REOPENS = kinds_with(OnReplay.VOID_IF_GATE_REOPENS)


def _is_void(event: Event, timed_out: set[str]) -> bool:
    """Return whether a replay repeats what the event records; *timed_out* are the waits whose time
    was up."""
    if event.kind in _VOID_IF_FAILED:
        return event.error is not None
    if event.kind in _VOID_IF_TIMED_OUT:
        return event.step in timed_out
    return event.kind in _VOID


def renumber(events: Sequence[Event]) -> None:
    """Number the events of a fork from 1 on; events that a replay voided are left out."""
    old = [event.seq for event in events]
    for seq, event in enumerate(events, start=1):
        event.seq = seq
        if event.kind == EventKind.RUN_REPLAYED:
            data = _data(event)
            first = data.get("since") or min(data.get("void", ()), default=old[seq - 1])
            since = 1 + sum(number < first for number in old)
            event.data = msgspec.json.encode({"void": [], "since": since})


class StepLives:
    """How often each step was repeated after a replay had voided completed work.

    The life of a step is part of its idempotency key. A replay begins a new life for a step that
    had completed, and for every step after repeated work, because its input may differ. A step that
    only failed keeps its life, as in every retry and after every crash: its effect is unknown, and
    the key keeps it from happening twice.
    """

    def __init__(self, history: Sequence[Event]) -> None:
        self._replays = 0
        self._kept: dict[str, int] = {}
        """The replays that began no new life for a step, because it precedes the repeated work."""
        self.epoch = 0
        """How often all work of the run was voided."""
        if any(event.kind == EventKind.RUN_REPLAYED for event in history):
            self._read(history)

    def of(self, step: str) -> int:
        """Return the life of a step; the first is 0."""
        return self._replays - self._kept.get(step, 0) if self._replays else 0

    def _read(self, history: Sequence[Event]) -> None:
        live: dict[int, Event] = {}
        for event in history:
            if event.kind == EventKind.RUN_REPLAYED:
                void = set(_data(event).get("void", ()))
                self._note(list(live.values()), void)
                live = {seq: one for seq, one in live.items() if seq not in void}
            else:
                live[event.seq] = event

    def _note(self, live: Sequence[Event], void: set[int]) -> None:
        outcomes = [
            event for event in live if event.kind in OUTCOMES and not _is_void(event, set())
        ]
        repeated = [event.seq for event in outcomes if event.seq in void]
        if not repeated:
            return
        self._replays += 1
        self.epoch += len(repeated) == len(outcomes)
        for step in {
            event.step for event in live if event.step is not None and event.seq < repeated[0]
        }:
            self._kept[step] = self._kept.get(step, 0) + 1


class HistoryProgress:
    """Commands that had begun and not ended, by step."""

    def __init__(self, history: Sequence[Event]) -> None:
        self.attempts: dict[str, int] = {}
        self.until: dict[str, int | None] = {}
        self.cancelled: str | None = None
        self.expiring = False
        self.maps: set[str] = set()
        self.gates: dict[str, str] = {}
        self.escalated: dict[str, int] = {}
        self.waited: set[str] = set()
        self.replayed = False
        for event in history:
            self._note(event)

    def _note(self, event: Event) -> None:
        step = event.step or ""
        if event.kind == EventKind.STEP_RETRIED:
            self.attempts[step] = event.attempt
            self.until[step] = _data(event)["until"]
        elif event.kind in (EventKind.TIMER_SET, EventKind.SIGNAL_AWAITED):
            self.until[step] = _data(event)["until"]
        elif event.kind == EventKind.GATE_OPENED:
            self.gates[step] = _data(event)["gate"]
        elif event.kind == EventKind.GATE_WITHDRAWN:
            self.gates.pop(step, None)
        elif event.kind == EventKind.MAP_STARTED:
            self.maps.add(step)
        elif event.kind == EventKind.CANCEL_REQUESTED:
            self.cancelled = _data(event).get("reason", "")
            self.expiring = bool(_data(event).get("expire")) or self.cancelled == DEADLINE
        elif event.kind == EventKind.RUN_REPLAYED:
            self.replayed = True
        else:
            self._note_wait(event, step)

    def _note_wait(self, event: Event, step: str) -> None:
        if event.kind in (EventKind.WAIT_CREATED, EventKind.WAIT_OPENED):
            self.waited.add(step)
        if event.kind == EventKind.WAIT_OPENED:
            self.until[step] = _data(event)["until"]
        elif event.kind == EventKind.WAIT_ESCALATED:
            self.until[step], self.escalated[step] = None, event.at


def _data(event: Event) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(event.data or b"{}")
    return found
