"""The commands that a program may return: what it asks its worker to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.conditions.model import Condition, OnTimeout
from holdfast.core.definitions import DefinitionRef
from holdfast.core.events import EventRole, is_compensation
from holdfast.core.retry import RetryPolicy
from holdfast.core.runs import Route
from holdfast.core.step_info import StepInfo

if TYPE_CHECKING:
    from holdfast.core.gates.model import GateTerms
    from holdfast.core.graphs.model import GraphPatch
    from holdfast.core.resting_tokens import RestingToken
    from holdfast.core.tasks.policy import TaskPolicy


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
    role: str | None = None
    """An ``EventRole`` or ``compensation_of(step)``; recorded with every event of the step."""
    kept_args: Callable[[], bytes] | None = None
    """Returns the arguments as they are recorded; None if they are not."""

    @property
    def is_compensation(self) -> bool:
        """Whether the step undoes a completed one."""
        return is_compensation(self.role)


class SetTimer(msgspec.Struct):
    """Complete *after* microseconds after the command was first recorded, or at the instant
    *until*, in microseconds since 1970."""

    id: str
    after: int = 0
    until: int | None = None


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
    """Start a child run; complete when it is started.

    With a *policy* the child is a task: workers lease it by its name, and no worker needs a
    definition of it.
    """

    id: str
    target: DefinitionRef
    route: Route
    input: bytes
    options: Mapping[str, Any]
    policy: TaskPolicy | None = None
    """The terms of its leases."""


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
    due_at: int | None = None
    """An instant at which people are reminded; the gate stays open."""


class Subscribe(msgspec.Struct):
    """Complete with the next message of that name and key, or with the next broadcast of that
    name. Dropping the command ends the subscription."""

    id: str
    kind: str
    """``message``: one receiver gets it; ``signal``: a broadcast, which all receivers get."""
    name: str
    key: str | None = None
    """The key that a message must have; None for any message of that name."""
    element: str = ""
    """The element of the model that waits."""


class Publish(msgspec.Struct):
    """Send a message to one receiver, once, with the next commit. Without a receiver it is kept for
    *ttl* microseconds, or lost if that is 0."""

    id: str
    name: str
    key: str | None = None
    payload: bytes = b"{}"
    ttl: int = 0
    message_id: str | None = None
    """An id that no other message of that name has; a repeated one is sent once."""


class Broadcast(msgspec.Struct):
    """Send a signal to all receivers that wait for that name, once, with the next commit."""

    id: str
    name: str
    payload: bytes = b"{}"


class RaiseIncident(msgspec.Struct):
    """Complete when an operator resolves the incident: the outcome has the action and variables.
    Dropping the command closes the incident."""

    id: str
    element: str
    """The element of the model that failed."""
    error: bytes
    """The description of the failure, as JSON: ``type``, ``message``, ``facts``."""
    attempts: int = 1
    """How often the element was tried."""


class AnswerInstruction(msgspec.Struct):
    """Answer an instruction that the program was fed (``instructed``): its caller gets the answer
    after the commit. There is no outcome."""

    id: str
    """The id of the instruction, from the data of its event."""
    answer: bytes = b"null"
    """The answer, as JSON."""
    error: Exception | None = None
    """Why the instruction is refused; it must then have changed nothing."""


class Rest(msgspec.Struct):
    """Show the tokens at rest as rows, from the next commit on. There is no outcome."""

    tokens: Sequence[RestingToken]
    """The tokens that have changed since the last ``Rest``."""
    removed: Sequence[str] = ()
    """The ids of the tokens that do not rest any more."""


class RecordElements(msgspec.Struct):
    """Record that elements of a model were entered, completed or cancelled, for subscribers. There
    is no outcome."""

    visits: Sequence[tuple[str, str]]
    """Kinds of events and ids of elements, in order."""


class ChangeVersion(msgspec.Struct):
    """Continue the run with another version of its definition: with the next commit, which must
    have a checkpoint that the other version can begin with. There is no outcome."""

    version: str
    before: str = ""
    """The version until then: a replay of the whole history begins with it."""
    instruction: str | None = None
    """The id of the instruction that asked for it."""
    continues: bool = False
    """Whether this program goes on with the other version; otherwise the run is released, for a
    worker that has its handlers."""
    places: Mapping[str, str] = {}
    """The elements of the open waits that have another name in the new version, by step."""


class RecordDecision(msgspec.Struct):
    """Record a value that was decided now, so that every replay decides the same."""

    id: str
    value: Any
    role: EventRole | None = None
    """Recorded with the event."""


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
    | Subscribe
    | Publish
    | Broadcast
    | RaiseIncident
    | AnswerInstruction
    | Rest
    | RecordElements
    | ChangeVersion
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
