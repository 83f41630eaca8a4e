"""What the store keeps: runs, their events, signals, sessions, lanes. Times are microseconds since 1970, UTC.

Records are plain data. A field has the name of its column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.core.status import Status

DEFAULT_NAMESPACE = "default"
"""The namespace of whoever names none."""

MEMBER_MARK = "::"
"""What separates the id of a graph from the name of a member in the id of the run of that member."""


class Route(msgspec.Struct, frozen=True):
    """What a worker must offer to serve a run: the namespace, the workflow, its version, the lane, the capabilities."""

    namespace: str
    workflow: str
    version: str
    lane: str
    capabilities: tuple[str, ...] = ()


class Payload(msgspec.Struct):
    """A value that is kept apart, once for all who refer to it. ``digest`` is what it is known by, ``key`` the id of the key that
    it is encrypted with (empty for none), ``form`` says whether it is compressed, ``size`` how many bytes the value has."""

    digest: bytes
    key: str
    form: str
    size: int
    parts: list[bytes] = []

    @property
    def stored(self) -> int:
        """How many bytes it takes as it is kept."""
        return sum(len(part) for part in self.parts)


Fetch = Callable[[bytes], Payload | None]
"""What finds a payload by its digest."""


class Limits(msgspec.Struct, frozen=True):
    """What a budget allows, by dimension, in millionths; None counts and does not limit. And what happens past a hard limit."""

    hard: dict[str, int | None]
    soft: dict[str, int] = {}
    on_breach: str = "wait"


class NewRun(msgspec.Struct, kw_only=True):
    """A run to be created. With a session it is born leased to it, generation 1. ``payloads`` is what is kept apart of its input;
    ``same`` says whether the input of a run that is there already is the same, in whatever seal each of them is."""

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


class Run(msgspec.Struct, kw_only=True):
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


def born_leased(new: NewRun, created_at: int) -> Run:
    """Return a run as it is stored when it is leased to a session at its birth."""
    route = new.route
    return Run(
        id=new.id, namespace=route.namespace, workflow=route.workflow, version=route.version, lane=route.lane,
        capabilities=route.capabilities, status=Status.RUNNING, priority=new.priority, input=new.input, generation=1,
        revision=0, crashes=0, created_at=created_at, key=new.key, deadline=new.deadline, session_id=new.session_id,
        parent_id=new.parent_id, parent_step=new.parent_step, parent_index=new.parent_index, root_id=new.root_id,
        on_parent_end=new.on_parent_end, started_at=created_at, budgets=new.budgets, share=new.share,
    )  # fmt: skip


class Kind:
    """The kinds of events, past tense."""

    STEP_STARTED = "step_started"
    STEP_COMPLETED = "step_completed"
    STEP_FAILED = "step_failed"
    STEP_RETRIED = "step_retried"
    STEP_DROPPED = "step_dropped"
    STEP_BLOCKED = "step_blocked"
    TIMER_SET = "timer_set"
    TIMER_FIRED = "timer_fired"
    SIGNAL_AWAITED = "signal_awaited"
    SIGNAL_RECEIVED = "signal_received"
    SIGNAL_TIMED_OUT = "signal_timed_out"
    CHILD_STARTED = "child_started"
    CHILD_ENDED = "child_ended"
    MAP_STARTED = "map_started"
    MAP_ENDED = "map_ended"
    CHILDREN_ENDED = "children_ended"
    GATE_OPENED = "gate_opened"
    GATE_REMINDED = "gate_reminded"
    GATE_ESCALATED = "gate_escalated"
    GATE_CLOSED = "gate_closed"
    GATE_WITHDRAWN = "gate_withdrawn"
    WAIT_CREATED = "wait_created"
    WAIT_OPENED = "wait_opened"
    WAIT_SATISFIED = "wait_satisfied"
    WAIT_RELEASED = "wait_released"
    WAIT_TIMED_OUT = "wait_timed_out"
    WAIT_ESCALATED = "wait_escalated"
    WAIT_DROPPED = "wait_dropped"
    MARKED = "marked"
    BUDGET_SPENT = "budget_spent"
    BUDGET_RESERVED = "budget_reserved"
    BUDGET_SETTLED = "budget_settled"
    SIGNAL_SENT = "signal_sent"
    CANCEL_SENT = "cancel_sent"
    GRAPH_GROWN = "graph_grown"
    CANCEL_REQUESTED = "cancel_requested"
    RUN_COMPLETED = "run_completed"
    RUN_FAILED = "run_failed"
    RUN_CANCELLED = "run_cancelled"
    RUN_EXPIRED = "run_expired"
    RUN_STUCK = "run_stuck"
    RUN_RESUMED = "run_resumed"
    RUN_REPLAYED = "run_replayed"
    RUN_FORKED = "run_forked"
    ATTEMPT_FAILED = "attempt_failed"
    RUN_DELAYED = "run_delayed"
    LEASE_REVOKED = "lease_revoked"
    PRIORITY_CHANGED = "priority_changed"
    RUN_RELEASED = "run_released"
    RUN_OVERRIDDEN = "run_overridden"
    LEASE_LOST = "lease_lost"
    HISTORY_DELETED = "history_deleted"


OUTCOMES = frozenset(
    {
        Kind.STEP_COMPLETED,
        Kind.STEP_FAILED,
        Kind.TIMER_FIRED,
        Kind.SIGNAL_RECEIVED,
        Kind.SIGNAL_TIMED_OUT,
        Kind.CHILD_STARTED,
        Kind.CHILD_ENDED,
        Kind.MAP_ENDED,
        Kind.CHILDREN_ENDED,
        Kind.BUDGET_SPENT,
        Kind.BUDGET_RESERVED,
        Kind.BUDGET_SETTLED,
        Kind.GATE_CLOSED,
        Kind.WAIT_CREATED,
        Kind.WAIT_SATISFIED,
        Kind.WAIT_RELEASED,
        Kind.WAIT_TIMED_OUT,
        Kind.SIGNAL_SENT,
        Kind.CANCEL_SENT,
        Kind.GRAPH_GROWN,
        Kind.CANCEL_REQUESTED,
    }
)
"""The kinds that a program is fed: what a command came to, and the request to stop."""


PRIVATE = frozenset(
    {
        Kind.STEP_COMPLETED,
        Kind.SIGNAL_RECEIVED,
        Kind.CHILD_ENDED,
        Kind.MAP_ENDED,
        Kind.MARKED,
        Kind.WAIT_SATISFIED,
        Kind.WAIT_RELEASED,
        Kind.WAIT_TIMED_OUT,
    }
)
"""The kinds whose data are values of the user's: they are sealed. What the engine itself writes, times and names, is not."""


