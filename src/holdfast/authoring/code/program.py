"""What an ``async def`` and a ``def`` workflow have in common: matching what the code asks with what history answers.

Outcomes are fed in the order in which they were recorded. One that the code does not ask for at its turn is kept until it
does: a step that was added before it does no harm. But when the code asks for something new while a recorded step can no
longer be reached from it, the code has diverged, and nothing new is done.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.authoring.code.branch import Branch, current_branch
from holdfast.core.codec import Codec
from holdfast.core.program import Command, Drop, Finish, Mark, Report
from holdfast.core.records import OUTCOMES, Event, Kind, Run
from holdfast.core.streams import Sink
from holdfast.errors import BadData, Diverged, NotInWorkflow, WrongType

if TYPE_CHECKING:
    from uuid import UUID

current_program: ContextVar[CodeProgram | None] = ContextVar("holdfast_program", default=None)

FAMILY = {
    "RunStep": {Kind.STEP_COMPLETED, Kind.STEP_FAILED},
    "SetTimer": {Kind.TIMER_FIRED},
    "AwaitSignal": {Kind.SIGNAL_RECEIVED, Kind.SIGNAL_TIMED_OUT},
    "CreateWait": {Kind.WAIT_CREATED},
    "AwaitCondition": {Kind.WAIT_SATISFIED, Kind.WAIT_RELEASED, Kind.WAIT_TIMED_OUT},
    "StartChild": {Kind.CHILD_STARTED},
    "AwaitChild": {Kind.CHILD_ENDED},
    "StartMap": {Kind.MAP_ENDED},
    "OpenGate": {Kind.GATE_CLOSED},
    "SendSignal": {Kind.SIGNAL_SENT},
    "GrowGraph": {Kind.GRAPH_GROWN},
    "CancelRun": {Kind.CANCEL_SENT},
    "Spend": {Kind.BUDGET_SPENT},
    "Reserve": {Kind.BUDGET_RESERVED},
    "Settle": {Kind.BUDGET_SETTLED},
}

_TOLD = frozenset({Drop, Finish, Mark})
"""What the engine is told, and what nobody waits for."""


class Evicted(BaseException):
    """The run leaves memory here; whatever is still called records nothing."""


class Undo(msgspec.Struct):
    """How to undo something, should it come to that."""

    id: str
    make: Callable[[str], Command]


class CodeProgram(ABC):
    """A Python function at work in one run."""

    speculative = True
    """Whether an outcome may be fed before it is committed: only if the code cannot do anything by itself."""

    def __init__(self, run: Run, codec: Codec, reachable: Callable[[], frozenset[str]], *, stop_undoing: bool) -> None:
        self.run, self.codec = run, codec
        self.root = Branch()
        self.undos: list[Undo] = []
        self.failed_undos: list[str] = []
        self.stop_undoing = stop_undoing
        self.now = run.started_at or run.created_at
        self.asked_time = False
        self.replaying = True
        self.closing = False
        self.report: Report | None = None
        self.sink: Sink | None = None
        self.clock: Callable[[], int] = lambda: self.now
        self.purse: Callable[[str, str | None], Any] | None = None
        self.held_up = False
        self.handed_out: dict[str, Any] = {}
        """The waits that it has handed out, by their ids."""
        self.token: Callable[[str, str], str] = no_token
        self._reachable = reachable
        self._wanted: dict[str, tuple[Command, Any]] = {}
        self._dropped: set[str] = set()
        self._kept: dict[str, Event] = {}
        self._marks: dict[str, Any] = {}
        self._recorded: set[str] = set()
        self._new: list[Command] = []
        self._divergence: Diverged | None = None

    # What the engine calls

    async def begin(self, history: Sequence[Event]) -> list[Command]:
        """Replay *history* and return what is wanted now."""
        outcomes = [event for event in history if event.kind in OUTCOMES]
        self._recorded = {event.step for event in history if event.step is not None}
        self._marks = {event.step: msgspec.json.decode(event.data or b"null") for event in history if event.kind == Kind.MARKED}  # type: ignore[misc]
        last = max((event.seq for event in history if event.step is not None), default=0)
        self.replaying = last > 0
        await self._start()
        self._raise_divergence()
        for event in outcomes:
            self.replaying = event.seq < last  # the run has been past this point if anything was recorded after it
            await self._take(event)
        self.replaying = False
        return self._commands()

    async def feed(self, events: Sequence[Event]) -> list[Command]:
        """Take the outcomes, in order, and return what is newly wanted."""
        for event in events:
            await self._take(event)
        return self._commands()

    def close(self) -> None:
        """Leave memory."""
        self.closing = True
        self._leave()

    # What the two colours do in their own ways

    @abstractmethod
    async def _start(self) -> None:
        """Start the function and go as far as it goes."""

    @abstractmethod
    async def _answer(self, waiter: Any, event: Event) -> None:
        """Let the code that waits have its answer and go as far as it goes."""

    @abstractmethod
    async def _cancel(self, reason: str) -> None:
        """Ask the code to stop and go as far as it goes."""

    @abstractmethod
    def _leave(self) -> None:
        """Give up the function in the middle."""

    @abstractmethod
    def _where(self, waiter: Any) -> FrameType | None:
        """Return the frame of the workflow's code that waits."""

    # Matching

    async def _take(self, event: Event) -> None:
        self.now = max(self.now, event.at)
        if event.kind == Kind.CANCEL_REQUESTED:
            await self._cancel(msgspec.json.decode(event.data or b"{}").get("reason", ""))
            return
        assert event.step is not None
        found = self._wanted.pop(event.step, None)
        if found is None:
            if event.step not in self._dropped:
                self._kept[event.step] = event
                self._check(event)
                self._raise_divergence()
            return
        self._check_kind(found[0], event, found[1])
        self._raise_divergence()
        await self._answer(found[1], event)
        self._raise_divergence()

    def want(self, command: Any, waiter: Any) -> Event | None:
        """Ask for *command*. Returns the outcome if history has it already; else *waiter* will get it."""
        if self.closing:
            raise Evicted
        kept = self._kept.pop(command.id, None)
        if kept is not None:
            self._check_kind(command, kept, waiter)
            if self._divergence is not None:
                raise Evicted  # the code must not go on; whoever drives it is told why
            return kept
        self._wanted[command.id] = (command, waiter)
        self._new.append(command)
        return None

    def read(self, event: Event, decode: Callable[[bytes], Any]) -> Any:
        """Return what a recorded outcome means. What can no longer be read is for a person to look at, not for the code."""
        try:
            return decode(event.data or b"null")
        except (BadData, WrongType) as error:
            self._divergence = Diverged(step=event.step, recorded=f"event {event.seq}", why=str(error))
            raise Evicted from error

    def drop(self, step: str) -> None:
        """Nobody waits for this command any more."""
        if self._wanted.pop(step, None) is not None and not self.closing:
            self._dropped.add(step)
            self._new.append(Drop(step))

    def say(self, command: Command) -> None:
        """Tell the engine something that needs no answer."""
        if self.closing:
            raise Evicted
        self._new.append(command)

    def is_recorded(self, step: str) -> bool:
        """Say whether history has the outcome of this command waiting."""
        return self.replaying or step in self._kept or step in self._recorded

    def _commands(self) -> list[Command]:
        """Return what is new and still wanted; what history answered needs no doing."""
        new, self._new = self._new, []
        return [c for c in new if type(c) in _TOLD or c.id in self._wanted]  # type: ignore[union-attr]

    def _check(self, event: Event) -> None:
        """The recorded *event* is not asked for. If the code asks for something new instead of it, it has diverged."""
        name = step_name(event.step or "")
        fresh = [want for step, want in self._wanted.items() if step not in self._recorded]
        if fresh and event.kind in (Kind.STEP_COMPLETED, Kind.STEP_FAILED) and name not in self._reachable():
            self._diverge(event, *fresh[0])

    def _check_kind(self, command: Command, event: Event, waiter: Any) -> None:
        if event.kind not in FAMILY[type(command).__name__]:
            self._diverge(event, command, waiter)

    def _diverge(self, event: Event, command: Command, waiter: Any) -> None:
        frame = self._where(waiter)
        self._divergence = Diverged(
            step=event.step,
            recorded=f"{event.kind} {event.step} (event {event.seq})",
            wanted=f"{type(command).__name__} {getattr(command, 'id', '')}",
            where=f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}" if frame else "unknown",
        )

    def _raise_divergence(self) -> None:
        if self._divergence is not None:
            raise self._divergence

    # What replays the same

    def time(self) -> int:
        """Return the time by which the code lives: that of the last outcome that it has heard of."""
        self.asked_time = True
        return self.now

    def identify(self, name: str) -> str:
        """Return the identity of a call made here."""
        return current_branch.get(self.root).identify(name)

    def dice(self, name: str) -> bytes:
        """Return sixteen bytes that are random, but the same in every replay."""
        return hashlib.sha256(f"{self.run.id}\0{self.identify(name)}".encode()).digest()[:16]

    def uuid(self) -> UUID:
        from uuid import UUID

        return UUID(bytes=self.dice("uuid"), version=4)

    def mark(self, name: str, fresh: Any, old: Any) -> Any:
        """Return what was decided when this was first asked; now *fresh*, or *old* for a run that is past this point."""
        if name in self._marks:
            return self._marks[name]
        value = old if self.replaying else fresh
        self._marks[name] = value
        if not self.replaying:
            self.say(Mark(name, value))
        return value


def no_token(wait_id: str, kid: str) -> str:
    """Nobody has told the program how tokens are made."""
    raise NotInWorkflow(call="token", wait=wait_id)


def step_name(identity: str) -> str:
    """Return the name of the step that an identity belongs to."""
    return identity.rsplit("/", 1)[-1].split("#", 1)[0]


def innermost(coroutine: Coroutine[Any, Any, Any] | None, hidden: str) -> FrameType | None:
    """Return the deepest frame of a suspended coroutine that is not in the package at *hidden*."""
    found: FrameType | None = None
    awaited: Any = coroutine
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None and not frame.f_code.co_filename.startswith(hidden):
            found = frame
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return found
