"""The interface of pending commands, and the parts of their execution that they may use.

A pending command is a command without an outcome yet. It answers for itself what happens when time
passes, when something reaches the run from outside, and when the code drops it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, ItemsView, Sequence, ValuesView
from heapq import heappop, heappush
from typing import Any, Protocol, TypeVar

from holdfast.core.budgets.model import Breach
from holdfast.core.commands import Command
from holdfast.core.events import Event
from holdfast.core.program import Program
from holdfast.engine.execution.budget_guard import BudgetGuard
from holdfast.engine.execution.commit_buffer import CommitBuffer
from holdfast.engine.execution.mailbox import Mailbox
from holdfast.engine.execution.output_buffer import OutputBuffer
from holdfast.engine.execution.program_context import ExecutionServices
from holdfast.engine.execution.signal_buffer import SignalBuffer
from holdfast.engine.execution.signing_keys import SigningKeys
from holdfast.engine.execution.state import RunState
from holdfast.engine.runtime.context import WorkerContext
from holdfast.engine.runtime.program_loop import FeedAhead
from holdfast.store.runs.queries import RunUpdate

_numbers = itertools.count()

P = TypeVar("P", bound="Pending")


class Pending:
    """A command whose outcome is not known yet."""

    __slots__ = ("command",)

    command: Any

    is_timed = False
    """Whether only the passing of time ends it: a short wait of this kind stays in memory."""

    is_listed_whole = True
    """Whether the row of a parked run lists all waits of this kind. Of kinds that may be thousands,
    and that the store does not look up there, it lists the first."""

    ends_by_release = False
    """Whether nothing from outside but a signal to its step ends it: ``on_change`` is called only
    if there is one."""

    @property
    def due_at(self) -> int | None:
        """When the passing of time changes something about it."""
        return None

    @property
    def is_running(self) -> bool:
        """Whether an attempt is under way."""
        return False

    def as_wait(self) -> dict[str, Any] | None:
        """Return the wait that a parked run shows for it; None if the run cannot park."""
        return None

    def on_time(self, run: Execution, now: int) -> None:
        """Its time has come: ``due_at`` is *now* or earlier."""

    def on_change(self, run: Execution) -> None:
        """Something has reached the run from outside: find out whether that decides it."""

    def on_drop(self, run: Execution) -> None:
        """The code no longer waits for it."""

    def on_close(self) -> None:
        """The run leaves memory."""


_NONE: dict[str, Pending] = {}


class PendingCommands:
    """The pending commands of one run, by step, and a heap of the instants when time matters."""

    __slots__ = ("_dropped", "_due", "_kinds", "by_step", "early", "launches", "unannounced")

    def __init__(self) -> None:
        self.by_step: dict[str, Pending] = {}
        self._kinds: dict[type[Pending], dict[str, Pending]] = {}
        """The same commands by kind: what concerns one kind does not cost time for the others."""
        self._due: list[tuple[int, int, Pending]] = []
        self._dropped: set[str] | None = None
        self.launches: list[Any] = []
        """Steps and spendings that begin after the next commit."""
        self.unannounced: dict[str, Any] = {}
        """Waits that the history does not have yet; it gets the open ones when the program
        rests."""
        self.early: dict[str, tuple[Any, Exception | None, int | None, Any]] = {}
        """Outcomes of attempts that ended before the program's command for them arrived."""

    def add(self, pending: Pending) -> None:
        """Add a pending command."""
        step = pending.command.id
        kind = type(pending)
        earlier = self.by_step.get(step)
        if earlier is not None and type(earlier) is not kind:
            self.remove(step)
        self.by_step[step] = pending
        try:
            self._kinds[kind][step] = pending
        except KeyError:
            self._kinds[kind] = {step: pending}

    def get(self, step: str) -> Pending | None:
        """Return the pending command of a step, None if there is none."""
        return self.by_step.get(step)

    def has(self, pending: Pending) -> bool:
        """Return whether the run still waits for this pending command."""
        return self.by_step.get(pending.command.id) is pending

    def take(self, pending: Pending) -> bool:
        """Remove a pending command whose outcome is known; return False if the run no longer waits
        for it."""
        if self.by_step.get(pending.command.id) is not pending:
            return False
        self.remove(pending.command.id)
        return True

    def remove(self, step: str) -> Pending | None:
        """Remove the pending command of a step and return it."""
        pending = self.by_step.pop(step, None)
        if pending is not None:
            del self._kinds[type(pending)][step]
        return pending

    def replace(self, step: str, pending: Pending) -> None:
        """Replace the pending command of a step by one of the same kind, for another step."""
        commands = self._kinds[type(pending)]
        del self.by_step[step], commands[step]
        self.by_step[pending.command.id] = commands[pending.command.id] = pending

    def drop(self, step: str) -> Pending | None:
        """Remove a pending command that the code has dropped."""
        if self._dropped is None:
            self._dropped = set()
        self._dropped.add(step)
        pending = self.remove(step)
        if pending in self.launches:
            self.launches.remove(pending)
        return pending

    def is_dropped(self, step: str) -> bool:
        """Return whether the code has dropped that step."""
        return self._dropped is not None and step in self._dropped

    def __len__(self) -> int:
        return len(self.by_step)

    def __contains__(self, step: str) -> bool:
        return step in self.by_step

    def values(self) -> ValuesView[Pending]:
        """Return the pending commands, in the order in which the program asked for them."""
        return self.by_step.values()

    def items(self) -> ItemsView[str, Pending]:
        """Return the pending commands with their steps."""
        return self.by_step.items()

    def only_wait(self) -> bool:
        """Return whether nothing is at work: every pending command waits."""
        if self.launches:
            return False
        return not any(
            pending.is_running
            for kind, commands in self._kinds.items()
            if kind.is_running is not Pending.is_running
            for pending in commands.values()
        )

    # By kind

    def of(self, kind: type[P]) -> list[P]:
        """Return the pending commands of a kind, in the order in which the program asked for
        them."""
        commands = self._kinds.get(kind)
        return [] if not commands else list(commands.values())  # type: ignore[arg-type]

    def first_of(self, kind: type[Pending], count: int) -> list[Pending]:
        """Return the first pending commands of a kind."""
        return list(itertools.islice(self._kinds.get(kind, _NONE).values(), count))

    def counts(self) -> dict[type[Pending], int]:
        """Return the number of pending commands of each kind that there is."""
        return {kind: len(commands) for kind, commands in self._kinds.items() if commands}

    # Time

    def schedule(self, pending: Pending, mailbox: Mailbox) -> None:
        """Note when time matters to this pending command next."""
        instant = pending.due_at
        if instant is not None:
            heappush(self._due, (instant, next(_numbers), pending))
            mailbox.schedule_check(instant)

    def pop_due(self, now: int) -> list[Pending]:
        """Remove and return the pending commands whose time has come.

        An entry is stale if the command has ended since, or has another instant now.
        """
        due: list[Pending] = []
        while self._due and self._due[0][0] <= now:
            instant, _, pending = heappop(self._due)
            if self.has(pending) and pending.due_at == instant and pending not in due:
                due.append(pending)
        return due

    def next_due(self) -> int | None:
        """Return the earliest instant at which time matters to a pending command."""
        while self._due and not self._is_current(self._due[0]):
            heappop(self._due)
        if not self._due:
            return None
        return self._due[0][0]

    def _is_current(self, entry: tuple[int, int, Pending]) -> bool:
        instant, _, pending = entry
        return self.has(pending) and pending.due_at == instant


