"""The seam between authoring and engine: history in, commands out.

A program is a definition at work in one run. It is begun with the history, then fed one outcome after another, and each
time answers with the commands that are new. A command has a stable identity: the same one in every replay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from holdfast.core.conditions import Condition
from holdfast.core.gates.records import Terms
from holdfast.core.graphs.records import Patch
from holdfast.core.records import Event, Route, Run
from holdfast.core.retry import RetryPolicy
from holdfast.core.streams import Sink


def idempotency_key(run_id: str, step: str, life: int) -> str:
    """Return the key under which a step acts on the outside world, in the given life of that step."""
    return f"{run_id}:{step}" if life == 0 else f"{run_id}:{step}~{life + 1}"


class StepInfo(msgspec.Struct, frozen=True):
    """What a step may know about itself. The key is the same in every attempt; the generation grows with every new owner."""

    run_id: str
    workflow: str
    step: str
    attempt: int
    generation: int
    sink: Any = None
    """Where its output goes: ``holdfast.emit`` and the like write there."""
    life: int = 0
    """How often completed work, on which this step builds or which was its own, was declared void by a replay."""

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this step, and for no other step: give it to the outside world. A step that is done
        again after a replay has declared its work void has a new one."""
        return idempotency_key(self.run_id, self.step, self.life)


class RunStep(msgspec.Struct):
    """Call this function and record what it returns. With ``own`` the program makes the first attempt itself and reports."""

    id: str
    name: str
    call: Callable[[StepInfo, Any], Any]
    is_async: bool
    policy: RetryPolicy
    timeout: int | None = None
    transactional: bool = False
    own: bool = False
    fits: Callable[[Any, bytes], None] | None = None
    """Raises when a value, once stored, could not be read again as what the step promises to return."""
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
    """Answer when a condition is met, or a person lets it go, or that time is up. What happens then says ``on_timeout``."""

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
    """Answer when the child that the command *start* started has ended. Dropping the wait for an owned one cancels it."""

    id: str
    start: str
    run_id: str
    owned: bool = False


class EndChildren(msgspec.Struct):
    """Cancel the open children that may not outlive the run; answer when all of them have ended, or an operator releases the
    wait."""

    id: str


class OpenGate(msgspec.Struct):
    """Ask people for a decision and answer how they, or time, have decided. Dropping it withdraws the gate."""

    id: str
    prompt: str
    terms: Terms
    assignees: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    data: bytes | None = None
    timeout: int | None = None


class Mark(msgspec.Struct):
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


class GrowGraph(msgspec.Struct):
    """Add to the graph that this run is a member of, once, and answer that it was done."""

    id: str
    graph_id: str
    patch: Patch
    workflows: Sequence[Any] = ()
    fingerprint: str = ""
    """The same for the same members, whatever seal their inputs are in."""


class Spend(msgspec.Struct):
    """Take from the run's budgets, all of it or nothing; answer when there was room, or that there is none. A fact is only
    counted."""

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


class Settle(msgspec.Struct):
    """Give back what is left of what was set aside by the command *reservation*."""

    id: str
    reservation: str


class Drop(msgspec.Struct):
    """Nobody waits for this command any more: stop it; no outcome will be fed."""

    id: str


class Finish(msgspec.Struct):
    """The run is over: ``completed`` with a result, ``failed`` or ``cancelled`` with what was raised."""

    status: str
    result: bytes | None = None
    error: Exception | BaseException | None = None


Command = (
    RunStep | SetTimer | AwaitSignal | CreateWait | AwaitCondition | StartChild | StartMap | AwaitChild | EndChildren | OpenGate
    | Mark | SendSignal | CancelRun | GrowGraph | Spend | Reserve | Settle | Drop | Finish
)  # fmt: skip


Report = Callable[[str, Any, Exception | None, int, Any], None]
"""How a program tells the engine, from any thread, what its own attempt at a step came to: step, value, error, start time, and
the purse that it had."""


class Program(Protocol):
    """What code, text and model definitions all turn into."""

    speculative: bool
    asked_time: bool
    """Whether the code has asked for the time since this was last said to be false."""
    report: Report | None
    sink: Sink | None
    clock: Callable[[], int]
    """The time of the store, for what the program does by itself."""
    purse: Callable[[str, str | None], Any] | None
    """Gives the purse for an attempt that the program makes by itself: of which step, and what was set aside for it."""
    held_up: bool
    """Whether the program may begin no attempt by itself for now, because a budget is spent."""
    is_sure: Callable[[], bool]
    """Returns whether no other worker can hold the run by now. If one can, the program begins no attempt by itself: the engine
    asks the store first. Any thread may call it."""
    steps: int
    """How many ends of steps the program was given. The last event of a completed run says it, so that a step that is not in the
    history can be found."""
    token: Callable[[str, str], str]
    """Returns the token of a wait that was handed out, by its id and the name of the key."""
    life_of: Callable[[str], int]
    """Returns the life of a step, for its idempotency key."""
    epoch: int
    """How often the run has begun again without any of its work: random numbers differ then."""

    async def begin(self, history: Sequence[Event]) -> list[Command]:
        """Replay *history* and return what is wanted now. Raises Diverged before anything new is wanted."""

    async def feed(self, events: Sequence[Event]) -> list[Command]:
        """Take the outcomes, in order, and return what is newly wanted."""

    def close(self) -> None:
        """Leave memory. Nothing is recorded; the run can begin again elsewhere."""


class Definition(Protocol):
    """A workflow as the engine knows it."""

    name: str
    version: str
    lane: str
    capabilities: tuple[str, ...]
    serves: frozenset[str] | None
    blocking: bool

    def program(self, run: Run, codec: Any) -> Program:
        """Return a program for *run*, not yet begun."""
