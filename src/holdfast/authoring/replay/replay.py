"""What an ``async def`` and a ``def`` workflow have in common: matching what the code asks with
what history answers.

Outcomes are fed in the order in which they were recorded. One that the code does not ask for at its
turn is kept until it does: a step that was added before it does no harm. But when the code ends, or
asks for something new, while it can no longer ask for an outcome that was kept, it has diverged,
and nothing new is done: see ``leftovers``.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.authoring.replay.identity import Branch, current_branch
from holdfast.authoring.replay.leftovers import Leftovers, is_ahead, is_undo
from holdfast.core.codec import Codec
from holdfast.core.commands import (
    Command,
    Drop,
    EndChildren,
    Finish,
    RecordDecision,
    RunStep,
    StartMap,
)
from holdfast.core.event_table import ANSWERS, OUTCOMES
from holdfast.core.events import Event, EventKind
from holdfast.core.program import Report
from holdfast.core.runs import RunRecord
from holdfast.core.streams.model import OutputSink
from holdfast.errors import BadData, Diverged, NotInWorkflow, WrongType

if TYPE_CHECKING:
    from uuid import UUID

current_program: ContextVar[ReplayProgram | None] = ContextVar("holdfast_program", default=None)

NamesAhead = Callable[[Iterable[FrameType]], frozenset[str] | None]
"""Returns the names of what live frames can still ask for; None when that cannot be told."""

CHILDREN = "end of children"
"""The name of the step at which a run that stops waits for its children."""

_STEP_ENDS = ANSWERS[RunStep]
_TOLD = frozenset({Drop, Finish, RecordDecision})
"""What the engine is told, and what nobody waits for."""


class Evicted(BaseException):
    """The run leaves memory here; whatever is still called records nothing."""


class Compensation(msgspec.Struct):
    """How to undo something, should it come to that."""

    id: str
    make: Callable[[str], Command]


class ReplayProgram(ABC):
    """A Python function at work in one run."""

    speculative = True
    """Whether an outcome may be fed before it is committed: only if the code cannot do anything by
    itself."""

    def __init__(
        self, run: RunRecord, codec: Codec, names_ahead: NamesAhead, *, stop_undoing: bool
    ) -> None:
        self.run, self.codec = run, codec
        self.root = Branch()
        self.undos: list[Compensation] = []
        self.open_children: set[str] = set()
        """The steps that have started children which must end before the run does, as far as the
        code knows."""
        self.stopping = False
        """Whether the code has failed or was cancelled, and the run waits for its children and
        compensates."""
        self.failed_undos: list[str] = []
        self.stop_undoing = stop_undoing
        self.now = run.started_at or run.created_at
        self.asked_time = False
        self.replaying = True
        self.closing = False
        self.report: Report | None = None
        self.sink: OutputSink | None = None
        self.clock: Callable[[], int] = lambda: self.now
        self.purse: Callable[[str, str | None], Any] | None = None
        self.held_up = False
        self.is_sure: Callable[[], bool] = bool
        self.steps = 0
        self.handed_out: dict[str, Any] = {}
        """The waits that it has handed out, by their ids."""
        self.token: Callable[[str, str], str] = no_token
        self.life_of: Callable[[str], int] = first_life
        self.epoch = 0
        self._names_ahead = names_ahead
        self._wanted: dict[str, tuple[Command, Any]] = {}
        self._dropped: set[str] = set()
        self._left = Leftovers(())
        self._marks: dict[str, Any] = {}
        self._recorded: set[str] = set()
        self._maps: dict[str, Event] = {}
        """The maps that the history knows, by their steps."""
        self._new: list[Command] = []
        self._divergence: Diverged | None = None

    # What the engine calls

    async def begin(self, history: Sequence[Event]) -> list[Command]:
        """Replay *history* and return what is wanted now."""
        outcomes = [event for event in history if event.kind in OUTCOMES]
        self._recorded = {event.step for event in history if event.step is not None}
        if history:
            self._maps = {
                event.step or "": event for event in history if event.kind == EventKind.MAP_STARTED
            }
            self._left = Leftovers(history)
        self._marks = {
            event.step or "": msgspec.json.decode(event.data or b"null")
            for event in history
            if event.kind == EventKind.MARKED
        }
        last = max((event.seq for event in history if event.step is not None), default=0)
        self.replaying = last > 0
        await self._start()
        self._raise_divergence()
        for event in outcomes:
            self.replaying = (
                event.seq < last
            )  # the run has been past this point if anything was recorded after it
            await self._take(event)
        self.replaying = False
        if not self._left.events:
            self._left = Leftovers(())  # it refers to the whole history
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
    def _frames(self) -> Iterator[FrameType]:
        """Yield the live frames of the workflow's code, all of which wait."""

    @abstractmethod
    def _where(self, waiter: Any) -> FrameType | None:
        """Return the frame of the workflow's code that waits."""

    # Matching

    async def _take(self, event: Event) -> None:
        if event.at > self.now:
            self.now = event.at
        if event.kind == EventKind.CANCEL_REQUESTED:
            await self._cancel(msgspec.json.decode(event.data or b"{}").get("reason", ""))
            self._raise_divergence()
            return
        assert event.step is not None
        if event.kind in _STEP_ENDS:
            self.steps += 1
        found = self._wanted.pop(event.step, None)
        if found is None:
            if event.step not in self._dropped:
                self._left.keep(event)
            return
        command, waiter = found
        if event.kind not in ANSWERS[type(command)]:
            self._diverge(event, command, waiter)
        if self._divergence is not None:
            raise self._divergence
        await self._answer(waiter, event)
        if self._divergence is not None:
            raise self._divergence

    def want(self, command: Any, waiter: Any) -> Event | None:
        """Ask for *command*. Returns the outcome if history has it already; else *waiter* will get
        it."""
        if self.closing:
            raise Evicted
        if command.id in self._recorded:
            self._left.note_asked(command.id)
            if type(command) is StartMap:
                self._check_items(command, waiter)
            kept = self._left.take(command.id)
            if kept is not None:
                self._check_kind(command, kept, waiter)
                if self._divergence is not None:
                    raise Evicted  # the code must not go on; whoever drives it is told why
                return kept
        self._wanted[command.id] = (command, waiter)
        self._new.append(command)
        return None

    def _check_items(self, command: StartMap, waiter: Any) -> None:
        """Compare the number of items with that of the children that were recorded: their results
        stand for those items."""
        recorded = self._maps.get(command.id)
        if recorded is not None and msgspec.json.decode(recorded.data or b"{}").get("count") != len(
            command.inputs
        ):
            self._diverge(recorded, command, waiter)
            raise Evicted

    def read(self, event: Event, decode: Callable[[bytes], Any]) -> Any:
        """Return what a recorded outcome means. What can no longer be read is for a person to look
        at, not for the code."""
        try:
            return decode(event.data or b"null")
        except (BadData, WrongType) as error:
            self._divergence = Diverged(
                step=event.step, recorded=f"event {event.seq}", why=str(error)
            )
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
        return self.replaying or step in self._recorded

    def _commands(self) -> list[Command]:
        """Return what is new and still wanted; what history answered needs no doing."""
        new, self._new = self._new, []
        commands = [c for c in new if type(c) in _TOLD or c.id in self._wanted]  # type: ignore[union-attr]
        if self._left.events:
            self._check_leftovers(commands)
            self._raise_divergence()
        return commands

    def _check_leftovers(self, commands: Sequence[Command], waiter: Any = None) -> None:
        """Before *commands* are done: can the code still ask for each outcome that it has not asked
        for yet?"""
        required = self._left.required()
        for command in commands if required else ():
            lost = self._lost(required, command)
            if lost is not None:
                _, waiting = self._wanted.get(getattr(command, "id", ""), (None, waiter))
                self._diverge(lost, command, waiting)
                return

    def _lost(self, required: Sequence[Event], command: Command) -> Event | None:
        """Return the first outcome that the code, which now gives *command*, can no longer ask
        for."""
        if isinstance(command, Finish):
            return required[0]
        if type(command) in _TOLD or command.id in self._recorded:
            return None
        if isinstance(command, EndChildren) or is_undo(command.id):
            return next((event for event in required if not is_undo(event.step or "")), None)
        passed = next((event for event in required if self._left.is_passed(event)), None)
        ordinary = [event for event in required if not is_undo(event.step or "")]
        if passed is not None or not ordinary:
            return passed
        names = self._names_ahead(self._frames())
        if names is None:
            return None
        return next((event for event in ordinary if not is_ahead(event, names)), None)

    def _check_kind(self, command: Command, event: Event, waiter: Any) -> None:
        if event.kind not in ANSWERS[type(command)]:
            self._diverge(event, command, waiter)

    def _diverge(self, event: Event, command: Command, waiter: Any) -> None:
        frame = None if waiter is None else self._where(waiter)
        wanted = f"{type(command).__name__} {getattr(command, 'id', '')}"
        if isinstance(command, StartMap):
            wanted += f" of {len(command.inputs)} items"
        if isinstance(command, Finish):
            wanted = f"the end of the run: {command.status}"
            if command.error is not None:
                wanted += f", {type(command.error).__name__}: {command.error}"
        self._divergence = Diverged(
            step=event.step,
            recorded=f"{event.kind} {event.step} (event {event.seq})",
            wanted=wanted,
            where=f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
            if frame
            else "unknown",
        )

    def _raise_divergence(self) -> None:
        if self._divergence is not None:
            raise self._divergence

    # What replays the same

    def time(self) -> int:
        """Return the time by which the code lives: that of the last outcome that it has heard
        of."""
        self.asked_time = True
        return self.now

    def identify(self, name: str) -> str:
        """Return the identity of a call made here."""
        return current_branch.get(self.root).identify(name)

    def dice(self, name: str) -> bytes:
        """Return sixteen bytes that are random, but the same whenever the same work of the run is
        taken up again."""
        seed = f"{self.run.id}\0{self.identify(name)}"
        if self.epoch:
            seed += f"\0{self.epoch}"
        return hashlib.sha256(seed.encode()).digest()[:16]

    def uuid(self) -> UUID:
        from uuid import UUID

        return UUID(bytes=self.dice("uuid"), version=4)

    def mark(self, name: str, fresh: Any, old: Any) -> Any:
        """Return what was decided when this was first asked; now *fresh*, or *old* for a run that
        is past this point."""
        if name in self._marks:
            return self._marks[name]
        value = old if self.replaying else fresh
        self._marks[name] = value
        if not self.replaying:
            self.say(RecordDecision(name, value))
        return value


def first_life(step: str) -> int:
    """Return the life of a step in a run that was never replayed."""
    return 0


def no_token(wait_id: str, kid: str) -> str:
    """Nobody has told the program how tokens are made."""
    raise NotInWorkflow(call="token", wait=wait_id)


def frames_of(coroutine: Any, hidden: str) -> Iterator[FrameType]:
    """Yield the frames of a suspended coroutine that are not in the package at *hidden*, the
    deepest last."""
    awaited: Any = coroutine
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None and not frame.f_code.co_filename.startswith(hidden):
            yield frame
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