class Event(msgspec.Struct):
    """One line of a run's history. ``step`` is the stable identity of the command that it belongs to. ``id`` is its number among
    the events of all runs; it is told only where an event moves with its run."""

    kind: str
    step: str | None = None
    data: bytes | None = None
    error: bytes | None = None
    attempt: int = 1
    started_at: int | None = None
    at: int = 0
    seq: int = 0
    id: int = 0


class Signal(msgspec.Struct):
    """A message to a run, or to one of its waits; ``number`` counts the signals of the run. One with a ``step`` is a person's:
    it lets the wait of that step go. ``key``, ``taken`` and ``effect`` are told only where a signal moves with its run."""

    id: int
    name: str
    payload: bytes
    at: int
    key: str | None = None
    taken: bool = False
    number: int = 0
    wait_id: str | None = None
    source: str | None = None
    step: str | None = None
    effect: str | None = None


class Wait(msgspec.Struct, kw_only=True):
    """Something that a run waits for, or will. One with an ``id`` was handed out: whoever has its token may deliver signals to
    it until ``until``. One without is what the run's code waits for, by the step that does."""

    run_id: str
    step: str
    id: str | None
    name: str
    kid: str | None = None
    opened_at: int
    until: int | None = None
    escalated_at: int | None = None
    closed_at: int | None = None
    closed_by: str | None = None


CHILDREN_END = "children_end"
"""The kind of the wait of a run that stops and whose children have to end first."""


class Child(msgspec.Struct):
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


def as_child(run: Run) -> Child:
    """Return a run as a run sees it that waits for its end."""
    return Child(
        id=run.id, parent_step=run.parent_step or "", parent_index=run.parent_index, status=run.status, result=run.result,
        error=run.error, finished_at=run.finished_at,
    )  # fmt: skip


