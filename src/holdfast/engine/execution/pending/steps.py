"""Steps: attempts that run, or wait for their next attempt, or for room in a budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from holdfast.core.budgets import rules as budget_rules
from holdfast.core.budgets.model import Breach
from holdfast.core.commands import RunStep
from holdfast.core.events import Event, EventKind
from holdfast.core.history import error_message
from holdfast.core.streams.model import CloseReason
from holdfast.core.waits import WaitKind
from holdfast.engine.execution.attempt_spending import AttemptSpending
from holdfast.engine.execution.pending.base import Execution, Handler, Pending
from holdfast.store.budgets.operations import RecordSpending, ReleaseReservations


class Cancellable(Protocol):
    """An attempt at a step that can be asked to stop."""

    def cancel(self) -> object:
        """Ask the attempt to stop."""


class PendingStep(Pending):
    """A step that runs, or waits for its next attempt or for room in a budget."""

    __slots__ = (
        "attempt",
        "blocked",
        "demand",
        "is_noted",
        "last_error",
        "releases",
        "retry_at",
        "spending",
        "started_at",
        "task",
    )

    is_timed = True
    ends_by_release = True

    def __init__(self, command: RunStep, attempt: int, retry_at: int | None) -> None:
        self.command: RunStep = command
        self.attempt: int = attempt
        self.retry_at: int | None = retry_at
        self.started_at: int | None = None
        self.task: Cancellable | None = None
        self.last_error: str | None = None
        """The message of the error of the attempt before this one."""
        self.is_noted: bool = False
        """Whether the history says that the attempt has begun."""
        self.releases: Sequence[int] = ()
        """The signals by which an operator let the next attempt begin at once. They are consumed
        together with the outcome of the attempt: if the worker dies before, the next holder must
        find them again."""
        self.blocked: Breach | None = None
        self.demand: dict[str, int] = {}
        self.spending: AttemptSpending | None = None

    @property
    def due_at(self) -> int | None:
        return self.retry_at

    @property
    def is_running(self) -> bool:
        return self.retry_at is None and self.blocked is None

    def as_wait(self) -> dict[str, Any] | None:
        if self.blocked is not None:
            return budget_rules.as_wait(self.blocked, self.command.id)
        if self.retry_at is None:
            return None
        return {
            "kind": WaitKind.RETRY,
            "step": self.command.id,
            "until": self.retry_at,
            "attempt": self.attempt,
        }

    def on_time(self, run: Execution, now: int) -> None:
        self.retry_at = None
        run.pending.launches.append(self)

    def on_change(self, run: Execution) -> None:
        if self.retry_at is None:
            return
        self.apply_release(run)
        if self.retry_at is None:
            run.pending.launches.append(self)

    def on_drop(self, run: Execution) -> None:
        if self.spending is not None:
            record_dropped_spending(run, self.command.id, self.spending)
            if self.spending.reserved:
                run.commit.add(ReleaseReservations((self.command.id,)))
                run.budget.reserved_steps.discard(self.command.id)
        if self.task is not None:
            self.task.cancel()
        run.output.close_attempt(self.command.id, self.attempt, CloseReason.DROPPED)
        # The history says that the attempt has begun, so it must say that it ended.
        if self.is_noted:
            event = Event(EventKind.STEP_DROPPED, self.command.id, attempt=self.attempt)
            event.role = self.command.role
            run.commit.events.append(event)

    def on_close(self) -> None:
        if self.task is not None:
            self.task.cancel()

    def retry_after(self, run: Execution, event: Event) -> None:
        """Wait for the next attempt, after this outcome of the last one."""
        self.attempt = event.attempt + 1
        self.last_error = error_message(event)
        self.task = None
        self.retry_at = msgspec.json.decode(event.data or b"{}")["until"]
        run.pending.schedule(self, run.mailbox)

    def apply_release(self, run: Execution) -> None:
        """Start the next attempt now if an operator released this step."""
        self.releases = run.signals.releases_of(self.command.id)
        if self.releases:
            self.retry_at = None

    def clear_release(self, run: Execution) -> None:
        """Consume the releases of this step: the attempt that they let begin has ended."""
        releases = {*self.releases, *run.signals.take_releases(self.command.id)}
        if releases:
            run.commit.take(sorted(releases))
        self.releases = ()


def record_dropped_spending(run: Execution, step: str, spending: AttemptSpending) -> None:
    """Record the facts that an unwanted attempt has spent: its outcome is dropped, they are not."""
    spending.drop()
    if spending.entries:
        run.commit.add(RecordSpending(run.state.run.budgets, spending.take()))


def _run_step(run: Execution, command: RunStep) -> None:
    progress = run.state.progress
    if command.kept_args is not None and command.id not in progress.called:
        _record_args(run, command, command.kept_args())
    attempts = progress.attempts.pop(command.id, 0)
    retry_at = progress.until.pop(command.id, None) if attempts else None
    if retry_at is not None and retry_at <= run.state.now():
        retry_at = None
    step = PendingStep(command, attempts + 1, retry_at)
    if attempts:
        step.last_error = progress.last_errors.pop(command.id, None)
    run.pending.add(step)
    if step.retry_at is not None:
        step.apply_release(run)
    if step.retry_at is not None:
        run.pending.schedule(step, run.mailbox)
    elif not command.own:
        run.pending.launches.append(step)
    else:
        _started_by_program(run, step)


def _record_args(run: Execution, command: RunStep, data: bytes) -> None:
    """Record the arguments of a step with the commit that precedes it."""
    run.state.note_called(command.id)
    event = Event(EventKind.STEP_CALLED, command.id, data)
    event.role = command.role
    run.commit.events.append(event)


def _started_by_program(run: Execution, step: PendingStep) -> None:
    """Note that the program makes this attempt itself; it may have ended already."""
    step.started_at = run.state.now()
    early = run.pending.early.pop(step.command.id, None)
    if early is not None:
        run.attempt_ended(step.command.id, *early)


def begin_one_step(run: Execution, commands: Sequence[Any]) -> bool:
    """Execute *commands* if they are one step, and return whether they are.

    Most turns want nothing else, and a step has no outcome at once: this saves the general way.
    """
    if len(commands) != 1 or type(commands[0]) is not RunStep:
        return False
    _run_step(run, commands[0])
    return True


HANDLERS: dict[type, Handler] = {RunStep: _run_step}
