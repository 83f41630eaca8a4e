"""How to continue from a stored history: live events, progress, and what a replay voids."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import msgspec

from holdfast.core import typed_json
from holdfast.core.event_table import OUTCOMES, STEP_ENDS, OnReplay, kinds_with
from holdfast.core.events import Event, EventKind, EventRole, is_compensation


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
    compensated, all events are void. So are the steps that the program has marked as repeated.
    The failed end of a child that was followed by another attempt is not.
    """
    events = live_events(history)
    if was_undone(events):
        return [event.seq for event in events]
    start = None
    if from_step is not None:
        start = _first_of(events, from_step)
        if start is None:
            return None
    timed_out = _timed_out(events)
    kept = {f"{step} end" for step in superseded(events)}
    repeated = tuple(
        event.step or "" for event in events if event.role == EventRole.REPEATED and event.step
    )
    void = {
        event.seq
        for event in events
        if (_is_void(event, timed_out) and event.step not in kept)
        or (start is not None and event.seq >= start)
        or (repeated and event.step is not None and event.step.startswith(repeated))
    }
    reopened = {event.step for event in events if _reopens_gate(event)}
    void.update(
        event.seq
        for event in events
        if event.kind in _VOID_IF_GATE_REOPENS and event.step in reopened
    )
    outcomes = [event.seq for event in events if event.seq in void and event.kind in OUTCOMES]
    if outcomes:
        void.update(
            event.seq
            for event in events
            if event.kind in _VOID_IF_OUTCOME_VOID and event.seq > outcomes[0]
        )
    return sorted(void)


def _first_of(events: Sequence[Event], step: str) -> int | None:
    """Return the number of the first event of a step, or of a command inside it; None if there is
    none."""
    exact = next((event.seq for event in events if event.step == step), None)
    if exact is not None:
        return exact
    inside = f"{step}/"
    return next(
        (event.seq for event in events if event.step is not None and event.step.startswith(inside)),
        None,
    )


def superseded(events: Sequence[Event]) -> set[str]:
    """Return the starts of children that were followed by another attempt."""
    return {event.step or "" for event in events if event.role == EventRole.SUPERSEDED}


def _reopens_gate(event: Event) -> bool:
    """Return whether the gate of this event is opened again by a replay."""
    if event.kind == EventKind.GATE_CLOSED:
        return bool(event.error)
    return event.kind == EventKind.GATE_WITHDRAWN


