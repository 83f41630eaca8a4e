"""The state of a run while a worker executes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from holdfast.core.event_table import STEP_ENDS
from holdfast.core.events import Event, EventKind
from holdfast.core.gates.model import Gate
from holdfast.core.history import HistoryProgress, LoadedHistory, StepLives
from holdfast.core.runs import PAST_DEADLINE, CancelCause, Cancellation, RunRecord
from holdfast.core.status import Status

_NO_PROGRESS = HistoryProgress()
_NO_LIVES = StepLives()
"""What runs without a history share, which is most runs: their empty sets and dictionaries would be
a tenth of the memory of a waiting run. Commands only take parts of them; ``note_called`` replaces
the first before it adds one."""


class AwaitedChildren:
    """The waits of a run for single children."""

    __slots__ = ("revision", "unread", "waits")

    def __init__(self, revision: int) -> None:
        self.revision: int = revision
        """The revision of the run up to which the ends of its children were read."""
        self.waits: dict[str, list[Any]] = {}
        """The waits for each child, by its run id."""
        self.unread: list[Any] = []
        """The waits for children that may have ended before the run waited for them."""


class RunState:
    """Facts about one leased run that several parts of its execution need."""

    __slots__ = (
        "cancel_seen",
        "cancelling",
        "changes_version",
        "checkpoint",
        "checkpoint_progress",
        "children",
        "expiring",
        "gates_revision",
        "had_children",
        "in_graph",
        "is_finished",
        "is_over",
        "known_gates",
        "lives",
        "now",
        "progress",
        "resumes",
        "revision",
        "run",
        "seq",
        "steps",
        "stopped_by",
        "waited",
        "waiting",
        "waiting_since",
    )

    def __init__(self, run: RunRecord, now: Callable[[], int]) -> None:
        self.run: RunRecord = run
        self.now: Callable[[], int] = now
        self.seq: int = 0
        """The number of the last event of the history."""
        self.steps: int = 0
        """The number of recorded ends of steps that count."""
        self.revision: int = run.revision
        """The revision of the run that this worker has seen."""
        self.gates_revision: int = run.revision
        """The revision of the run up to which the ends of its gates were read."""
        self.children: AwaitedChildren = AwaitedChildren(run.revision)
        self.known_gates: dict[str, Gate] | None = None
        """The gates of earlier holders, by id, from when they are read until commands take them."""
        self.progress: HistoryProgress = _NO_PROGRESS
        """The progress that earlier holders have recorded; commands take their parts of it."""
        self.lives: StepLives = _NO_LIVES
        self.checkpoint: Event | None = None
        """The last checkpoint whose progress is known."""
        self.checkpoint_progress: HistoryProgress | None = None
        self.cancelling: bool = run.status is Status.CANCELLING
        self.changes_version: bool = False
        """Whether the next commit lets the run continue with another version."""
        self.cancel_seen: bool = False
        """Whether the program has received the request to stop."""
        self.expiring: bool = False
        self.stopped_by: str = ""
        """The reason for which the program was asked to stop."""
        self.had_children: bool = False
        self.in_graph: bool = run.graph_id is not None
        self.waited: set[str] = set()
        """The steps of waits that may still be open."""
        self.waiting: bool = False
        """Whether the run is parked, and stays in memory."""
        self.waiting_since: int = 0
        self.resumes: bool = False
        """Whether the run has waited in memory and has begun no step since."""
        self.is_over: bool = False
        """Whether this worker is done with the run."""
        self.is_finished: bool = False

    def recall(self, history: Sequence[Event], loaded: LoadedHistory) -> None:
        """Restore what an earlier holder had in memory."""
        progress = loaded.progress
        self.progress = progress
        self.lives = loaded.lives
        self.seq = history[-1].seq
        self.steps = progress.steps
        self.cancel_seen = progress.cancelled is not None
        self.expiring = progress.expiring
        self.stopped_by = progress.cancelled or ""
        self.waited = progress.waited
        self.had_children = progress.had_children
        if loaded.base is not None:
            self.checkpoint = loaded.checkpoint
            self.checkpoint_progress = loaded.base

    def note_called(self, step: str) -> None:
        """Note that the arguments of a step are recorded."""
        if self.progress is _NO_PROGRESS:
            self.progress = HistoryProgress()
        self.progress.called.add(step)

    def join_graph(self, graph_id: str) -> None:
        """Note that the run has become a member of a graph: its end is to resolve the graph."""
        self.run.graph_id = graph_id
        self.in_graph = True

    # Stopping

    def request_stop(self, reason: str, *, expire: bool = False, wait: str | None = None) -> Event:
        """Return the event that asks the program to stop; *wait* is the step whose time was up."""
        self.cancel_seen = True
        self.cancelling = True
        self.expiring = expire
        self.stopped_by = reason
        data: dict[str, object] = {"reason": reason, "expire": expire}
        if wait is not None:
            data["wait"] = wait
        return Event(EventKind.CANCEL_REQUESTED, None, msgspec.json.encode(data))

    def cancellation_of_children(self) -> Cancellation:
        """Return the request by which the run cancels its children when it stops."""
        if self.expiring:
            return PAST_DEADLINE
        return Cancellation(self.stopped_by or "its parent failed", CancelCause.PARENT)

    def is_about_to_stop(self) -> bool:
        """Return whether the program is about to be asked to stop, and may then drop its pending
        commands."""
        if self.cancel_seen:
            return False
        deadline = self.run.deadline
        return self.cancelling or (deadline is not None and deadline <= self.now())

    def active_status(self) -> Status:
        """Return the status of the run while it does not wait."""
        return Status.CANCELLING if self.cancelling else Status.RUNNING

    # Numbering

    def set_times(self, events: Sequence[Event]) -> None:
        """Date the events now.

        The program lives by the time of the events that it is fed, and must see the same time in
        every replay.
        """
        now = 0
        for event in events:
            if not event.at:
                now = now or self.now()
                event.at = now

    def number(self, events: Sequence[Event]) -> None:
        """Give the events the next numbers of the history."""
        for event in events:
            self.seq += 1
            event.seq = self.seq
            if event.kind in STEP_ENDS:
                self.steps += 1
