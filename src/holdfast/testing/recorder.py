"""What happened in the engines of one crash scenario: what was committed, what was called, and what
must be undone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from holdfast.authoring.replay.replay import Compensation, ReplayProgram
from holdfast.core.codec import Codec
from holdfast.core.commands import RunStep
from holdfast.core.events import EventKind
from holdfast.core.program import Program
from holdfast.core.runs import RunRecord
from holdfast.core.step_info import StepInfo
from holdfast.errors import EngineClosed
from holdfast.store.contract import Operation
from holdfast.store.contract.runs import Advance, Advanced, RequestCancel

RUN = "crash-test"
"""The id of the run that is disturbed."""

_ENDS = (EventKind.STEP_COMPLETED, EventKind.STEP_FAILED)


class RecordedCommit(NamedTuple):
    """One transaction of an engine."""

    engine: int
    batch: Sequence[Operation]
    answers: Sequence[Any]


class CommitRecorder:
    """Shared by all engines of a scenario, one after another; they may write from any thread."""

    def __init__(self, cancel_at: int | str | None = None) -> None:
        self.commits: list[RecordedCommit] = []
        self.done: set[tuple[str, str]] = set()
        self.calls: dict[tuple[str, str], int] = {}
        self.wrong: list[str] = []
        self.registered: dict[str, list[str]] = {}
        self.stops_undoing: set[str] = set()
        self.zombies: set[int] = set()
        self.dead: set[int] = set()
        self.cancelled = cancel_at is None
        self._cancel_at = cancel_at
        self._guard = threading.Lock()

    def note(self, engine: int, batch: Sequence[Operation], answers: Sequence[Any]) -> None:
        """A batch was committed."""
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
        """Ask the run to stop, as somebody from outside would, if its time has come."""
        if not self.cancelled and self._is_cancel_due():
            answer = apply([RequestCancel(RUN, "cancelled by the test")])[0]
            self.cancelled = not isinstance(answer, Exception)

    def _is_cancel_due(self) -> bool:
        if isinstance(self._cancel_at, int):
            return len(self.commits) >= self._cancel_at
        return (RUN, self._cancel_at) in self.done

    def called(self, engine: int, info: StepInfo) -> None:
        """A step is called. One whose end is recorded must not be; only a zombie cannot know.
        Raises EngineClosed in a thread that had not come so far when its process died: such a
        thread is gone."""
        with self._guard:
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
    """A workflow whose steps are entered in a ledger before they are called."""

    def __init__(self, definition: Any, ledger: CommitRecorder, *, engine: int) -> None:
        self._definition, self._ledger, self._engine = definition, ledger, engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._definition, name)

    def program(self, run: RunRecord, codec: Codec) -> Program:
        """Return the workflow at work, watched."""
        program: Program = self._definition.program(run, codec)
        if isinstance(program, ReplayProgram):
            self._watch(program)
        return program

    def _watch(self, program: ReplayProgram) -> None:
        request = program.request
        run_id = program.run.id
        program.compensations = _RecordedCompensations(
            {} if self._engine in self._ledger.zombies else self._ledger.registered, run_id
        )
        if program.stop_undoing:
            self._ledger.stops_undoing.add(run_id)

        def watched(command: Any, waiter: Any) -> Any:
            if isinstance(command, RunStep):
                command.call = self._entered(command.call)
            return request(command, waiter)

        program.request = watched  # type: ignore[method-assign]

    def _entered(self, call: Callable[[StepInfo, Any], Any]) -> Callable[[StepInfo, Any], Any]:
        def entered(info: StepInfo, connection: Any) -> Any:
            self._ledger.called(self._engine, info)
            return call(info, connection)

        return entered


class _RecordedCompensations(list[Compensation]):
    """The undos of a run, in the order in which it registered them the last time it was
    replayed."""

    def __init__(self, registered: dict[str, list[str]], run_id: str) -> None:
        super().__init__()
        self._ids = registered[run_id] = []

    def append(self, undo: Compensation) -> None:
        self._ids.append(undo.id)
        super().append(undo)
