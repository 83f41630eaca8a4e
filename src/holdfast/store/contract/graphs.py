"""What can be done to graphs, and asked about them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from holdfast.core.graphs.model import (
    CancelPolicy,
    GraphEvent,
    GraphPatch,
    GraphRecord,
    GraphSnapshot,
    GroupRecord,
    MemberRecord,
    MemberState,
    NewMember,
)
from holdfast.core.runs import NewRun, RunRecord
from holdfast.store.contract.growing import AddMembers, Compose, Lease, PreparedMember
from holdfast.store.contract.runs import ReplayRun, Started


class GraphStage(msgspec.Struct, kw_only=True):
    """A graph to be started."""

    id: str
    namespace: str
    name: str
    fingerprint: str
    patch: GraphPatch


class WriteStagePart(msgspec.Struct, kw_only=True):
    """Write the next members of a stage, which nobody sees before StageGraphs or ExtendGraph makes
    them visible. Answers how many members the stage has then: if it had more or fewer than
    ``written``, nothing is written. The same stage can be gone on with by another process.
    ``extends`` is the graph that is to be extended, ``outside`` those of its members that the new
    ones wait for. Raises GraphNotFound, GraphBusy, MemberExists, MemberElsewhere."""

    stage_id: str
    namespace: str
    members: Sequence[tuple[str, NewMember]]
    """The new members, each with the id of its graph."""
    written: int
    extends: str | None = None
    outside: Sequence[str] = ()


class SweepStages(msgspec.Struct):
    """Delete some rows of a stage that was given up, or of a graph that was pruned: of this one, or
    of the first there is. With ``give_up`` this stage is given up now. Answers whether there was
    anything to delete."""

    stage_id: str | None = None
    give_up: bool = False


class StartedMember(msgspec.Struct):
    """A run of a member that was started, and how."""

    run: NewRun
    started: Started


class StagedGraph(msgspec.Struct):
    """A graph as it stands after the transition, and the runs that were started; ``created`` is
    false when it was there."""

    graph: GraphRecord
    born: list[StartedMember]
    created: bool = True


class StageGraphs(msgspec.Struct, kw_only=True):
    """Start graphs, all or none. Answers list[Staged]. The same id with the same structure is the
    same graph. Raises GraphExists, MemberExists, MemberNotFound, SelfEdge, EdgeExists, GraphCycle,
    EdgeAcrossNamespaces, BadGraph, LaneDraining, GraphBusy."""

    stages: Sequence[GraphStage]
    compose: Compose
    lease: Lease | None = None
    prepared: PreparedMember | None = None
    """The members of the graphs, where they are too many for one transaction: then the patches are
    empty. Raises GraphChanged when the stage is not whole."""


class ResolveGraphs(msgspec.Struct, kw_only=True):
    """Do what the ends of members lead to, and go on with what was left over: at most so many of
    them. News of graphs that are to be left alone (``without``) stay. A graph with a damaged row is
    left alone, and named in the answer. Answers Settled."""

    compose: Compose
    lease: Lease | None = None
    limit: int = 2000
    without: Collection[str] = ()


class ResolvedGraphs(msgspec.Struct):
    """The runs that were started, whether there is more to do, and the graphs that could not be
    settled here, with why."""

    born: list[StartedMember]
    more: bool
    left: dict[str, str] = {}


class CancelGraph(msgspec.Struct, kw_only=True):
    """Cancel a graph: nothing more is started, and of what was started that is asked to stop which
    the policy says. Answers Graph. Raises GraphNotFound, GraphFinished."""

    graph_id: str
    namespace: str
    policy: CancelPolicy
    reason: str


class ReplayMember(msgspec.Struct, kw_only=True):
    """Let a member that has ended end anew, and all that were skipped because of it wait again: in
    this transaction, or in parts that SettleGraphs continues. ``roots`` are the names of the
    members that are put back to work for that (``replay_roots``), or some of them; ``replays`` says
    how each of their runs is replayed. Answers Staged. Raises GraphNotFound, MemberNotFound,
    RunNotFinished, RunChanged, GraphFinished, GraphChanged when a root has not ended or its run is
    not in ``replays``."""

    graph_id: str
    namespace: str
    name: str
    roots: Sequence[str]
    replays: Mapping[str, ReplayRun]
    compose: Compose
    lease: Lease | None = None


class PruneGraphs(msgspec.Struct):
    """Delete graphs that ended before ``before``, with their members; their runs stay. Answers how
    many went."""

    before: int
    namespace: str | None = None
    limit: int = 500


class ResealMember(msgspec.Struct):
    """Put the input of a member that waits into another seal, if it is what it was. Answers whether
    it was changed."""

    run_id: str
    old: bytes
    new: bytes


class ImportGraph(msgspec.Struct):
    """Write a graph and its audit trail as they were elsewhere; the runs of its members are there.
    It hears of those that have ended. Raises GraphExists."""

    whole: GraphSnapshot
    trail: Sequence[GraphEvent]


GraphTransition = (
    WriteStagePart
    | SweepStages
    | StageGraphs
    | AddMembers
    | ResolveGraphs
    | CancelGraph
    | ReplayMember
    | PruneGraphs
    | ResealMember
    | ImportGraph
)


class NeededResult(msgspec.Struct):
    """A member that another one waits for, in which of its groups, and how it stands."""

    number: int
    run_id: str
    state: MemberState
    note: str | None


class GraphReader(Protocol):
    """What can be asked about graphs."""

    def graph(self, graph_id: str) -> GraphRecord | None:
        """The graph, or None."""

    def graphs(
        self,
        namespace: str,
        *,
        status: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[GraphRecord]:
        """Graphs from new to old."""

    def whole_graph(self, graph_id: str) -> GraphSnapshot | None:
        """The graph with all its members, groups and edges, by the ids of their runs; or None."""

    def graphs_by_id(self, graph_ids: Sequence[str]) -> list[GraphRecord]:
        """Those of the graphs that there are, in no order."""

    def last_runs(self, graph_ids: Sequence[str]) -> list[RunRecord]:
        """The runs of those members of the graphs that nobody waits for, by their ids."""

    def member(self, run_id: str) -> MemberRecord | None:
        """The member whose run has, or will have, this id; or None."""

    def groups_of_member(self, run_id: str) -> list[GroupRecord]:
        """What a member waits for, in groups."""

    def needed_by(self, run_id: str) -> list[NeededResult]:
        """Whom a member waits for."""

    def graph_events(self, graph_id: str, after: int = 0, limit: int = 1000) -> list[GraphEvent]:
        """The audit trail of a graph, in order."""

    def members_to_seal(self, after: str, limit: int) -> list[tuple[str, bytes]]:
        """The members that wait, from one id on, with their inputs as they are stored."""
