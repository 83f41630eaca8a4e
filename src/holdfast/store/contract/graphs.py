"""Operations on graphs, and the queries that read them."""

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
    """A graph that is to be started."""

    id: str
    namespace: str
    name: str
    fingerprint: str
    patch: GraphPatch


class WriteStagePart(msgspec.Struct, kw_only=True):
    """Write the next members of a stage, which no reader sees until StageGraphs or AddMembers makes
    them visible. Another process can continue the same stage.

    ``extends`` is the graph that the members are for, if it exists, and ``outside`` are those of
    its members for which the new ones wait.

    Answers:
        int              how many members the stage has now; nothing was written if it had more or
                         fewer than ``written`` before
    Raises:
        GraphNotFound    ``extends`` does not exist in the namespace
        GraphBusy        the stage was discarded, or another stage has one of the members
        MemberExists     a member exists
        MemberElsewhere  there is a run with the id of a member that is not in a graph
    """

    stage_id: str
    namespace: str
    members: Sequence[tuple[str, NewMember]]
    """The new members, each with the id of its graph."""
    written: int
    extends: str | None = None
    outside: Sequence[str] = ()


class SweepStages(msgspec.Struct):
    """Delete a portion of the rows of a discarded stage or a pruned graph: of the given one, or of
    the first. With ``give_up``, the given stage is discarded now.

    Answers:
        bool  whether there was anything to delete
    """

    stage_id: str | None = None
    give_up: bool = False


class StartedMember(msgspec.Struct):
    """The run of a member that was started, with the answer to its start."""

    run: NewRun
    started: Started


class StagedGraph(msgspec.Struct):
    """A graph after the operation, and the runs that were started; ``created`` is false if the
    graph existed."""

    graph: GraphRecord
    born: list[StartedMember]
    created: bool = True


class StageGraphs(msgspec.Struct, kw_only=True):
    """Start graphs, all or none. The same id with the same structure is the same graph.

    Answers:
        list[StagedGraph]     one per graph
    Raises:
        GraphExists           the id belongs to a graph with another structure
        GraphBusy             another stage has the graph or one of its members
        GraphChanged          the stage of *prepared* is not complete
        LaneDraining          the lane of a member accepts no new runs
        BudgetNotFound        a member names a budget that does not exist
        MemberExists, MemberNotFound, MemberElsewhere, SelfEdge, EdgeExists, GraphCycle,
        EdgeAcrossNamespaces, BadGraph
                              the structure is not that of a graph, or a member exists
    """

    stages: Sequence[GraphStage]
    compose: Compose
    lease: Lease | None = None
    prepared: PreparedMember | None = None
    """The members of the graphs, if they are too many for one transaction; then the patches are
    empty."""


class ResolveGraphs(msgspec.Struct, kw_only=True):
    """Resolve graphs: apply the outcomes of ended members to their dependents, and continue work
    for which earlier transactions had no room; at most ``limit`` entries of the outbox.

    Outcomes of the graphs in ``without`` stay in the outbox. So do those of a graph with a damaged
    row, which the answer names.

    Answers:
        ResolvedGraphs
    """

    compose: Compose
    lease: Lease | None = None
    limit: int = 2000
    without: Collection[str] = ()


class ResolvedGraphs(msgspec.Struct):
    """The runs that were started, whether the outbox has more entries, and the graphs that could
    not be resolved, each with the reason."""

    born: list[StartedMember]
    more: bool
    left: dict[str, str] = {}


class CancelGraph(msgspec.Struct, kw_only=True):
    """Cancel a graph: no further member starts, and the policy decides which started members are
    asked to stop.

    Answers:
        GraphRecord    the graph; unchanged if it was cancelled with a policy that reaches as far
    Raises:
        GraphNotFound  there is no such graph in the namespace
        GraphFinished  the graph has ended
    """

    graph_id: str
    namespace: str
    policy: CancelPolicy
    reason: str


class ReplayMember(msgspec.Struct, kw_only=True):
    """Replay a member that has ended. All members that were skipped because of it wait again:
    within this transaction, or in portions that ResolveGraphs continues.

    ``roots`` are the names of the members that are replayed for that (``replay_roots``), or some of
    them; ``replays`` tells by run id how each of their runs is replayed.

    Answers:
        StagedGraph     the graph after the change
    Raises:
        GraphNotFound   there is no such graph in the namespace
        MemberNotFound  there is no such member
        GraphFinished   the graph is cancelled or being cancelled
        RunNotFinished  the member, or the run of a root, has not ended
        RunChanged      the history of a run has changed since the caller read it
        GraphChanged    a root has not ended, its run is not in ``replays``, or outcomes of members
                        are still being resolved
    """

    graph_id: str
    namespace: str
    name: str
    roots: Sequence[str]
    replays: Mapping[str, ReplayRun]
    compose: Compose
    lease: Lease | None = None


class PruneGraphs(msgspec.Struct):
    """Delete graphs that ended before ``before``, with their members; the runs of the members stay.

    Answers:
        int  how many graphs were deleted
    """

    before: int
    namespace: str | None = None
    limit: int = 500


class ResealMember(msgspec.Struct):
    """Replace the input of a waiting member by the same input under another seal, if it is still
    ``old``.

    Answers:
        bool  whether it was replaced
    """

    run_id: str
    old: bytes
    new: bytes


class ImportGraph(msgspec.Struct):
    """Write a graph and its audit trail as they were in another store. The runs of its members
    exist; the outcomes of ended members are written to the outbox.

    Answers:
        None
    Raises:
        GraphExists  there is a graph of this id
    """

    whole: GraphSnapshot
    trail: Sequence[GraphEvent]


GraphOperation = (
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
    """An upstream of a member: the number of the group, the run id, the state and the note of the
    upstream."""

    number: int
    run_id: str
    state: MemberState
    note: str | None


class GraphReader(Protocol):
    """Queries about graphs."""

    def graph(self, graph_id: str) -> GraphRecord | None:
        """Return the graph, or None."""

    def graphs(
        self,
        namespace: str,
        *,
        status: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[GraphRecord]:
        """Return graphs from new to old. The page begins after the id ``before``."""

    def whole_graph(self, graph_id: str) -> GraphSnapshot | None:
        """Return the graph with all its members, groups and edges, by the ids of their runs; or
        None. Raises RowDamaged if an edge names a member that does not exist."""

    def graphs_by_id(self, graph_ids: Sequence[str]) -> list[GraphRecord]:
        """Return those of the graphs that exist, in any order."""

    def last_runs(self, graph_ids: Sequence[str]) -> list[RunRecord]:
        """Return the runs of the members on which no other member depends, by id."""

    def member(self, run_id: str) -> MemberRecord | None:
        """Return the member whose run has, or will have, this id; or None."""

    def groups_of_member(self, run_id: str) -> list[GroupRecord]:
        """Return the edge groups for which a member waits."""

    def needed_by(self, run_id: str) -> list[NeededResult]:
        """Return the upstreams of a member."""

    def graph_events(self, graph_id: str, after: int = 0, limit: int = 1000) -> list[GraphEvent]:
        """Return the audit trail of a graph above the number *after*, in order."""

    def members_to_seal(self, after: str, limit: int) -> list[tuple[str, bytes]]:
        """Return the next waiting members above the id *after*, with their inputs as stored."""
