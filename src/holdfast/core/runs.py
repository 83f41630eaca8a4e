"""What the store keeps: runs, their events, signals, sessions, lanes. Times are microseconds since
1970, UTC.

Records are plain data. A field has the name of its column.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from holdfast.core.events import Event
from holdfast.core.payload import Fetch, Payload
from holdfast.core.status import Status
from holdfast.core.waits import Signal

DEFAULT_NAMESPACE = "default"
"""The namespace of whoever names none."""

MEMBER_MARK = "::"
"""What separates the id of a graph from the name of a member in the id of the run of that
member."""


class Route(msgspec.Struct, frozen=True):
    """What a worker must offer to serve a run: the namespace, the workflow, its version, the lane,
    the capabilities."""

    namespace: str
    workflow: str
    version: str
    lane: str
    capabilities: tuple[str, ...] = ()


class Limits(msgspec.Struct, frozen=True):
    """What a budget allows, by dimension, in millionths; None counts and does not limit. And what
    happens past a hard limit."""

    hard: dict[str, int | None]
    soft: dict[str, int] = {}
    on_breach: str = "wait"


class NewRun(msgspec.Struct, kw_only=True):
    """A run to be created. With a session it is born leased to it, generation 1. ``payloads`` is
    what is kept apart of its input; ``same`` says whether the input of a run that is there already
    is the same, in whatever seal each of them is."""

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
    """What is agreed with whoever leases it."""
    budgets: tuple[str, ...] = ()
    limits: Limits | None = None
    share: str | None = None
    payloads: tuple[Payload, ...] = ()
    same: Callable[[NewRun, str, bytes, Fetch], bool] | None = None


class RunRecord(msgspec.Struct, kw_only=True):
    """One durable execution, as stored."""

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


def leased_at_start(new: NewRun, created_at: int) -> RunRecord:
    """Return a run as it is stored when it is leased to a session at its birth."""
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
    )


CHILDREN_END = "children_end"
"""The kind of the wait of a run that stops and whose children have to end first."""


class ChildRecord(msgspec.Struct):
    """How a child stands, as its parent sees it."""

    id: str
    parent_step: str
    parent_index: int | None
    status: Status
    result: bytes | None
    error: bytes | None
    finished_at: int | None
    on_parent_end: str = "cancel"
    cancel_reason: str | None = None
    cancelled_at: int | None = None


def child_record(run: RunRecord) -> ChildRecord:
    """Return a run as a run sees it that waits for its end."""
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
    """The children that one ``map`` started: how many are still open, and what wakes the parent."""

    step: str
    remaining: int
    eager: bool


Cell = str | int | float | bytes | None
"""What a column can hold."""


class RunSnapshot(msgspec.Struct):
    """All that a store holds about one run: what moves with it to another store. ``rank`` and
    ``crash_seq`` are its columns."""

    run: RunRecord
    tags: dict[str, str] = {}
    events: list[Event] = []
    signals: list[Signal] = []
    fanouts: list[Fanout] = []
    rank: int | None = None
    crash_seq: int | None = None
    below: dict[str, list[list[Cell]]] = {}
    """The rows of the other tables that belong to it, by table."""


class ErrorInfo(msgspec.Struct):
    """An exception as data: what was raised, never the object itself."""

    type: str
    message: str
    traceback: str | None = None
    facts: dict[str, object] = {}
