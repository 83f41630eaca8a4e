"""Replay of workflow code: match the commands that the code issues with the recorded outcomes.

``ReplayProgram`` is the common part of ``async def`` and ``def`` workflows.

Invariants:
- Outcomes are fed in the order in which they were recorded.
- An outcome that the code has not requested at its turn is kept until the code requests it, so a
  step may be added before a recorded one.
- If the code ends or issues a new command while it can no longer request a kept outcome, it has
  diverged, and no new command reaches the engine: see ``leftovers``.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.authoring.replay.identity import Branch, current_branch
from holdfast.authoring.replay.leftovers import Leftovers
from holdfast.authoring.replay.source import CodeSource
from holdfast.core import program as seam
from holdfast.core.codec import Codec
from holdfast.core.commands import (
    ChangeVersion,
    Checkpoint,
    Command,
    Drop,
    EndChildren,
    Finish,
    RecordDecision,
    RecordElements,
    Rest,
    RunStep,
    StartMap,
)
from holdfast.core.event_table import ANSWERS, OUTCOMES
from holdfast.core.events import Event, EventKind, is_compensation
from holdfast.core.program import ProgramContext
from holdfast.core.runs import RunRecord
from holdfast.errors import BadData, Diverged, WrongType

if TYPE_CHECKING:
    from uuid import UUID

current_program: ContextVar[ReplayProgram | None] = seam.current_program
"""The replayed code that is running; None outside it."""

CHILDREN = "end of children"
"""The name of the step at which a run that stops waits for its children."""

_WITHOUT_OUTCOME = frozenset({Checkpoint, Drop, Finish, RecordDecision})
"""The commands that have no outcome, so that no code waits for them."""


class Evicted(BaseException):
    """The run leaves memory while its code waits; calls that the code still makes record nothing.

    It is raised inside the workflow code to unwind it.
    """


class Compensation(msgspec.Struct):
    """A registered compensation: its step identity, and the command that runs it."""

    id: str
    make: Callable[[str], Command]


class ReplayProgram(ABC):
    """A workflow function in one run."""

    feeds_before_commit = True

    def __init__(
        self,
        run: RunRecord,
        context: ProgramContext,
        source: CodeSource,
        *,
        stop_undoing: bool,
    ) -> None:
        self.run: RunRecord = run
        self.context: ProgramContext = context
        self.codec: Codec = context.codec
        self.root: Branch = Branch()
        self.compensations: list[Compensation] = []
        self.open_children: set[str] = set()
        """The steps that have started children which must end before the run does, as far as the
        code knows."""
        self.stopping: bool = False
        """Whether the code has failed or was cancelled, and the run waits for its children and
        compensates."""
        self.failed_compensations: list[str] = []
        """The identities of the compensations that failed."""
        self.stop_undoing: bool = stop_undoing
        """Whether a failed compensation stops the remaining ones."""
        self.now: int = run.started_at or run.created_at
        self.replaying: bool = True
        self.closing: bool = False
        self.issued_waits: dict[str, Any] = {}
        """The waits that ``create_wait`` has opened, by their ids."""
        self._source: CodeSource = source
        self._pending: dict[str, tuple[Command, Any]] = {}
        """The commands without an outcome yet, by step, each with its waiter."""
        self._dropped: set[str] | None = None
        self._leftovers: Leftovers = Leftovers(())
        self._decisions: dict[str, Any] = {}
        self._recorded: AbstractSet[str] = frozenset()
        """The steps that the history mentions."""
        self._maps: dict[str, Event] = {}
        """The events of the history that started a map, by step."""
        self._new_commands: list[Command] = []
        self._divergence: Diverged | None = None

    # Called by the engine

    async def begin(self, history: Sequence[Event], state: bytes | None = None) -> list[Command]:
        """Replay *history* and return the commands without a recorded outcome.

        Raises Diverged before any new command is returned. There is no *state*: where code waits
        is in its frames, which cannot be stored.
        """
        outcomes = [event for event in history if event.kind in OUTCOMES]
        if history:
            self._recorded = {event.step for event in history if event.step is not None}
            self._maps = {
                event.step or "": event for event in history if event.kind == EventKind.MAP_STARTED
            }
            self._leftovers = Leftovers(history)
        self._decisions = {
            event.step or "": msgspec.json.decode(event.data or b"null")
            for event in history
            if event.kind == EventKind.MARKED
        }
        last = max((event.seq for event in history if event.step is not None), default=0)
        self.replaying = last > 0
        await self._start()
        self._raise_divergence()
        for event in outcomes:
            # The run has been past this point if anything was recorded after it.
            self.replaying = event.seq < last
            await self._process(event)
        self.replaying = False
        if history and not self._leftovers.events:
            self._leftovers = Leftovers(())  # frees the history, which the other one refers to
        return self._take_commands()

    async def feed(self, events: Sequence[Event]) -> list[Command]:
        """Process the outcomes, in order, and return the new commands. Raises Diverged."""
        for event in events:
            await self._process(event)
        return self._take_commands()

    def foreseen_divergence(self) -> Diverged | None:
        """Return the divergence of code that waits, if it can no longer ask for a recorded outcome.

        The engine need not know yet: until the code asks for something new, nothing is done that
        does not fit.
        """
        required = [
            event for event in self._leftovers.required() if not is_compensation(event.role)
        ]
        if not required or not self._pending:
            return None
        unreachable = self._source.find_unreachable(self._live_frames(), required)
        if unreachable is not None:
            command, waiter = next(iter(self._pending.values()))
            self._diverge(unreachable, command, waiter)
        return self._divergence

    def close(self) -> None:
        """Leave memory; nothing is recorded."""
        self.closing = True
        self._evict()

    # Implemented by AsyncProgram and SyncProgram

    @abstractmethod
    async def _start(self) -> None:
        """Start the function and run it until all of its code waits."""

    @abstractmethod
    async def _deliver(self, waiter: Any, event: Event) -> None:
        """Resume the code at *waiter* with *event* and run it until all of it waits again."""

    @abstractmethod
    async def _cancel(self, reason: str) -> None:
        """Raise CancelledError in the code and run it until all of it waits again.

        Do nothing if the code was cancelled before or compensates already.
        """

    @abstractmethod
    def _evict(self) -> None:
        """Abandon the function at the place where it waits."""

    @abstractmethod
    def _live_frames(self) -> Iterator[FrameType]:
        """Yield the live frames of the workflow's code, all of which wait."""

    @abstractmethod
    def _waiting_frame(self, waiter: Any) -> FrameType | None:
        """Return the frame of the workflow's code that waits at *waiter*; None if unknown."""

    # Matching

    async def _process(self, event: Event) -> None:
        """Deliver an outcome to the code that waits for it; keep it if none does yet."""
        if event.at > self.now:
            self.now = event.at
        if event.kind == EventKind.CANCEL_REQUESTED:
            await self._cancel(msgspec.json.decode(event.data or b"{}").get("reason", ""))
            self._raise_divergence()
            return
        assert event.step is not None
        pending = self._pending.pop(event.step, None)
        if pending is None:
            if self._dropped is None or event.step not in self._dropped:
                self._leftovers.keep(event)
            return
        command, waiter = pending
        if event.kind not in ANSWERS[type(command)]:
            self._diverge(event, command, waiter)
        if self._divergence is not None:
            raise self._divergence
        await self._deliver(waiter, event)
        if self._divergence is not None:
            raise self._divergence

    def request(self, command: Any, waiter: Any) -> Event | None:
        """Return the outcome of *command* if it is among the leftovers; else issue the command.

        The outcome of an issued command is delivered to *waiter*. Raises Evicted if the run leaves
        memory or the code has diverged.
        """
        if self.closing:
            raise Evicted
        if command.id in self._recorded:
            self._leftovers.note_requested(command.id)
            if type(command) is StartMap:
                self._check_items(command, waiter)
            outcome = self._leftovers.take(command.id)
            if outcome is not None:
                if outcome.kind not in ANSWERS[type(command)]:
                    self._diverge(outcome, command, waiter)
                if self._divergence is not None:
                    raise Evicted  # unwinds the code; begin() or feed() raises the divergence
                return outcome
        self._pending[command.id] = (command, waiter)
        self._new_commands.append(command)
        return None

    def _check_items(self, command: StartMap, waiter: Any) -> None:
        """Diverge if the number of items differs from the number of recorded children, because the
        results of these children stand for the items. Raises Evicted."""
        recorded = self._maps.get(command.id)
        if recorded is None:
            return
        count = msgspec.json.decode(recorded.data or b"{}").get("count")
        if count != len(command.inputs):
            self._diverge(recorded, command, waiter)
            raise Evicted

    def read(self, event: Event, decode: Callable[[bytes], Any]) -> Any:
        """Return the decoded value of a recorded outcome.

        If it cannot be decoded, the run diverges and the code is unwound by Evicted: the code
        cannot handle unreadable history, an operator must.
        """
        try:
            return decode(event.data or b"null")
        except (BadData, WrongType) as error:
            self._divergence = Diverged(
                step=event.step, recorded=f"event {event.seq}", why=str(error)
            )
            raise Evicted from error

    def drop(self, step: str) -> None:
        """Drop a pending command, because no code waits for its outcome any more."""
        if self._pending.pop(step, None) is not None and not self.closing:
            if self._dropped is None:
                self._dropped = set()
            self._dropped.add(step)
            self._new_commands.append(Drop(step))

    def tell(self, command: Command) -> None:
        """Issue a command that has no outcome. Raises Evicted if the run leaves memory."""
        if self.closing:
            raise Evicted
        self._new_commands.append(command)

    def is_recorded(self, step: str) -> bool:
        """Return whether history may have the outcome of *step*: it mentions the step, or it is
        still being replayed."""
        return self.replaying or step in self._recorded

    def _take_commands(self) -> list[Command]:
        """Return the new commands that history has not answered. Raises Diverged."""
        new_commands = self._new_commands
        self._new_commands = []
        commands: list[Command] = []
        for command in new_commands:
            if type(command) in _WITHOUT_OUTCOME or command.id in self._pending:  # type: ignore[union-attr]
                commands.append(command)
        if self._leftovers.events:
            self._check_leftovers(commands)
            self._raise_divergence()
        return commands

    def _check_leftovers(self, commands: Sequence[Command], waiter: Any = None) -> None:
        """Diverge if code that issues *commands* can no longer request a required leftover.

        Call it before the commands are executed.
        """
        required = self._leftovers.required()
        for command in commands if required else ():
            unreachable = self._find_unreachable(required, command)
            if unreachable is not None:
                _, waiting = self._pending.get(getattr(command, "id", ""), (None, waiter))
                self._diverge(unreachable, command, waiting)
                return

    def _find_unreachable(self, required: Sequence[Event], command: Command) -> Event | None:
        """Return the first outcome that code which issues *command* can no longer request."""
        if isinstance(command, Finish):
            return required[0]
        if isinstance(
            command, Checkpoint | Drop | RecordDecision | RecordElements | Rest | ChangeVersion
        ):
            return None
        if command.id in self._recorded:
            return None
        ordinary = [event for event in required if not is_compensation(event.role)]
        undoes = isinstance(command, RunStep) and command.is_compensation
        if undoes or isinstance(command, EndChildren):
            return next(iter(ordinary), None)
        passed = next((event for event in required if self._leftovers.is_passed(event)), None)
        if passed is not None or not ordinary:
            return passed
        return self._source.find_unreachable(self._live_frames(), ordinary)

    def _diverge(self, event: Event, command: Command, waiter: Any) -> None:
        """Record that the code issues *command* where history has *event*."""
        where = self._source.place_of(getattr(command, "id", ""))
        if not where:
            where = line_of(None if waiter is None else self._waiting_frame(waiter))
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
            where=where,
        )

    def _raise_divergence(self) -> None:
        if self._divergence is not None:
            raise self._divergence

    # Deterministic values

    def time(self) -> int:
        """Return the time of the run, in microseconds: that of the latest outcome it was fed."""
        self.context.asked_time = True
        return self.now

    def identify(self, name: str) -> str:
        """Return the identity of the next call of *name* in the current branch."""
        return current_branch.get(self.root).identify(name)

    def note_completed(self, step: str | None) -> None:
        """Remember the step that has completed last in the current branch."""
        current_branch.get(self.root).last = step

    @property
    def last_completed(self) -> str | None:
        """The step or child that has completed last in the current branch."""
        return current_branch.get(self.root).last

    def replayable_bytes(self, name: str) -> bytes:
        """Return sixteen pseudo-random bytes, the same in every replay of this call.

        They depend on the run, the identity of the call and the epoch.
        """
        seed = f"{self.run.id}\0{self.identify(name)}"
        if self.context.epoch:
            seed += f"\0{self.context.epoch}"
        return hashlib.sha256(seed.encode()).digest()[:16]

    def record_decision(self, name: str, fresh: Any, old: Any) -> Any:
        """Return the value that was decided when the run first came here.

        If none is recorded, decide now: *old* for a run that is past this point (nothing is
        recorded then), else *fresh*, which is recorded.
        """
        if name in self._decisions:
            return self._decisions[name]
        value = old if self.replaying else fresh
        self._decisions[name] = value
        if not self.replaying:
            self.tell(RecordDecision(name, value))
        return value

    def record_fact(self, command: RecordDecision) -> None:
        """Record a value that the code has derived, unless history has the same one already."""
        if command.id not in self._decisions or self._decisions[command.id] != command.value:
            self._decisions[command.id] = command.value
            self.tell(command)


def replayable_uuid(program: ReplayProgram) -> UUID:
    """Return a UUID that is the same in every replay of this call."""
    from uuid import UUID

    return UUID(bytes=program.replayable_bytes("uuid"), version=4)


def line_of(frame: FrameType | None) -> str:
    """Return the line at which the code of a frame waits."""
    if frame is None:
        return "unknown"
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


def frames_of(coroutine: Any, hidden: str) -> Iterator[FrameType]:
    """Yield the frames of a suspended coroutine, the deepest last, except those whose files are
    under the folder *hidden*."""
    awaited: Any = coroutine
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None and not frame.f_code.co_filename.startswith(hidden):
            yield frame
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
