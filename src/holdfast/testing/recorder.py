"""Record the commits, step calls and compensations of all engines of a crash scenario."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from holdfast.authoring.replay.replay import Compensation, ReplayProgram
from holdfast.core.commands import Command, RunStep
from holdfast.core.events import Event, EventKind
from holdfast.core.program import Program, ProgramContext
from holdfast.core.runs import RunRecord
from holdfast.core.step_info import StepInfo
from holdfast.errors import EngineClosed
from holdfast.store.database import Operation
from holdfast.store.runs.operations import Advance, Advanced, RequestCancel

RUN = "crash-test"
"""The id of the run that the scenario disturbs."""

_ENDS = (EventKind.STEP_COMPLETED, EventKind.STEP_FAILED)


StepCall = Callable[[StepInfo, Any], Any]
"""The function of a step, given its attempt and its connection."""


class RecordedCommit(NamedTuple):
    """One transaction of an engine."""

    engine: int
    batch: Sequence[Operation]
    answers: Sequence[Any]


class CommitRecorder:
    """A record that all engines of a scenario share, one after another; any thread may write."""

    def __init__(self, cancel_at: int | str | None = None) -> None:
        self.commits: list[RecordedCommit] = []
        self.done: set[tuple[str, str]] = set()
        """Run and step of each recorded end of a step."""
        self.calls: dict[tuple[str, str], int] = {}
        """The number of calls of each step, by run and step."""
        self.wrong: list[str] = []
        """Descriptions of broken promises."""
        self.registered: dict[str, list[str]] = {}
        """The compensations of each run, in the order in which it registered them."""
        self.stops_undoing: set[str] = set()
        """The runs in which a failed compensation stops the remaining ones."""
        self.zombies: set[int] = set()
        self.dead: set[int] = set()
        self.cancelled: bool = cancel_at is None
        self._cancel_at: int | str | None = cancel_at
        self._lock: threading.Lock = threading.Lock()

    def note(self, engine: int, batch: Sequence[Operation], answers: Sequence[Any]) -> None:
        """Record a committed batch."""
        self.commits.append(RecordedCommit(engine, batch, answers))
        for op, answer in zip(batch, answers, strict=True):
            if isinstance(op, Advance) and isinstance(answer, Advanced):
                self.done.update(
                    (op.run_id, event.step or "") for event in op.events if event.kind in _ENDS
                )
                if engine in self.zombies:
                    self.wrong.append(
                        f"a worker that had lost run {op.run_id} was still allowed to write it"
                    )

    def cancel_when_due(self, apply: Callable[[Sequence[Operation]], list[Any]]) -> None:
        """Request the cancellation of the run, as a caller from outside would, if it is due."""
        if not self.cancelled and self._is_cancel_due():
            answer = apply([RequestCancel(RUN, "cancelled by the test")])[0]
            self.cancelled = not isinstance(answer, Exception)

    def _is_cancel_due(self) -> bool:
        if isinstance(self._cancel_at, int):
            return len(self.commits) >= self._cancel_at
        return (RUN, self._cancel_at) in self.done

    def called(self, engine: int, info: StepInfo) -> None:
        """Record the call of a step.

        A step whose end is recorded must not be called again, except by a zombie, which cannot
        know. Raises EngineClosed in a thread of a dead engine: a killed process has no threads.
        """
        with self._lock:
            if engine in self.dead:
                raise EngineClosed(why="its process is dead")
            identity = (info.run_id, info.step)
            self.calls[identity] = self.calls.get(identity, 0) + 1
            if identity in self.done and engine not in self.zombies:
                self.wrong.append(
                    f"step {info.step} of run {info.run_id} ran again (attempt {info.attempt})"
                    " after its end was recorded"
                )


class RecordingProgram:
    """A workflow definition that records each call of a step before it is made."""

    def __init__(self, definition: Any, ledger: CommitRecorder, *, engine: int) -> None:
        self._definition = definition
        self._ledger = ledger
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._definition, name)

    def program(self, run: RunRecord, context: ProgramContext) -> Program:
        """Return a program for *run* that records its steps and compensations."""
        program: Program = self._definition.program(run, context)
        if not isinstance(program, ReplayProgram):
            return _RecordedProgram(program, self._recorded_call)
        self._watch(program)
        return program

    def _watch(self, program: ReplayProgram) -> None:
        request = program.request
        run_id = program.run.id
        # The compensations that a zombie registers do not count.
        is_zombie = self._engine in self._ledger.zombies
        program.compensations = _RecordedCompensations(
            {} if is_zombie else self._ledger.registered, run_id
        )
        if program.stop_undoing:
            self._ledger.stops_undoing.add(run_id)

        def recording_request(command: Any, waiter: Any) -> Any:
            if isinstance(command, RunStep):
                command.call = self._recorded_call(command.call)
            return request(command, waiter)

        program.request = recording_request  # type: ignore[method-assign]

    def _recorded_call(self, call: StepCall) -> StepCall:
        def record_and_call(info: StepInfo, connection: Any) -> Any:
            self._ledger.called(self._engine, info)
            return call(info, connection)

        return record_and_call


class _RecordedProgram:
    """A program of another front end than Python code: the steps that it asks for are recorded."""

    def __init__(self, program: Program, recorded: Callable[[StepCall], StepCall]) -> None:
        self._program: Program = program
        self._recorded: Callable[[StepCall], StepCall] = recorded
        self.feeds_before_commit: bool = program.feeds_before_commit

    async def begin(self, history: Sequence[Event], state: bytes | None) -> list[Command]:
        return self._watch(await self._program.begin(history, state))

    async def feed(self, events: Sequence[Event]) -> list[Command]:
        return self._watch(await self._program.feed(events))

    def close(self) -> None:
        self._program.close()

    def _watch(self, commands: list[Command]) -> list[Command]:
        for command in commands:
            if isinstance(command, RunStep):
                command.call = self._recorded(command.call)
        return commands


class _RecordedCompensations(list[Compensation]):
    """The compensations of a run, whose ids are recorded in the order of registration.

    A new replay of the run starts the record again.
    """

    def __init__(self, registered: dict[str, list[str]], run_id: str) -> None:
        super().__init__()
        self._ids: list[str] = []
        registered[run_id] = self._ids

    def append(self, compensation: Compensation) -> None:
        self._ids.append(compensation.id)
        super().append(compensation)
