"""The stored records of runs and their children. Times are microseconds since 1970, UTC.

Records are plain data. A field has the name of its column.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from holdfast.core.definitions import StoredDefinition
from holdfast.core.events import Event
from holdfast.core.payload import Fetch, Payload
from holdfast.core.status import Status
from holdfast.core.waits import Signal

DEFAULT_NAMESPACE = "default"
"""The namespace that is used when none is named."""

MEMBER_MARK = "::"
"""The separator between the id of a graph and the name of a member in the id of that member's
run."""


class Route(msgspec.Struct, frozen=True):
    """The properties that a worker must offer to serve a run: the namespace, the workflow, its
    version, the lane, the capabilities."""

    namespace: str
    workflow: str
    version: str
    lane: str
    capabilities: tuple[str, ...] = ()


class Limits(msgspec.Struct, frozen=True):
    """The limits of a budget by dimension, in millionths, and the reaction to a hard limit.

    A hard limit of None counts the dimension without limiting it."""

    hard: dict[str, int | None]
    soft: dict[str, int] = {}
    on_breach: str = "wait"


class CancelCause(StrEnum):
    """Who or what asked a run to stop. Only a deadline makes it end as expired."""

    REQUEST = "request"
    DEADLINE = "deadline"
    PARENT = "parent"
    UNAWAITED = "unawaited"
    BUDGET = "budget"
    GRAPH = "graph"
    SCHEDULE = "schedule"
    HOLDER = "holder"


class Cancellation(NamedTuple):
    """A request to stop: its cause, its reason for people, and the person or program that made
    it."""

    reason: str
    cause: CancelCause = CancelCause.REQUEST
    by: str | None = None

    def for_children(self) -> Cancellation:
        """Return the request for the children of a run: they inherit its deadline."""
        if self.cause is CancelCause.DEADLINE:
            return self
        return Cancellation(self.reason, CancelCause.PARENT, self.by)


PAST_DEADLINE = Cancellation("deadline", CancelCause.DEADLINE)
UNAWAITED = Cancellation("its parent no longer waits for it", CancelCause.UNAWAITED)


class StuckCause(StrEnum):
    """Why a run is stuck, where the engine acts on it."""

    KEY_MISSING = "key_missing"


class NewRun(msgspec.Struct, kw_only=True):
    """A run to be created. With a session it is created leased to that session, as generation 1.

    ``payloads`` are the parts of its input that are stored separately. ``same`` returns whether an
    existing run has the same input, regardless of how each of the two inputs is sealed."""

    id: str
    route: Route
    input: bytes
    priority: int = 0
    key: str | None = None
    tags: dict[str, str] = {}
    available_at: int | None = None
    deadline: int | None = None
    session_id: str | None = None
    parent_id: str | None = None
    parent_step: str | None = None
    parent_index: int | None = None
    on_parent_end: str = "cancel"
    root_id: str | None = None
    forked_from: str | None = None
    policy: bytes | None = None
    """The terms of its leases: the policy of a task."""
    budgets: tuple[str, ...] = ()
    limits: Limits | None = None
    share: str | None = None
    graph_id: str | None = None
    """The graph that the run is a member of."""
    schedule: str | None = None
    """The name of the schedule that starts the run; ``tick_at`` is the instant of the tick."""
    tick_at: int | None = None
    payloads: tuple[Payload, ...] = ()
    same: Callable[[NewRun, str, bytes, Fetch], bool] | None = None
    definition: StoredDefinition | None = None
    """The definition that the run keeps; None if it is stored already, or is code."""


class RunRecord(msgspec.Struct, kw_only=True):
    """A run, as stored."""

    id: str
    namespace: str
    workflow: str
    version: str
    lane: str
    capabilities: tuple[str, ...]
    status: Status
    priority: int
    input: bytes
    generation: int
    revision: int
    crashes: int
    created_at: int
    key: str | None = None
    result: bytes | None = None
    error: bytes | None = None
    waits: bytes | None = None
    wake_at: int | None = None
    deadline: int | None = None
    session_id: str | None = None
    parent_id: str | None = None
    parent_step: str | None = None
    parent_index: int | None = None
    on_parent_end: str = "cancel"
    root_id: str | None = None
    forked_from: str | None = None
    cancel_reason: str | None = None
    cancelled_at: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    budgets: tuple[str, ...] = ()
    share: str | None = None
    graph_id: str | None = None
    """The graph that the run is a member of."""
    schedule: str | None = None
    """The name of the schedule that started the run; ``tick_at`` is the instant of the tick."""
    tick_at: int | None = None
    cancel_cause: str | None = None
    cancelled_by: str | None = None
    """A ``CancelCause``."""
    stuck_cause: str | None = None
    """A ``StuckCause``, if an operator alone cannot tell it from the error."""


def leased_at_start(new: NewRun, created_at: int) -> RunRecord:
    """Return the record of a run that is created leased to a session."""
    route = new.route
    return RunRecord(
        id=new.id,
        namespace=route.namespace,
        workflow=route.workflow,
        version=route.version,
        lane=route.lane,
        capabilities=route.capabilities,
        status=Status.RUNNING,
        priority=new.priority,
        input=new.input,
        generation=1,
        revision=0,
        crashes=0,
        created_at=created_at,
        key=new.key,
        deadline=new.deadline,
        session_id=new.session_id,
        parent_id=new.parent_id,
        parent_step=new.parent_step,
        parent_index=new.parent_index,
        root_id=new.root_id,
        on_parent_end=new.on_parent_end,
        started_at=created_at,
        budgets=new.budgets,
        share=new.share,
        graph_id=new.graph_id,
        schedule=new.schedule,
        tick_at=new.tick_at,
    )


class ChildRecord(msgspec.Struct):
    """The state of a child run, as its parent sees it."""

    id: str
    parent_step: str
    parent_index: int | None
    status: Status
    result: bytes | None
    error: bytes | None
    finished_at: int | None
    on_parent_end: str = "cancel"
    cancel_reason: str | None = None
    cancel_cause: str | None = None
    cancelled_at: int | None = None


def child_record(run: RunRecord) -> ChildRecord:
    """Return a run in the form in which a run that waits for its end sees it."""
    return ChildRecord(
        id=run.id,
        parent_step=run.parent_step or "",
        parent_index=run.parent_index,
        status=run.status,
        result=run.result,
        error=run.error,
        finished_at=run.finished_at,
    )


class Fanout(msgspec.Struct):
    """The children that one ``map`` started: ``remaining`` are still open, and ``eager`` tells
    which ends wake the parent."""

    step: str
    remaining: int
    eager: bool


Cell = str | int | float | bytes | None
"""The types of the value of a column."""


class RunSnapshot(msgspec.Struct):
    """All data of one run, which moves with it to another store. ``rank`` and ``crash_seq`` are
    columns of the run that `RunRecord` does not have."""

    run: RunRecord
    tags: dict[str, str] = {}
    events: list[Event] = []
    signals: list[Signal] = []
    fanouts: list[Fanout] = []
    rank: int | None = None
    crash_seq: int | None = None
    below: dict[str, list[list[Cell]]] = {}
    """The rows of other tables that belong to the run, by table."""


class ErrorInfo(msgspec.Struct):
    """The description of an exception as data, never the exception object itself."""

    type: str
    message: str
    traceback: str | None = None
    facts: dict[str, object] = {}
    cause: str | None = None
    """The exception at the bottom of a chain of ``raise ... from``, if it is another one: its type
    and its message."""
