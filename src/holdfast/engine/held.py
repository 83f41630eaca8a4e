"""What a worker knows of a run that it holds: what the run waits for, what has happened, what is still to be written."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Any

from holdfast.core.program import Finish, Program
from holdfast.core.records import Allowance, Breach, Event, Fanout, Kind, NewRun, Run, Signal, Spending, Wait
from holdfast.core.status import FINAL, Status
from holdfast.engine import past
from holdfast.engine.alarms import Alarm
from holdfast.engine.host import Host
from holdfast.engine.outcomes import event_of
from holdfast.engine.outlet import Outlet
from holdfast.engine.strand import Pause
from holdfast.engine.wants import Paying, Step, Timer, Want
from holdfast.store.contract import ExtendGraph, GateMove, Glance

LISTS = (
    "children",
    "fanouts",
    "taken",
    "signals",
    "cancels",
    "gates",
    "opened",
    "reopened",
    "escalated",
    "closed",
    "spends",
    "settles",
    "grows",
)
"""What a commit may have to say besides events, by the fields of an Advance."""


class Batch:
    """What the next commit has to say: mostly of an event, so that the other lists are made when somebody asks for one."""

    __slots__ = (*LISTS, "events", "finish", "more")

    children: list[NewRun]
    fanouts: list[Fanout]
    taken: list[int]
    signals: list[tuple[str, str, bytes, str]]
    cancels: list[tuple[str, str]]
    gates: list[GateMove]
    opened: list[Wait]
    reopened: list[str]
    escalated: list[str]
    closed: list[tuple[str, str]]
    spends: list[Spending]
    settles: list[str]
    grows: list[ExtendGraph]

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.finish: Finish | None = None
        self.more = False
        """Whether it may have more to say than events and the end."""

    def __getattr__(self, name: str) -> Any:
        if name not in self.__slots__:
            raise AttributeError(name)
        self.more = True
        for one in LISTS:
            setattr(self, one, [])
        return getattr(self, name)

    def says_something(self) -> bool:
        if self.events or self.finish is not None:
            return True
        return self.more and any(getattr(self, name) for name in LISTS)


class Held:
    """The state of a held run, and how others tell it what has happened."""

    def __init__(self, run: Run, host: Host) -> None:
        self.run, self.host = run, host
        self.wants: dict[str, Want] = {}
        self._program: Program | None = None
        self.launches: list[Step | Paying] = []
        self.breach: Breach | None = None
        self.asides: set[str] = set()
        """The steps that have set something aside."""
        self.lasting = False
        """Whether the code itself has set something aside."""
        self.batch = Batch()
        self.progress: past.Progress
        self.had_children = False
        self.waiting = False
        self.gate_is_over = False
        self._over = False
        self._knocked = False
        self._seen: Glance | None = None
        self._lines: list[Allowance] = []
        self._dimensions: frozenset[str] = frozenset()
        self.payable: list[tuple[Event, Any]] = []
        """Attempts that have completed and want to spend: their outcome stands when there is room for it."""
        self._inbox: deque[tuple[Event, Any]] = deque()
        self._early: dict[str, tuple[Any, Exception | None, int | None, Any]] = {}
        self._dropped: set[str] = set()
        self._signals: list[Signal] = []
        self._woken: Pause | None = None
        self._due: int | None = None
        self._alarm: Alarm | None = None
        self.outlet = Outlet(run, host)

    def now(self) -> int:
        return self.host.store.now()

    def ended(self, step: str, value: Any, error: Exception | None, started_at: int | None, purse: Any = None) -> None:
        """An attempt at a step has ended."""
        want = self.wants.get(step)
        if isinstance(want, Step):
            event = event_of(want, value, error, started_at, codec=self.host.codec, now=self.now)
            self._inbox.append((event, purse))
            self._poke()
        elif step not in self._dropped:
            self._early[step] = (value, error, started_at, purse)  # the program was quicker than its own command
        elif purse is not None and not self._over:
            purse.drop()
            self.batch.spends.extend(purse.take())  # nobody wants its outcome, but what it has spent is spent
            self._poke()

    def begun_by_itself(self, want: Step) -> None:
        """The program makes this attempt itself; it may have ended already."""
        want.started_at = self.now()
        early = self._early.pop(want.command.id, None)
        if early is not None:
            self.ended(want.command.id, *early)

    def forget(self, step: str) -> Want | None:
        """Nobody waits for this any more."""
        self._dropped.add(step)
        return self.wants.pop(step, None)

    def reported(self, step: str, value: Any, error: Exception | None, started_at: int, purse: Any) -> None:
        """An attempt that the program made by itself, in a thread of its own, has ended."""
        with suppress(RuntimeError):  # the loop is closed: nobody is here to record it
            self.host.loop.call_soon_threadsafe(self.ended, step, value, error, started_at, purse)

    def note_started(self, want: Step) -> None:
        """A step takes long: let the history say that it has begun."""
        if want.running and not want.noted and not self._over:
            want.noted = True
            note = Event(Kind.STEP_STARTED, want.command.id, attempt=want.attempt, started_at=want.started_at)
            self._inbox.append((note, None))
            self._poke()

    def knock(self, seen: Glance | None = None) -> None:
        """Something reached the run from outside: look. *seen* is what was found just now by somebody who looked for many."""
        self._knocked, self._seen = True, seen
        self._poke()  # whoever sleeps looks right here; whoever is at work looks later, and by itself
        self._seen = None

    def _poke(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def due_at(self, instant: int | None) -> None:
        """Look again at *instant* at the latest."""
        if instant is not None and (self._due is None or instant < self._due):
            self._due = instant

    def take_signal(self, step: str, name: str) -> Event | None:
        """Return the oldest signal of that name as an outcome; it is taken with the next commit."""
        for place, signal in enumerate(self._signals):
            if signal.name == name and signal.wait_id is None and signal.step is None:
                del self._signals[place]
                self.batch.taken.append(signal.id)
                payload = self.host.vault.open(signal.payload, f"signal {name!r} to run {self.run.id}")
                return Event(Kind.SIGNAL_RECEIVED, step, payload)
        return None

    def is_let_go(self, step: str) -> bool:
        """Say whether a person has let a timer go; that is taken with the next commit."""
        found = [signal.id for signal in self._signals if signal.step == step]
        self._signals = [signal for signal in self._signals if signal.step != step]
        if found:
            self.batch.taken.extend(found)
        return bool(found)

    def let_try(self, want: Step) -> None:
        """Let a step that waits for its next attempt make it now, if a person says so. That is taken with what comes of the
        attempt, so that whoever takes the run over meanwhile does not wait either."""
        want.released = [signal.id for signal in self._signals if signal.step == want.command.id]
        if want.released:
            want.again_at = None

    def forget_release(self, want: Step) -> None:
        """An attempt has ended: whoever let it begin has had what was asked for."""
        found = {*want.released, *(signal.id for signal in self._signals if signal.step == want.command.id)}
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
        """A short wait stays in memory, and so does one that may end any moment; a long one costs rows and nothing else."""
        if self.host.stopping or not self.host.keeps_waiting(self.run.lane):
            return False
        timed_only = all(isinstance(want, Timer | Step) for want in self.wants.values())
        return not timed_only or (wake_at is not None and wake_at - self.now() <= self.host.linger)

    def _only_waits(self) -> bool:
        return not self.launches and not any(isinstance(want, Step) and want.running for want in self.wants.values())
