"""The commands that a program may return: what it asks its worker to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core.conditions.model import Condition, OnTimeout
from holdfast.core.definitions import DefinitionRef
from holdfast.core.events import EventRole
from holdfast.core.gates.model import GateTerms
from holdfast.core.graphs.model import GraphPatch
from holdfast.core.retry import RetryPolicy
from holdfast.core.runs import Route
from holdfast.core.step_info import StepInfo


class RunStep(msgspec.Struct):
    """Call a function and record its result. With ``own`` the program makes the first attempt
    itself and reports the outcome."""

    id: str
    name: str
    call: Callable[[StepInfo, Any], Any]
    is_async: bool
    policy: RetryPolicy
    timeout: int | None = None
    transactional: bool = False
    own: bool = False
    fits: Callable[[Any, bytes], None] | None = None
    """Raises if the stored value could not be read back as the annotated type of the result."""
    under: str | None = None
    """The reservation of the workflow that this step spends from."""
    role: EventRole | None = None
    """Recorded with every event of the step."""
    kept_args: Callable[[], bytes] | None = None
    """Returns the arguments as they are recorded; None if they are not."""

    @property
    def is_compensation(self) -> bool:
        """Whether the step undoes a completed one."""
        return self.role is EventRole.COMPENSATION


class SetTimer(msgspec.Struct):
    """Complete *after* microseconds after the command was first recorded."""

    id: str
    after: int


class AwaitSignal(msgspec.Struct):
    """Complete with the next signal of that name, or time out."""

    id: str
    name: str
    timeout: int | None = None


class CreateWait(msgspec.Struct):
    """Open a wait to which other programs may deliver signals; complete with its id."""

    id: str
    name: str
    expires: int | None = None


class AwaitCondition(msgspec.Struct):
    """Complete when a condition is met or an operator releases the wait. After the timeout,
    ``on_timeout`` says what happens."""

    id: str
    condition: Condition
    timeout: int | None = None
    on_timeout: str = OnTimeout.FAIL


class StartChild(msgspec.Struct):
    """Start a child run; complete when it is started."""

    id: str
    target: DefinitionRef
    route: Route
    input: bytes
    options: Mapping[str, Any]


class StartMap(msgspec.Struct):
    """Start one child run per input; complete when all have ended, or enough have failed."""

    id: str
    target: DefinitionRef
    route: Route
    inputs: Sequence[bytes]
    options: Mapping[str, Any]
    max_parallel: int | None
    fail_fast: bool


class AwaitChild(msgspec.Struct):
    """Complete when the child of the command *start* has ended. Dropping the wait for an owned
    child cancels the child."""

    id: str
    start: str
    run_id: str
    owned: bool = False


class EndChildren(msgspec.Struct):
    """Cancel the open children that may not outlive the run; complete when all of them have ended,
    or when an operator releases the wait."""

    id: str


class OpenGate(msgspec.Struct):
    """Ask people for a decision; complete when the gate is closed. Dropping the command withdraws
    the gate."""

    id: str
    prompt: str
    terms: GateTerms
    assignees: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    data: bytes | None = None
    timeout: int | None = None


class RecordDecision(msgspec.Struct):
    """Record a value that was decided now, so that every replay decides the same."""

    id: str
    value: Any


class SendSignal(msgspec.Struct):
    """Send a signal to another run, once."""

    id: str
    run_id: str
    name: str
    payload: bytes


class CancelRun(msgspec.Struct):
    """Ask another run to stop, once."""

    id: str
    run_id: str
    reason: str


class ExtendGraph(msgspec.Struct):
    """Add members to the graph of this run, once; complete when that is done."""

    id: str
    graph_id: str
    patch: GraphPatch
    targets: Sequence[DefinitionRef] = ()
    """The workflows of the new members."""
    fingerprint: str = ""
    """Equal for equal members, however their inputs are sealed."""


class Spend(msgspec.Struct):
    """Spend amounts from the budgets of the run, all or nothing; complete when they are spent, or
    fail without room. A fact is counted regardless of the limits."""

    id: str
    amounts: dict[str, int]
    key: str | None = None
    under: str | None = None
    fact: bool = False


class Reserve(msgspec.Struct):
    """Reserve amounts in the budgets of the run; complete when they are reserved, or fail without
    room."""

    id: str
    amounts: dict[str, int]
    under: str | None = None


class ReleaseReservation(msgspec.Struct):
    """Release the rest of the amounts that the command *reservation* has reserved."""

    id: str
    reservation: str


class Checkpoint(msgspec.Struct):
    """Record the state of the program with the next commit. A program that is loaded later begins
    with the last recorded state and the events after it. There is no outcome."""

    data: bytes
    """The state, as JSON: all that the program needs to ask for its pending commands again."""


class Drop(msgspec.Struct):
    """Stop a command that the code no longer waits for; the program is fed no outcome of it."""

    id: str


class Finish(msgspec.Struct):
    """End the run: ``completed`` with a result, ``failed`` or ``cancelled`` with an error."""

    status: str
    result: bytes | None = None
    error: Exception | BaseException | None = None
    failed_compensations: Sequence[str] = ()
    """The identities of the compensations that failed."""


Command = (
    RunStep
    | SetTimer
    | AwaitSignal
    | CreateWait
    | AwaitCondition
    | StartChild
    | StartMap
    | AwaitChild
    | EndChildren
    | OpenGate
    | RecordDecision
    | SendSignal
    | CancelRun
    | ExtendGraph
    | Spend
    | Reserve
    | ReleaseReservation
    | Checkpoint
    | Drop
    | Finish
)
