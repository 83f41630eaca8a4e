"""The seam between front ends and the engine: history in, commands out.

A front end turns its source (Python code, a text, a model) into a ``Definition``. A ``Program`` is
the execution of a definition in one run. The engine begins it with the history and then feeds it
one outcome after another; each time the program returns the new commands.

Invariants:
- A command has a stable identity: the same one in every replay.
- A program has no effects of its own, apart from attempts that it reports to its context.
- The engine assigns nothing to a program: all that it provides is in the ``ProgramContext``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from holdfast.core.codec import Codec
from holdfast.core.commands import Command, RunStep
from holdfast.core.event_table import STEP_ENDS
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import RunRecord
from holdfast.core.signature import Signature
from holdfast.core.step_info import current_step
from holdfast.errors import Diverged, NotInWorkflow

if TYPE_CHECKING:
    from holdfast.core.budgets.ledger import SpendingSink
    from holdfast.core.schedules.model import ScheduleDeclaration
    from holdfast.core.streams.model import OutputSink
    from holdfast.core.trace_context import RunTracing


class Pause(Protocol):
    """What ``begin`` and ``feed`` of a program await while the threads of its code run."""

    def __await__(self) -> Generator[Any, Any, Any]:
        """Wait for the end of the pause."""

    def done(self) -> bool:
        """Return whether the pause is over."""

    def set_result(self, value: None) -> None:
        """End the pause."""


class CodeThreads(Protocol):
    """The threads of a worker for code that blocks."""

    def start(self, call: Callable[[], None]) -> None:
        """Make a call in a thread. The call raises nothing."""

    def new_pause(self) -> Pause:
        """Return a pause, in the thread that drives the program."""

    def post(self, call: Callable[..., None], *args: Any) -> None:
        """Make a call soon in the thread that drives the program, from any thread. Raises
        RuntimeError if its loop is closed."""


class ProgramContext(Protocol):
    """The services that an execution provides to its program.

    Only a program that makes attempts at steps by itself needs ``may_start_attempts``,
    ``lease_is_certain``, ``step_life``, ``spending`` and ``report``.
    """

    codec: Codec
    output: OutputSink | None
    """The sink of output that the code of the workflow itself emits; None outside an engine."""
    may_start_attempts: bool
    """Whether the program may begin an attempt by itself: no budget is exhausted, and the run is
    not about to stop."""
    asked_time: bool
    """The program sets it to true when a command depends on the time of an event that it was fed.
    Such a step waits for the commit of that event."""
    keeps_args: bool
    """Whether the arguments of steps are recorded, unless a step sets ``keep_args``."""
    tracing: RunTracing | None
    """The tracing of the runs of the engine; None if nothing is traced."""
    epoch: int
    """How often the run has restarted without any of its completed work; part of the seed of random
    numbers, which differ after each restart."""
    code_threads: CodeThreads | None
    """The threads for code that blocks; None outside an engine."""

    def now(self) -> int:
        """Return the time of the store, in microseconds: for attempts, not for decisions, which
        must be the same in every replay."""

    def spending(self, command: RunStep) -> SpendingSink | None:
        """Return the spending of a new attempt at the step of *command*."""

    def wait_token(self, wait_id: str, key_id: str) -> str:
        """Return the token of an issued wait."""

    def lease_is_certain(self) -> bool:
        """Return whether no other worker can hold the run by now; any thread may call it.

        If one can, the program begins no attempt by itself: the engine asks the store first.
        """

    def step_life(self, step: str) -> int:
        """Return the life of a step, for its idempotency key."""

    def report(
        self, step: str, value: Any, error: Exception | None, started_at: int, spending: Any
    ) -> None:
        """Report, from any thread, the outcome of an attempt that the program made itself."""


class OfflineContext:
    """The context of a program outside an engine, as when a definition is checked against a
    recorded history. Nothing can be attempted there."""

    __slots__ = (
        "asked_time",
        "code_threads",
        "codec",
        "epoch",
        "keeps_args",
        "may_start_attempts",
        "output",
        "tracing",
    )

    def __init__(self, codec: Codec) -> None:
        self.codec: Codec = codec
        self.output: OutputSink | None = None
        self.may_start_attempts: bool = False
        self.asked_time: bool = False
        self.epoch: int = 0
        self.keeps_args: bool = False
        self.tracing: RunTracing | None = None
        self.code_threads: CodeThreads | None = None

    def now(self) -> int:
        return 0

    def spending(self, command: RunStep) -> SpendingSink | None:
        return None

    def wait_token(self, wait_id: str, key_id: str) -> str:
        """Return a text in place of the token: no key signs anything outside an engine."""
        return f"{wait_id}.{key_id}.offline"

    def lease_is_certain(self) -> bool:
        return False

    def step_life(self, step: str) -> int:
        return 0

    def report(
        self, step: str, value: Any, error: Exception | None, started_at: int, spending: Any
    ) -> None:
        raise NotInWorkflow(call="report", step=step)


class Program(Protocol):
    """The execution of one run, the same for code, text and model definitions."""

    feeds_before_commit: bool
    """Whether an outcome may be fed before it is committed: only if the program cannot start an
    attempt by itself. It never changes."""

    async def begin(self, history: Sequence[Event], state: bytes | None) -> list[Command]:
        """Replay *history* and return the pending commands.

        *state* is the data of the last ``Checkpoint``, and *history* then has only the later
        events. Raises Diverged before it returns any new command.
        """

    async def feed(self, events: Sequence[Event]) -> list[Command]:
        """Process the outcomes in order and return the new commands."""

    def close(self) -> None:
        """Release the memory of the program. Nothing is recorded; the run can continue
        elsewhere."""


@runtime_checkable
class ForesightedProgram(Protocol):
    """A program that can tell after ``begin`` that it will diverge, before it comes to that point.
    A dry replay asks for it; the engine does not."""

    def foreseen_divergence(self) -> Diverged | None:
        """Return the divergence that is certain once the program continues; None if none is."""


class StepRecord(msgspec.Struct, frozen=True):
    """A step of a run, as its definition shows it. Times are microseconds since 1970, UTC."""

    id: str
    """The identity of the step in the history."""
    name: str
    status: str
    """``running``, ``retrying``, ``completed``, ``failed`` or ``dropped``."""
    attempts: int = 1
    started_at: int | None = None
    ended_at: int | None = None
    error: bytes | None = None
    """The description of its last error, as JSON."""


class Definition(Protocol):
    """A workflow as the engine sees it, whatever its source."""

    name: str
    version: str
    kind: str
    """The front end of the definition, such as ``python``."""
    lane: str
    capabilities: tuple[str, ...]
    accepts_versions: frozenset[str] | None
    """The versions whose runs it can continue; None if it can continue all."""
    needs_thread: bool
    """Whether each of its programs occupies a thread."""
    writes_checkpoints: bool
    """Whether its programs may return ``Checkpoint``. If not, a run is always read whole."""

    @property
    def signature(self) -> Signature | None:
        """The parameters and the result; None if any arguments are accepted."""

    @property
    def schedules(self) -> Sequence[ScheduleDeclaration]:
        """The schedules that start it, as declared in its source."""

    def program(self, run: RunRecord, context: ProgramContext) -> Program:
        """Return a new program for *run*, on which `begin` was not called yet."""

    def steps(self, run: RunRecord, history: Sequence[Event]) -> list[StepRecord]:
        """Return the steps of a run, in the order in which they first appear in its history; none
        of the events is void."""


def is_definition(value: object) -> bool:
    """Return whether *value* is a definition, of whatever kind."""
    return callable(getattr(value, "program", None)) and hasattr(value, "accepts_versions")


current_program: ContextVar[Any] = ContextVar("holdfast_program", default=None)
"""The program whose code is running, each front end its own kind; None outside workflow code."""


def is_workflow_code() -> bool:
    """Return whether the caller is the code of a running program, outside its steps."""
    return current_program.get() is not None and current_step.get() is None


_STATUS = {
    EventKind.STEP_STARTED: "running",
    EventKind.STEP_BLOCKED: "running",
    EventKind.STEP_RETRIED: "retrying",
    EventKind.STEP_COMPLETED: "completed",
    EventKind.STEP_FAILED: "failed",
    EventKind.STEP_DROPPED: "dropped",
}


def recorded_steps(history: Sequence[Event]) -> list[StepRecord]:
    """Return the steps that a history records, under their identities: what a front end shows that
    has no better names for them."""
    views: dict[str, StepRecord] = {}
    for event in history:
        status = _STATUS.get(event.kind)
        if status is None or event.step is None:
            continue
        before = views.get(event.step)
        views[event.step] = StepRecord(
            id=event.step,
            name=event.step.rpartition("/")[2],
            status=status,
            attempts=event.attempt,
            started_at=event.started_at if before is None else before.started_at,
            ended_at=event.at if event.kind in STEP_ENDS else None,
            error=event.error,
        )
    return list(views.values())
