"""Operations on graphs.

Members are added from outside, or by a member with its own Advance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import ClassVar

import msgspec

from holdfast.core.definitions import StoredDefinition
from holdfast.core.graphs.model import (
    CancelPolicy,
    GraphEvent,
    GraphPatch,
    GraphRecord,
    GraphSnapshot,
    MemberState,
    NewMember,
)
from holdfast.core.payload import Fetch, Payload
from holdfast.core.runs import NewRun, Route
from holdfast.store.database import Operation, Started
from holdfast.store.effects import Effect, Phase
from holdfast.store.runs.operations import ReplayRun

Compose = Callable[
    [str, bytes, Mapping[str, tuple[str, bytes]], Fetch], tuple[bytes, Sequence[Payload]]
]
"""Return the input of a member's run, and its payloads, from the id of the run, its stored input,
the results that it takes by the names of their members, and a function that fetches payloads. All
of these may be sealed. Raises KeyMissing, BadData."""


Lease = Callable[[Route], str | None]
"""Return the session to which a run of that route can be leased at its start, or None."""


class PreparedMember(msgspec.Struct):
    """A stage: members that earlier transactions have written, and that the next operation makes
    visible.

    ``members`` is the number of members by graph. The members name these ``lanes`` and ``budgets``.
    ``stops`` tells whether a group cancels its remaining upstreams.
    """

    id: str
    members: Mapping[str, int]
    lanes: Collection[str] = ()
    budgets: Collection[str] = ()
    stops: bool = False


class AddMembers(Operation, Effect, kw_only=True):
    """Add members and dependencies to a graph that has not ended: as an operation of its own, or as
    an effect of the progress of a member.

    Answers:
        StagedGraph    the graph after the change
    Raises:
        GraphNotFound  there is no such graph in the namespace
        GraphFinished  the graph is not running
        GraphChanged   *revision* is given and is not the revision of the graph, or the stage of
                       *prepared* is not complete
        MemberStarted  a new dependency belongs to a member that has started
        BadGraph       it is an effect of a run that is not a member of a graph
        RunNotFound    a run that is to join does not exist in the namespace
        what StageGraphs raises
    """

    phase: ClassVar[Phase] = Phase.GRAPH
    may_refuse_late: ClassVar[bool] = True
    answers: ClassVar[str | None] = "born"

    graph_id: str
    namespace: str
    patch: GraphPatch
    compose: Compose
    revision: int | None = None
    lease: Lease | None = None
    prepared: PreparedMember | None = None
    """The new members, if they are too many for one transaction. The caller has checked them
    against ``revision``."""
    definitions: Sequence[StoredDefinition] = ()
    """The definitions that the runs of its members keep."""


class GraphStage(msgspec.Struct, kw_only=True):
    """A graph that is to be started."""

    id: str
    namespace: str
    name: str
    fingerprint: str
    patch: GraphPatch


class WriteStagePart(Operation, kw_only=True):
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

    may_refuse_late: ClassVar[bool] = True

    stage_id: str
    namespace: str
    members: Sequence[tuple[str, NewMember]]
    """The new members, each with the id of its graph."""
    written: int
    extends: str | None = None
    outside: Sequence[str] = ()


class SweepStages(Operation):
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


class StageGraphs(Operation, kw_only=True):
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

    may_refuse_late: ClassVar[bool] = True

    stages: Sequence[GraphStage]
    compose: Compose
    lease: Lease | None = None
    prepared: PreparedMember | None = None
    """The members of the graphs, if they are too many for one transaction; then the patches are
    empty."""
    definitions: Sequence[StoredDefinition] = ()
    """The definitions that the runs of their members keep."""


class ResolveGraphs(Operation, kw_only=True):
    """Resolve graphs: apply the outcomes of ended members to their dependents, and continue work
    for which earlier transactions had no room; at most ``limit`` entries of the outbox.

    If members ended in the same transaction, only their outcomes are resolved, and the outbox is
    left to the next call: ``more`` is true then, unless the operation is ``closing`` a transaction
    that was not made for the outbox.

    Outcomes of the graphs in ``without`` stay in the outbox. So do those of a graph with a damaged
    row, which the answer names.

    Answers:
        ResolvedGraphs
    """

    may_refuse_late: ClassVar[bool] = True

    compose: Compose
    lease: Lease | None = None
    limit: int = 2000
    without: Collection[str] = ()
    closing: bool = False


class ResolvedGraphs(msgspec.Struct):
    """The runs that were started, whether the outbox has more entries, and the graphs that could
    not be resolved, each with the reason."""

    born: list[StartedMember]
    more: bool
    left: dict[str, str] = {}


class CancelGraph(Operation, kw_only=True):
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


class ReplayMember(Operation, kw_only=True):
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

    may_refuse_late: ClassVar[bool] = True

    graph_id: str
    namespace: str
    name: str
    roots: Sequence[str]
    replays: Mapping[str, ReplayRun]
    compose: Compose
    lease: Lease | None = None


class PruneGraphs(Operation):
    """Delete graphs that ended before ``before``, with their members; the runs of the members stay.

    Answers:
        int  how many graphs were deleted
    """

    before: int
    namespace: str | None = None
    limit: int = 500


class ResealMember(Operation):
    """Replace the input of a waiting member by the same input under another seal, if it is still
    ``old``.

    Answers:
        bool  whether it was replaced
    """

    run_id: str
    old: bytes
    new: bytes


class ImportGraph(Operation):
    """Write a graph and its audit trail as they were in another store. The runs of its members
    exist; the outcomes of ended members are written to the outbox.

    Answers:
        None
    Raises:
        GraphExists  there is a graph of this id
    """

    may_refuse_late: ClassVar[bool] = True

    whole: GraphSnapshot
    trail: Sequence[GraphEvent]


class NeededResult(msgspec.Struct):
    """An upstream of a member: the number of the group, the id, the state and the note of the
    upstream, and the id of its run if that is another one."""

    number: int
    run_id: str
    state: MemberState
    note: str | None
    joined: str | None = None
