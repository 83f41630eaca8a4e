"""What a worker knows of a run that it holds: what the run waits for, what has happened, what is
still to be written."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from heapq import heappush
from typing import Any

from holdfast.core import history as run_history
from holdfast.core.budgets.model import Breach, BudgetLine
from holdfast.core.commands import Command
from holdfast.core.events import Event, EventKind
from holdfast.core.program import Program
from holdfast.core.runs import RunRecord
from holdfast.core.status import FINAL, Status
from holdfast.core.waits import Signal
from holdfast.engine.execution.commit_buffer import CommitBuffer
from holdfast.engine.execution.findings import FACT, Finding, finding
from holdfast.engine.execution.outcomes import event_of
from holdfast.engine.execution.output_buffer import OutputBuffer
from holdfast.engine.execution.pending import (
    Pending,
    PendingCondition,
    PendingSignal,
    PendingSpend,
    PendingStep,
    PendingTimer,
)
from holdfast.engine.runtime.context import WorkerContext
from holdfast.engine.runtime.inline_task import Completion
from holdfast.engine.runtime.program_loop import FeedAhead, PlacedProgram
from holdfast.engine.runtime.timer_queue import TimerHandle
from holdfast.store.contract import RunUpdate


class Held:
    """The state of a held run, and how others tell it what has happened."""

    ahead: FeedAhead | None = None
    """The right to feed the program next, while its own loop may take it."""

    def __init__(self, run: RunRecord, host: WorkerContext) -> None:
        self.run, self.host, self.now = run, host, host.store.now
        self.wants: dict[str, Pending] = {}
        self._program: Program | None = None
        self.launches: list[PendingStep | PendingSpend] = []
        self.breach: Breach | None = None
        self.asides: set[str] = set()
        """The steps that have set something aside."""
        self.lasting = False
        """Whether the code itself has set something aside."""
        self.batch = CommitBuffer()
        self.progress: run_history.HistoryProgress
        self.lives = run_history.StepLives(())
        self.had_children = False
        self.waiting = False
        self.resumes = False
        """Whether the run has waited in memory and has begun no step since."""
        self.gate_is_over = False
        self._over = False
        self._knocked = False
        self._heard = False
        """Whether there are signals that the waits of the run were not asked about yet."""
        self._seen: RunUpdate | None = None
        self._lines: list[BudgetLine] = []
        self._dimensions: frozenset[str] = frozenset()
        self.payable: list[tuple[Event, Any]] = []
        """Attempts that have completed and want to spend: their outcome stands when there is room
        for it."""
        self._inbox: deque[tuple[Event, Any]] = deque()
        """The ends of attempts, dated, and the purses that they had."""
        self.findings: list[Finding] = []
        """A heap of what has happened and was not told to the program yet."""
        self.opening: dict[str, PendingSignal | PendingCondition] = {}
        """The waits that the history does not have yet: it gets those that are still open when the
        program rests."""
        self._early: dict[str, tuple[Any, Exception | None, int | None, Any]] = {}
        self._dropped: set[str] = set()
        self._signals: list[Signal] = []
        self._woken: Completion | None = None
        self._due: int | None = None
        self._alarm: TimerHandle | None = None
        self.outlet = OutputBuffer(run, host)

    def ended(
        self,
        step: str,
        value: Any,
        error: Exception | None,
        started_at: int | None,
        purse: Any = None,
    ) -> None:
        """An attempt at a step has ended."""
        want = self.wants.get(step)
        if isinstance(want, PendingStep):
            event = event_of(want, value, error, started_at, codec=self.host.codec, now=self.now)
            event.at = (
                self.now()
            )  # when it ended, not when the run gets round to it: a timer may be due in between
            self._inbox.append((event, purse))
            self._poke()
        elif step not in self._dropped:
            self._early[step] = (
                value,
                error,
                started_at,
                purse,
            )  # the program was quicker than its own command
        elif purse is not None and not self._over:
            purse.drop()
            self.batch.spends.extend(
                purse.take()
            )  # nobody wants its outcome, but what it has spent is spent
            self._poke()

    def feed_ahead(self) -> FeedAhead | None:
        """Return the right to feed the program on its own loop, if the step that begins is all that
        the run waits for."""
        program = self._program
        busy = (
            len(self.wants) > 1
            or self.launches
            or self.findings
            or self._inbox
            or self._knocked
            or self._heard
        )
        if (
            busy
            or self.run.budgets
            or not isinstance(program, PlacedProgram)
            or not program.speculative
        ):
            return None
        self.ahead = program.feed_ahead()
        return self.ahead

    def note_fed(
        self, event: Event, commands: list[Command], error: BaseException | None, purse: Any
    ) -> None:
        """The loop of the program has fed it this event."""
        ahead = self.ahead
        assert ahead is not None, "the worker gives the right up when it has recorded what was fed"
        ahead.event, ahead.commands, ahead.error = event, commands, error
        self._inbox.append((event, purse))
        self._poke()

    def is_fed_ahead(self) -> bool:
        """Return whether the loop of the program feeds it, or has fed it something that the history
        does not have yet."""
        return self.ahead is not None and self.ahead.is_taken()

    def take_ahead(self, outcomes: list[Event]) -> Sequence[Command]:
        """Take what the program's own loop has fed it off *outcomes*; return what the program
        wanted then."""
        ahead = self.ahead
        if ahead is None or not outcomes:
            return []
        self.ahead = None
        is_first = ahead.take() if ahead.event is None else outcomes[0] is ahead.event
        assert is_first, "what the program was fed first is recorded first"
        if ahead.event is None:
            return []
        del outcomes[0]
        if ahead.error is not None:
            raise ahead.error
        return ahead.commands

    def expects(self, want: PendingStep) -> bool:
        """Return whether the run waits for this attempt. If it does not, the engine itself has
        cancelled it: the step was dropped, or the run has left memory. The loop of a program that
        ends without closing its engine cancels tasks, too."""
        return (
            not self._over
            and self.wants.get(want.command.id) is want
            and not self.host.is_abandoned()
        )

    def begun_by_itself(self, want: PendingStep) -> None:
        """The program makes this attempt itself; it may have ended already."""
        want.started_at = self.now()
        early = self._early.pop(want.command.id, None)
        if early is not None:
            self.ended(want.command.id, *early)

    def forget(self, step: str) -> Pending | None:
        """Nobody waits for this any more."""
        self._dropped.add(step)
        return self.wants.pop(step, None)

    def reported(
        self, step: str, value: Any, error: Exception | None, started_at: int, purse: Any
    ) -> None:
        """An attempt that the program made by itself, in a thread of its own, has ended."""
        with suppress(RuntimeError):  # the loop is closed: nobody is here to record it
            self.host.loop.call_soon_threadsafe(self.ended, step, value, error, started_at, purse)

    def note_started(self, want: PendingStep) -> None:
        """A step takes long: let the history say that it has begun."""
        if want.running and not want.noted and not self._over:
            want.noted = True
            note = Event(
                EventKind.STEP_STARTED,
                want.command.id,
                attempt=want.attempt,
                started_at=want.started_at,
                at=self.now(),
            )
            self._inbox.append((note, None))
            self._poke()

    def knock(self, seen: RunUpdate | None = None) -> None:
        """Something reached the run from outside: look. *seen* is what was found just now by
        somebody who looked for many."""
        self._knocked, self._seen = True, seen
        # whoever sleeps looks right here; whoever is at work looks later, and by itself
        self._poke()
        self._seen = None

    def _poke(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def due_at(self, instant: int | None) -> None:
        """Look again at *instant* at the latest."""
        if instant is not None and (self._due is None or instant < self._due):
            self._due = instant

    def found(self, instant: int, take: Callable[[list[Event]], None], rank: int = FACT) -> None:
        """Something happened at *instant*: tell the program of it in its turn."""
        heappush(self.findings, finding(instant, take, rank))

    def take_signal(self, step: str, name: str) -> Event | None:
        """Return the oldest signal of that name as an outcome; it is taken with the next commit."""
        for place, signal in enumerate(self._signals):
            if signal.name == name and signal.wait_id is None and signal.step is None:
                del self._signals[place]
                self.batch.taken.append(signal.id)
                payload = self.host.sealer.signal(self.run.id, signal)
                return Event(EventKind.SIGNAL_RECEIVED, step, payload)
        return None

    def listen_for(self, name: str) -> None:
        """Somebody waits for signals of that name: see to those that are there already before the
        program rests."""
        if any(
            signal.name == name and signal.wait_id is None and signal.step is None
            for signal in self._signals
        ):
            self._heard = True

    def release_of(self, step: str) -> Signal | None:
        """Return the signal by which a person let the wait of that step go, if one has."""
        return next((signal for signal in self._signals if signal.step == step), None)

    def take_releases(self, step: str) -> None:
        """A timer that a person let go has fired: its releases are taken with the next commit."""
        releases = [signal.id for signal in self._signals if signal.step == step]
        if releases:
            self.batch.taken.extend(releases)
            self._signals = [signal for signal in self._signals if signal.step != step]

    def let_try(self, want: PendingStep) -> None:
        """Let a step that waits for its next attempt make it now, if a person says so. That is
        taken with what comes of the attempt, so that whoever takes the run over meanwhile does not
        wait either."""
        want.released = [signal.id for signal in self._signals if signal.step == want.command.id]
        if want.released:
            want.again_at = None

    def forget_release(self, want: PendingStep) -> None:
        """An attempt has ended: whoever let it begin has had what was asked for."""
        found = {
            *want.released,
            *(signal.id for signal in self._signals if signal.step == want.command.id),
        }
        if found:
            self.batch.taken.extend(found)
            self._signals = [signal for signal in self._signals if signal.id not in found]
        want.released = []

    def cancel_map(self, step: str, reason: str) -> None:
        """Ask the open children of a map to stop, with the next commit."""
        for child in self.host.store.children(self.run.id, [step]):
            if child.status not in FINAL:
                self.batch.cancels.append((child.id, reason))

    def is_cancelled_outside(self) -> bool:
        """Say whether somebody has asked the run to stop."""
        run = self.host.store.run(self.run.id)
        return run is not None and run.status is Status.CANCELLING

    def _worth_keeping(self, wake_at: int | None) -> bool:
        """A short wait stays in memory, and so does one that may end any moment; a long one costs
        rows and nothing else."""
        if self.host.stopping or not self.host.keeps_waiting(self.run.lane):
            return False
        timed_only = all(
            isinstance(want, PendingTimer | PendingStep) for want in self.wants.values()
        )
        return not timed_only or (wake_at is not None and wake_at - self.now() <= self.host.linger)

    def _only_waits(self) -> bool:
        return not self.launches and not any(
            isinstance(want, PendingStep) and want.running for want in self.wants.values()
        )
