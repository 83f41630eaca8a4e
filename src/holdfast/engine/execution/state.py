"""The state of a run while a worker executes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from holdfast.core.event_table import STEP_ENDS
from holdfast.core.events import Event, EventKind
from holdfast.core.graphs.model import MARK
from holdfast.core.history import DEADLINE, HistoryProgress, StepLives
from holdfast.core.runs import RunRecord
from holdfast.core.status import Status


class RunState:
    """Facts about one leased run that several parts of its execution need."""

    __slots__ = (
        "cancel_seen",
        "cancelling",
        "expiring",
        "had_children",
        "in_graph",
        "is_finished",
        "is_over",
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
        self.progress: HistoryProgress = HistoryProgress(())
        self.lives: StepLives = StepLives(())
        self.cancelling: bool = run.status is Status.CANCELLING
        self.cancel_seen: bool = False
        """Whether the program has received the request to stop."""
        self.expiring: bool = False
        self.stopped_by: str = ""
        """The reason for which the program was asked to stop."""
        self.had_children: bool = False
        self.in_graph: bool = MARK in run.id
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

    def recall(self, history: Sequence[Event], events: Sequence[Event]) -> None:
        """Restore what an earlier holder had in memory; *events* are those of *history* that
        count."""
        self.progress = HistoryProgress(events)
        if not history:
            return
        self.seq = history[-1].seq
        self.steps = sum(event.kind in STEP_ENDS for event in events)
        self.lives = StepLives(history)
        self.cancel_seen = self.progress.cancelled is not None
        self.expiring = self.progress.expiring
        self.stopped_by = self.progress.cancelled or ""
        self.waited = self.progress.waited
        self.had_children = any(
            event.kind in (EventKind.CHILD_STARTED, EventKind.MAP_STARTED) for event in events
        )

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

    def reason_for_children(self) -> str:
        """Return the reason for which the children are cancelled when the run stops."""
        if self.expiring:
            return DEADLINE
        return self.stopped_by or "its parent failed"

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
