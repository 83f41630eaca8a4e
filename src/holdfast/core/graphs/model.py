"""Records of graphs, members, groups and edges, and the changes that are to be stored.

Invariants:
- A waiting member is only a row: its run is started when all its groups are satisfied.
- The run of a member has the id ``graph::name``, unless it existed before it joined the graph: then
  it keeps its id, which the row of the member names.
- The row of a run names its graph, so that every transaction that ends a run reports its outcome.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache

import msgspec

from holdfast.core.runs import MEMBER_MARK, Limits, Route
from holdfast.core.tasks.policy import TaskPolicy

MARK = MEMBER_MARK
"""The separator between the id of a graph and the name of a member, in the id of its run."""


def run_of(graph_id: str, name: str) -> str:
    """Return the id of the run of the member *name*."""
    return f"{graph_id}{MARK}{name}"


def after_members(graph_id: str) -> str:
    """Return the exclusive upper bound of the run ids of a graph's members: it is greater than all
    of them, and not greater than any other id that follows them."""
    return graph_id + MARK[:-1] + chr(ord(MARK[-1]) + 1)


@lru_cache(10_000)
def graph_of(run_id: str) -> str | None:
    """Return the id of the graph that a run belongs to, by the run's id; None if it is not a
    member."""
    graph_id, mark, _ = run_id.partition(MARK)
    if mark:
        return graph_id
    return None


@lru_cache(10_000)
def name_of(run_id: str) -> str:
    """Return the name of a member by the id of its run."""
    return run_id.partition(MARK)[2]


class GraphStatus(StrEnum):
    """The status of a graph."""

    RUNNING = "running"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN_GRAPHS = frozenset({GraphStatus.RUNNING, GraphStatus.CANCELLING})


class MemberState(StrEnum):
    """The state of a member as the graph has recorded it; its run may be ahead of it."""

    STAGED = "staged"
    """The member is written, but not yet visible in the graph: the transaction that adds all
    members of its stage makes it visible."""
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
    """The state of a group of dependencies; it leaves ``open`` once."""

    OPEN = "open"
    SATISFIED = "satisfied"
    IMPOSSIBLE = "impossible"


class RemainderPolicy(StrEnum):
    """What happens to the members of a decided group that have not ended: they run on, or are
    cancelled."""

    RUN = "run"
    CANCEL = "cancel"


class CancelPolicy(StrEnum):
    """Which started members the cancel of a graph stops, besides cancelling the waiting ones: none
    of them, the ones that have not begun to run, or all."""

    GRAPH = "graph"
    PENDING = "pending"
    ALL = "all"


class MemberSpec(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The options with which the run of a member is started, besides its input. Times are
    microseconds from its start."""

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
    """The members for whose results its input has placeholders."""


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
    """The number of events in its audit trail."""
    fingerprint: str
    created_at: int
    policy: str | None = None
    reason: str | None = None
    summary: bytes | None = None
    finished_at: int | None = None


class MemberRecord(msgspec.Struct, kw_only=True):
    """A member of a graph, whose run is started or not. ``missing`` counts its groups that are not
    satisfied: open or impossible."""

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
    """When the graph, or a decided group, asked its run to stop."""
    note: str | None = None
    """Why it was skipped, was cancelled or could not be started."""
    joined: str | None = None
    """The run that existed before it became this member. Its id is not the one of the member."""

    @property
    def name(self) -> str:
        """The name of the member in its graph."""
        return name_of(self.run_id)

    @property
    def actual_run_id(self) -> str:
        """The id of the run that executes the member."""
        return self.joined or self.run_id


class GroupRecord(msgspec.Struct, kw_only=True):
    """A group of dependencies: a member needs ``need`` of ``total`` upstream members. ``done`` of
    them have completed, ``lost`` have ended in any other way."""

    run_id: str
    number: int
    need: int
    total: int
    done: int = 0
    lost: int = 0
    rest: RemainderPolicy = RemainderPolicy.RUN
    state: GroupState = GroupState.OPEN


class EdgeRecord(msgspec.Struct, frozen=True):
    """A dependency: the upstream member, the member that depends on it, and the number of the
    group of the dependent member to which the edge belongs."""

    upstream: str
    dependent: str
    number: int = 0


class GraphEvent(msgspec.Struct):
    """One event in the audit trail of a graph."""

    graph_id: str
    seq: int
    kind: str
    member: str | None
    data: bytes | None
    at: int


class GraphSnapshot(msgspec.Struct):
    """A graph with all its members, groups and edges. Members are keyed by the id of their run,
    groups by that id and the number of the group."""

    graph: GraphRecord
    members: dict[str, MemberRecord]
    groups: dict[tuple[str, int], GroupRecord]
    edges: list[EdgeRecord]


# Additions


class NewGroup(msgspec.Struct):
    """A group to add: ``need`` of the upstream members, by their names."""

    upstreams: tuple[str, ...]
    need: int
    rest: RemainderPolicy = RemainderPolicy.RUN


class NewMember(msgspec.Struct, kw_only=True):
    """A member to add; its input may have placeholders for results."""

    name: str
    spec: MemberSpec
    input: bytes
    groups: tuple[NewGroup, ...] = ()


class JoiningRun(msgspec.Struct, frozen=True):
    """A run that exists, and the name under which it becomes a member."""

    name: str
    run_id: str


class GraphPatch(msgspec.Struct):
    """The additions to a graph: new members, new groups of existing members that still wait, and
    existing runs that become members."""

    members: tuple[NewMember, ...]
    groups: tuple[tuple[str, NewGroup], ...] = ()
    joins: tuple[JoiningRun, ...] = ()
