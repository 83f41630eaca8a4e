"""The commands that a program may return: what it asks its worker to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core.conditions.model import Condition
from holdfast.core.gates.model import GateTerms
from holdfast.core.graphs.model import GraphPatch
from holdfast.core.retry import RetryPolicy
from holdfast.core.runs import Route
from holdfast.core.step_info import StepInfo


class RunStep(msgspec.Struct):
    """Call this function and record what it returns. With ``own`` the program makes the first
    attempt itself and reports."""

    id: str
    name: str
    call: Callable[[StepInfo, Any], Any]
    is_async: bool
    policy: RetryPolicy
    timeout: int | None = None
    transactional: bool = False
    own: bool = False
    fits: Callable[[Any, bytes], None] | None = None
    """Raises when a value, once stored, could not be read again as what the step promises to
    return."""
    under: str | None = None
    """What the workflow has set aside for what this step spends."""


class SetTimer(msgspec.Struct):
    """Answer when *after* microseconds have passed since the command was first recorded."""

    id: str
    after: int


class AwaitSignal(msgspec.Struct):
    """Answer with the next signal of that name, or that time is up."""

    id: str
    name: str
    timeout: int | None = None


class CreateWait(msgspec.Struct):
    """Open a wait to which others may deliver signals, and answer with its id."""

    id: str
    name: str
    expires: int | None = None


class AwaitCondition(msgspec.Struct):
    """Answer when a condition is met, or a person lets it go, or that time is up. What happens then
    says ``on_timeout``."""

    id: str
    condition: Condition
    timeout: int | None = None
    on_timeout: str = "fail"


class StartChild(msgspec.Struct):
    """Start a run below this one and answer that it was started."""

    id: str
    route: Route
    input: bytes
    options: Mapping[str, Any]
    definition: Any


class StartMap(msgspec.Struct):
    """Start one run per input and answer when all have ended, or enough have failed."""

    id: str
    route: Route
    inputs: Sequence[bytes]
    options: Mapping[str, Any]
    definition: Any
    max_parallel: int | None
    fail_fast: bool


class AwaitChild(msgspec.Struct):
    """Answer when the child that the command *start* started has ended. Dropping the wait for an
    owned one cancels it."""

    id: str
    start: str
    run_id: str
    owned: bool = False


class EndChildren(msgspec.Struct):
    """Cancel the open children that may not outlive the run; answer when all of them have ended, or
    an operator releases the wait."""

    id: str


class OpenGate(msgspec.Struct):
    """Ask people for a decision and answer how they, or time, have decided. Dropping it withdraws
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
    """Add to the graph that this run is a member of, once, and answer that it was done."""

    id: str
    graph_id: str
    patch: GraphPatch
    workflows: Sequence[Any] = ()
    fingerprint: str = ""
    """The same for the same members, whatever seal their inputs are in."""


class Spend(msgspec.Struct):
    """Take from the run's budgets, all of it or nothing; answer when there was room, or that there
    is none. A fact is only counted."""

    id: str
    amounts: dict[str, int]
    key: str | None = None
    under: str | None = None
    fact: bool = False


class Reserve(msgspec.Struct):
    """Set so much aside in the run's budgets; answer when there was room, or that there is none."""

    id: str
    amounts: dict[str, int]
    under: str | None = None


class ReleaseReservation(msgspec.Struct):
    """Give back what is left of what was set aside by the command *reservation*."""

    id: str
    reservation: str


class Drop(msgspec.Struct):
    """Nobody waits for this command any more: stop it; no outcome will be fed."""

    id: str


class Finish(msgspec.Struct):
    """The run is over: ``completed`` with a result, ``failed`` or ``cancelled`` with what was
    raised."""

    status: str
    result: bytes | None = None
    error: Exception | BaseException | None = None


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
    | Drop
    | Finish
)