class Fanout(msgspec.Struct):
    """The children that one ``map`` started: how many are still open, and what wakes the parent."""

    step: str
    remaining: int
    eager: bool


Cell = str | int | float | bytes | None
"""What a column can hold."""


class Dossier(msgspec.Struct):
    """All that a store holds about one run: what moves with it to another store. ``rank`` and ``crash_seq`` are its columns."""

    run: Run
    tags: dict[str, str] = {}
    events: list[Event] = []
    signals: list[Signal] = []
    fanouts: list[Fanout] = []
    rank: int | None = None
    crash_seq: int | None = None
    below: dict[str, list[list[Cell]]] = {}
    """The rows of the other tables that belong to it, by table."""


class Seal(msgspec.Struct, kw_only=True):
    """Why a database takes no writes. Exactly one of ``moved_to`` and ``copied_from`` is set: a URL without its password."""

    at: int
    moved_to: str | None = None
    """Where all its runs continue: nothing is to be read here any more."""
    copied_from: str | None = None
    """Where the runs continue of which this database holds a copy to look at."""
    copy_id: str | None = None
    """The copy that has sealed it."""


class Retention(msgspec.Struct, kw_only=True):
    """A rule for what of finished runs is deleted, and when. Times are microseconds, ``statuses`` and names as in a filter."""

    name: str
    what: str = "runs"
    workflow: str | None = None
    statuses: tuple[str, ...] = ()
    older_than: int | None = None
    keep_last: int | None = None
    max_bytes: int | None = None


class Session(msgspec.Struct, kw_only=True):
    """A worker process that holds leases as long as it heartbeats."""

    id: str
    worker: str
    host: str
    pid: int
    slot: int
    started_at: int
    beat_at: int
    expires_at: int
    serves: bytes

    @property
    def offer(self) -> dict[str, Any]:
        """What it serves, as data: workflows, lanes, capabilities, namespace, concurrency, and whether it claims."""
        told: dict[str, Any] = msgspec.json.decode(self.serves)
        return told


class Lane(msgspec.Struct, kw_only=True):
    """A named queue and its limits."""

    name: str
    concurrency: int | None = None
    rate_limit: int | None = None
    rate_per: int | None = None
    free_at: int = 0
    """When its rate lets one more begin; past or 0 when it does now."""
    paused: bool = False
    per_share: int | None = None
    share_rate_limit: int | None = None
    share_rate_per: int | None = None
    weights: str | None = None
    draining: bool = False

    @property
    def by_share(self) -> bool:
        """Whether it limits what one share may have at work, or begin."""
        return self.per_share is not None or self.share_rate_limit is not None


class Allowance(msgspec.Struct, kw_only=True):
    """One dimension of a budget: its limits, what is used and what is set aside, in millionths of a unit."""

    budget: str
    dimension: str
    run_id: str | None = None
    hard: int | None = None
    soft: int | None = None
    used: int = 0
    reserved: int = 0
    reset_at: int | None = None


class Budget(msgspec.Struct, kw_only=True):
    """What runs may spend together: a tree of them, or all that name it."""

    name: str
    on_breach: str = "wait"
    run_id: str | None = None
    resets: str | None = None
    zone: str = "UTC"
    reset_at: int | None = None
    reset_count: int = 0
    breaches: int = 0
    soft_breaches: int = 0
    breached_at: int | None = None
    breached: str | None = None
    created_at: int = 0
    allowances: list[Allowance] = []


class Breach(msgspec.Struct, frozen=True):
    """A hard limit that is passed, or would be: which, by how much, and what is to happen. Amounts are millionths."""

    budget: str
    dimension: str
    used: int
    reserved: int
    limit: int
    wanted: int
    on_breach: str = "wait"
    reset_at: int | None = None


class Spending(msgspec.Struct):
    """Something that is spent: counted once, and only once when it has a key. ``under`` names what was set aside for it. A
    ``fact`` has happened and is counted whatever the limits say; anything else is taken when there is room, or not at all."""

    amounts: dict[str, int]
    key: str | None = None
    under: str | None = None
    fact: bool = False


class ErrorInfo(msgspec.Struct):
    """An exception as data: what was raised, never the object itself."""

    type: str
    message: str
    traceback: str | None = None
    facts: dict[str, object] = {}
