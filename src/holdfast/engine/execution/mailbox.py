"""The mailbox of an execution: outcomes, findings and notifications since its last turn.

Invariants:
- Findings are taken one by one, in the order of the instants at which they happened. An outcome of
  an attempt that ended before a finding comes first.
- A finding that the program no longer waits for leads to nothing, so a signal that lost a race
  stays in the store for the next wait.
- The flags are cleared after the store was read, so an error of the read leaves them set. No
  report is lost in between: reports arrive on the loop that reads, which does nothing else then.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from holdfast.core.events import Event
from holdfast.engine.execution.findings import FACT, Finding, finding
from holdfast.engine.runtime.inline_task import Completion
from holdfast.engine.runtime.timer_queue import TimerHandle, TimerQueue
from holdfast.store.runs.queries import RunUpdate


class Mailbox:
    """The reports to one execution since its last turn, and the means to wake it."""

    __slots__ = (
        "_timer",
        "completion",
        "due_at",
        "findings",
        "gate_is_overdue",
        "has_new_signals",
        "is_notified",
        "outcomes",
        "spending_outcomes",
        "update",
    )

    def __init__(self) -> None:
        self.outcomes: list[tuple[Event, Any]] = []
        """The outcomes of attempts, dated, each with its spending. Not a deque, which takes 600
        bytes when it is empty."""
        self.spending_outcomes: list[tuple[Event, Any]] = []
        """Completed attempts that spend: their outcome stands when there is room for it."""
        self.is_notified: bool = False
        """Whether something has reached the run from outside that was not read yet."""
        self.has_new_signals: bool = False
        """Whether there are signals that the waits of the run were not asked about yet."""
        self.update: RunUpdate | None = None
        """The state of the run in the store, if it was read for many runs at once."""
        self.gate_is_overdue: bool = False
        self.due_at: int | None = None
        """When the passing of time changes something for the run, at the earliest."""
        self.completion: Completion | None = None
        self.findings: list[Finding] = []
        """A heap of what has happened and was not fed to the program yet."""
        self._timer: TimerHandle | None = None

    # What others report

    def notify(self, update: RunUpdate | None = None) -> None:
        """Report that something has reached the run from outside."""
        self.is_notified = True
        self.update = update
        self.wake()  # an execution that sleeps reads the update right here, in this call
        self.update = None

    def add_outcome(self, event: Event, spending: Any) -> None:
        """Report the outcome of an attempt."""
        self.outcomes.append((event, spending))
        if self.completion is not None:
            self.wake()

    def add_finding(
        self, instant: int, take: Callable[[list[Event]], None], rank: int = FACT
    ) -> None:
        """Report something that happened at *instant*; *take* appends the events it leads to."""
        heappush(self.findings, finding(instant, take, rank))

    def schedule_check(self, instant: int | None) -> None:
        """Let the execution check for due commands at *instant*, at the latest."""
        if instant is not None and (self.due_at is None or instant < self.due_at):
            self.due_at = instant

    # What the execution reads

    def is_due(self, now: int) -> bool:
        """Return whether the passing of time has changed something."""
        return self.due_at is not None and self.due_at <= now

    def is_busy(self) -> bool:
        """Return whether anything waits here to be processed, time apart."""
        return bool(self.findings or self.outcomes or self.is_notified or self.has_new_signals)

    def take_outcomes(self) -> list[tuple[Event, Any]]:
        """Remove and return all outcomes."""
        outcomes = self.outcomes
        self.outcomes = []
        return outcomes

    def next_outcome(self) -> tuple[Event, Any] | None:
        """Return the next outcome, None if a finding precedes it. There must be one."""
        if self.findings and self.outcomes[0][0].at > self.findings[0].instant:
            return None
        return self.outcomes.pop(0)

    def next_events(self) -> list[Event]:
        """Return the events of the next finding; none if an attempt ended before it."""
        events: list[Event] = []
        while self.findings and not events:
            if self.outcomes and self.outcomes[0][0].at <= self.findings[0].instant:
                break
            heappop(self.findings).take(events)
        return events

    # Sleeping

    def wake(self) -> None:
        """Resume the execution, if it sleeps."""
        if self.completion is not None and not self.completion.done():
            self.completion.set_result(None)

    async def sleep(self, wake_at: int | None, timers: TimerQueue) -> None:
        """Wait until something is reported, or until *wake_at*."""
        self.completion = Completion()
        if self._timer is not None:
            self._timer.cancel()
        if wake_at is not None:
            self._timer = timers.at(wake_at, self.wake)
        # Checked after the completion exists: a report from now on completes it.
        if not (self.outcomes or self.is_notified or self.has_new_signals):
            await self.completion
        self.completion = None

    async def sleep_until_outcome(self) -> None:
        """Wait for the outcome of an attempt; everything else has time until then."""
        self.completion = Completion()
        self.cancel_timer()
        if not self.outcomes:
            await self.completion
        self.completion = None

    def cancel_timer(self) -> None:
        """Cancel the timer of the last sleep."""
        if self._timer is not None:
            self._timer.cancel()

    def close(self) -> None:
        """Forget everything: findings refer to the execution, and both would wait for the garbage
        collector."""
        self.cancel_timer()
        self.findings.clear()