class Execution(Protocol):
    """The parts of a run's execution that a pending command may use."""

    state: RunState
    context: WorkerContext
    mailbox: Mailbox
    signals: SignalBuffer
    pending: PendingCommands
    commit: CommitBuffer
    budget: BudgetGuard
    keys: SigningKeys
    output: OutputBuffer
    program: Program | None
    services: ExecutionServices | None
    ahead: FeedAhead | None
    """The right to feed the program next, while its own loop may take it."""
    remote_turns: Any
    """Takes plain turns while the execution sleeps: ``RemoteTurns``; None if it does not."""
    resting: Any
    """The tokens at rest that are not written yet: ``RestingTokens``; None if there are none."""

    @property
    def may_have_rested(self) -> bool:
        """Whether another worker may have written tokens of this run."""

    follows_signal: bool
    """Whether the commands of this turn follow from a signal alone."""

    def notify(self, update: RunUpdate | None = None) -> None:
        """Report that something has reached the run from outside."""

    def attempt_ended(
        self,
        step: str,
        value: Any,
        error: Exception | None,
        started_at: int | None,
        spending: Any = None,
    ) -> None:
        """Report the outcome of an attempt at a step."""

    def set_breach(self, breach: Breach | None) -> None:
        """Let no new step begin while a hard limit is passed."""

    def expects(self, pending: Any) -> bool:
        """Return whether the run waits for this attempt."""

    def accept(self, event: Event, spending: Any, events: list[Event]) -> None:
        """Process the outcome of an attempt; append it to *events* unless it must wait."""

    def note_breach(self, breach: Breach | None) -> None:
        """Note the hard limit that a commit has passed, if it has."""

    async def execute_commands(self, commands: Sequence[Command]) -> None:
        """Execute commands until the program rests; then commit, and start the new steps."""

    def close(self) -> None:
        """Leave memory; nothing is recorded by that."""

    def note_started(self, pending: Any) -> None:
        """Record that a step has begun, because it runs for long."""


Handler = Callable[[Any, Any], Event | None]


def watch_clock(run: Execution, pending: Pending) -> None:
    """Let time act on a pending command: now, if its instant has come, otherwise then."""
    instant = pending.due_at
    now = run.state.now()
    if instant is not None and instant <= now:
        pending.on_time(run, now)
    else:
        run.pending.schedule(pending, run.mailbox)