def was_undone(events: Sequence[Event]) -> bool:
    """Return whether any step was compensated: then no completed step counts any more."""
    return any(
        event.kind == EventKind.STEP_COMPLETED and is_compensation(event.role) for event in events
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
_VOID_IF_OUTCOME_VOID = kinds_with(OnReplay.VOID_IF_OUTCOME_VOID)


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


def error_message(event: Event) -> str:
    """Return the message of the error of an event; the name of its type if it has none."""
    error = msgspec.json.decode(event.error or b"{}")
    return str(error.get("message") or error.get("type") or "")


class StepLives(msgspec.Struct):
    """How often each step was repeated after a replay had voided completed work.

    The life of a step is part of its idempotency key. A replay begins a new life for a step that
    had completed, and for every step after repeated work, because its input may differ. A step that
    only failed keeps its life, as in every retry and after every crash: its effect is unknown, and
    the key keeps it from happening twice.
    """

    replays: int = 0
    """The number of replays that have repeated completed work."""
    kept: dict[str, int] = {}
    """The replays that began no new life for a step, because it precedes the repeated work."""
    epoch: int = 0
    """How often all work of the run was voided."""

    def of(self, step: str) -> int:
        """Return the life of a step; the first is 0."""
        if not self.replays:
            return 0
        return self.replays - self.kept.get(step, 0)

    def read(self, history: Sequence[Event]) -> None:
        """Count the replays in a whole history."""
        if not any(event.kind == EventKind.RUN_REPLAYED for event in history):
            return
        live: dict[int, Event] = {}
        for event in history:
            if event.kind == EventKind.RUN_REPLAYED:
                void = set(_data(event).get("void", ()))
                self._note(list(live.values()), void)
                live = {seq: kept for seq, kept in live.items() if seq not in void}
            else:
                live[event.seq] = event

    def _note(self, live: Sequence[Event], void: set[int]) -> None:
        outcomes = [
            event for event in live if event.kind in OUTCOMES and not _is_void(event, set())
        ]
        repeated = [event.seq for event in outcomes if event.seq in void]
        if not repeated:
            return
        self.replays += 1
        self.epoch += len(repeated) == len(outcomes)
        for step in {
            event.step for event in live if event.step is not None and event.seq < repeated[0]
        }:
            self.kept[step] = self.kept.get(step, 0) + 1


_OPENED_WAITS = frozenset(
    {EventKind.WAIT_CREATED, EventKind.WAIT_OPENED, EventKind.INCIDENT_RAISED}
)


class HistoryProgress(msgspec.Struct, omit_defaults=True):
    """The facts that the next holder of a run needs to continue its commands, by step."""

    attempts: dict[str, int] = {}
    until: dict[str, int | None] = {}
    last_errors: dict[str, str] = {}
    """The messages of failed attempts that are followed by another one."""
    cancelled: str | None = None
    expiring: bool = False
    maps: set[str] = set()
    gates: dict[str, str] = {}
    escalated: dict[str, int] = {}
    waited: set[str] = set()
    """The steps of waits that may still be open."""
    replayed: bool = False
    had_children: bool = False
    has_code_reservation: bool = False
    """Whether the code of the workflow itself has reserved amounts."""
    steps: int = 0
    """The number of recorded ends of steps."""
    subscribed: set[str] = set()
    """The steps that have subscribed to messages and may still wait."""
    called: set[str] = set()
    """The steps whose arguments are recorded, since the last replay."""

    def read(self, events: Sequence[Event]) -> HistoryProgress:
        """Add later events, none of which is void; return this object."""
        for event in events:
            self._note(event)
        return self

    def _note(self, event: Event) -> None:
        step = event.step or ""
        kind = event.kind
        if kind in STEP_ENDS:
            self.steps += 1
        elif kind == EventKind.STEP_RETRIED:
            self.attempts[step] = event.attempt
            self.until[step] = _data(event)["until"]
            self.last_errors[step] = error_message(event)
        elif kind in (EventKind.TIMER_SET, EventKind.SIGNAL_AWAITED):
            self.until[step] = _data(event)["until"]
        elif kind == EventKind.GATE_OPENED:
            self.gates[step] = _data(event)["gate"]
        elif kind == EventKind.GATE_WITHDRAWN:
            self.gates.pop(step, None)
        elif kind == EventKind.STEP_CALLED:
            self.called.add(step)
        elif kind == EventKind.MESSAGE_AWAITED:
            self.subscribed.add(step)
        elif kind in (EventKind.MESSAGE_RECEIVED, EventKind.MESSAGE_DROPPED):
            self.subscribed.discard(step)
        elif event.step is None:
            self._note_request(event)
        else:
            self._note_children(event)
            self._note_wait(event, step)

    def _note_request(self, event: Event) -> None:
        """Note an event of the run as a whole."""
        if event.kind == EventKind.CANCEL_REQUESTED:
            self.cancelled = _data(event).get("reason", "")
            self.expiring = bool(_data(event).get("expire"))
        elif event.kind == EventKind.RUN_REPLAYED:
            self.replayed = True
            self.called.clear()  # the replay may repeat the calls with other arguments

    def _note_children(self, event: Event) -> None:
        if event.kind == EventKind.MAP_STARTED:
            self.maps.add(event.step or "")
        if event.kind in (EventKind.MAP_STARTED, EventKind.CHILD_STARTED):
            self.had_children = True
        elif event.kind == EventKind.BUDGET_RESERVED:
            self.has_code_reservation = True

    def _note_wait(self, event: Event, step: str) -> None:
        if event.kind in _OPENED_WAITS:
            self.waited.add(step)
        elif event.kind in (EventKind.INCIDENT_RESOLVED, EventKind.INCIDENT_DROPPED):
            self.waited.discard(step)
        if event.kind == EventKind.WAIT_OPENED:
            self.until[step] = _data(event)["until"]
        elif event.kind == EventKind.WAIT_ESCALATED:
            self.until[step] = None
            self.escalated[step] = event.at

    def copy(self) -> HistoryProgress:
        """Return a copy that shares nothing with this object."""
        return msgspec.structs.replace(
            self,
            attempts=dict(self.attempts),
            until=dict(self.until),
            last_errors=dict(self.last_errors),
            maps=set(self.maps),
            gates=dict(self.gates),
            escalated=dict(self.escalated),
            waited=set(self.waited),
            subscribed=set(self.subscribed),
            called=set(self.called),
        )

    def keep_only(self, steps: Container[str]) -> None:
        """Forget the commands that have ended: all but *steps*."""
        self.attempts = {step: count for step, count in self.attempts.items() if step in steps}
        self.until = {step: instant for step, instant in self.until.items() if step in steps}
        self.last_errors = {step: text for step, text in self.last_errors.items() if step in steps}
        self.maps = {step for step in self.maps if step in steps}
        self.called = {step for step in self.called if step in steps}
        self.gates = {step: gate for step, gate in self.gates.items() if step in steps}
        self.subscribed = {step for step in self.subscribed if step in steps}
        self.escalated = {step: since for step, since in self.escalated.items() if step in steps}


class StoredCheckpoint(msgspec.Struct):
    """The data of a ``CHECKPOINT_WRITTEN`` event: the state of the program, and the facts about
    earlier events that the engine needs."""

    state: msgspec.Raw
    progress: HistoryProgress
    lives: StepLives
    replays: int = 0
    """How often the run was replayed."""


class LoadedHistory(msgspec.Struct):
    """A stored history, as a program and its execution continue from it."""

    events: list[Event] = []
    """The events that count, without those before the checkpoint."""
    state: bytes | None = None
    """The state of the program at the checkpoint."""
    base: HistoryProgress | None = None
    """The progress at the checkpoint, if the history begins there."""
    progress: HistoryProgress = msgspec.field(default_factory=HistoryProgress)
    lives: StepLives = msgspec.field(default_factory=StepLives)
    replays: int = 0
    checkpoint: Event | None = None


def load(history: Sequence[Event]) -> LoadedHistory:
    """Return how to continue from a history, which is either whole or begins with the last
    checkpoint. In the latter case no replay came after that checkpoint."""
    events = live_events(history)
    checkpoint = next(
        (event for event in reversed(events) if event.kind == EventKind.CHECKPOINT_WRITTEN), None
    )
    if checkpoint is None:
        return _loaded_whole(history, events)
    stored = typed_json.decode(checkpoint.data or b"", StoredCheckpoint)
    later = [event for event in events if event.seq > checkpoint.seq]
    if history[0].seq == 1:  # whole: after a replay, the stored progress may have void parts
        loaded = _loaded_whole(history, events)
        loaded.events = later
    else:
        loaded = LoadedHistory(
            events=later,
            base=stored.progress,
            progress=stored.progress.copy().read(later),
            lives=stored.lives,
            replays=stored.replays,
        )
    loaded.state = bytes(stored.state)
    loaded.checkpoint = checkpoint
    return loaded


def _loaded_whole(history: Sequence[Event], events: list[Event]) -> LoadedHistory:
    lives = StepLives()
    lives.read(history)
    return LoadedHistory(
        events=events,
        progress=HistoryProgress().read(events),
        lives=lives,
        replays=sum(event.kind == EventKind.RUN_REPLAYED for event in history),
    )


def without_checkpoints_after(events: Sequence[Event], first: int) -> list[Event]:
    """Return the events of a fork without the checkpoints after event *first*: their states refer
    to something that the fork does not take over."""
    return [
        event for event in events if event.kind != EventKind.CHECKPOINT_WRITTEN or event.seq < first
    ]


def _data(event: Event) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.json.decode(event.data or b"{}")
    return data
