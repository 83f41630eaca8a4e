"""A graph as it is stored. A member that waits is a row and nothing else: its run is started when
all it waits for has come.

The run of a member has the id ``graph::name``, so that whoever ends a run sees from its id whether
a graph must hear of it.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache

import msgspec

from holdfast.core.runs import MEMBER_MARK, Limits, Route
from holdfast.core.tasks.policy import TaskPolicy

MARK = MEMBER_MARK
"""Between the id of a graph and the name of a member, in the id of its run."""


def run_of(graph_id: str, name: str) -> str:
    """Return the id of the run of a member."""
    return f"{graph_id}{MARK}{name}"


def after_members(graph_id: str) -> str:
    """Return a text that is greater than the ids of all members of a graph, and less than those of
    members of any other one that are greater than these."""
    return graph_id + MARK[:-1] + chr(ord(MARK[-1]) + 1)


@lru_cache(10_000)
def graph_of(run_id: str) -> str | None:
    """Return the graph that a run belongs to, by its id; None when it is no member of any."""
    graph_id, mark, _ = run_id.partition(MARK)
    return graph_id if mark else None


@lru_cache(10_000)
def name_of(run_id: str) -> str:
    """Return the name of a member."""
    return run_id.partition(MARK)[2]


class GraphStatus(StrEnum):
    """Where a graph stands."""

    RUNNING = "running"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN_GRAPHS = frozenset({GraphStatus.RUNNING, GraphStatus.CANCELLING})


class MemberState(StrEnum):
    """Where a member stands, as far as the graph has heard."""

    STAGED = "staged"
    """It is written, and belongs to no graph yet: only the transaction that adds all members of its
    stage makes it visible."""
    WAITING = "waiting"
    STARTED = "started"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SKIPPED = "skipped"


ENDED = frozenset(set(MemberState) - {MemberState.STAGED, MemberState.WAITING, MemberState.STARTED})
LOST = ENDED - {MemberState.COMPLETED}


class GroupState(StrEnum):
    """Where a group of dependencies stands: it leaves ``open`` once."""

    OPEN = "open"
    SATISFIED = "satisfied"
    IMPOSSIBLE = "impossible"


class RemainderPolicy(StrEnum):
    """What becomes of the rest of a group when it is decided."""

    RUN = "run"
    CANCEL = "cancel"


class CancelPolicy(StrEnum):
    """What a cancel of a graph reaches: nothing that was started, what has not begun, or all."""

    GRAPH = "graph"
    PENDING = "pending"
    ALL = "all"


class MemberSpec(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the run of a member is started with, besides its input. Times are microseconds from its
    start."""

    route: Route
    priority: int = 0
    tags: dict[str, str] = {}
    delay: int | None = None
    deadline: int | None = None
    policy: TaskPolicy | None = None
    budgets: tuple[str, ...] = ()
    limits: Limits | None = None
    share: str | None = None
    takes: tuple[str, ...] = ()
    """The members whose results its input has places for."""


class GraphRecord(msgspec.Struct, kw_only=True):
    """A graph. ``revision`` counts changes of its structure, ``live`` the members that have not
    ended."""

    id: str
    namespace: str
    name: str
    status: GraphStatus
    revision: int
    members: int
    live: int
    events: int
    """How many lines its audit trail has."""
    fingerprint: str
    created_at: int
    policy: str | None = None
    reason: str | None = None
    summary: bytes | None = None
    finished_at: int | None = None


class MemberRecord(msgspec.Struct, kw_only=True):
    """One run of a graph, started or not. ``missing`` counts the groups that are still open or
    impossible."""

    run_id: str
    graph_id: str
    workflow: str
    state: MemberState
    missing: int
    spec: bytes
    input: bytes
    started_at: int | None = None
    finished_at: int | None = None
    asked_at: int | None = None
    """When it was asked to stop because of the graph, or of its group."""
    note: str | None = None
    """Why it was skipped, cancelled or could not be started."""

    @property
    def name(self) -> str:
        """Its name in the graph."""
        return name_of(self.run_id)


class GroupRecord(msgspec.Struct, kw_only=True):
    """What a member waits for: ``need`` of ``total`` others. ``done`` of them completed, ``lost``
    ended in any other way."""

    run_id: str
    number: int
    need: int
    total: int
    done: int = 0
    lost: int = 0
    rest: RemainderPolicy = RemainderPolicy.RUN
    state: GroupState = GroupState.OPEN


class EdgeRecord(msgspec.Struct, frozen=True):
    """A dependency: who must end, who waits for it, and in which of its groups."""

    upstream: str
    dependent: str
    number: int = 0


class GraphEvent(msgspec.Struct):
    """One line of the audit trail of a graph."""

    graph_id: str
    seq: int
    kind: str
    member: str | None
    data: bytes | None
    at: int


class GraphSnapshot(msgspec.Struct):
    """A graph with all that belongs to it."""

    graph: GraphRecord
    members: dict[str, MemberRecord]
    groups: dict[tuple[str, int], GroupRecord]
    edges: list[EdgeRecord]


# What is to be staged


class NewGroup(msgspec.Struct):
    """So many of these members, by their names."""

    upstreams: tuple[str, ...]
    need: int
    rest: RemainderPolicy = RemainderPolicy.RUN


class NewMember(msgspec.Struct, kw_only=True):
    """A member to be added; its input may have places for results."""

    name: str
    spec: MemberSpec
    input: bytes
    groups: tuple[NewGroup, ...] = ()


class GraphPatch(msgspec.Struct):
    """What is to be added to a graph: members, and groups for members that are there and wait."""

    members: tuple[NewMember, ...]
    groups: tuple[tuple[str, NewGroup], ...] = ()
