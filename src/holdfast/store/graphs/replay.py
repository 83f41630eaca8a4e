"""Replay members of a graph. Dependents that were skipped are reopened by `reopening`."""

from __future__ import annotations

from holdfast.core.graphs.model import (
    ENDED,
    GraphRecord,
    GraphStatus,
    MemberRecord,
    MemberState,
    run_of,
)
from holdfast.errors import GraphChanged, GraphFinished, MemberNotFound, RunNotFinished
from holdfast.store.database import Transaction
from holdfast.store.graphs.operations import ReplayMember, StagedGraph
from holdfast.store.graphs.outbox import REPLAY, START
from holdfast.store.graphs.reopen import Reopening, TakenBack
from holdfast.store.graphs.resolution import GraphResolution
from holdfast.store.graphs.resolve import go_on, resolve_outcomes
from holdfast.store.graphs.rows import load_graph, member_from
from holdfast.store.runs.operate import replay_each


def replay_member(tx: Transaction, op: ReplayMember) -> StagedGraph:
    """Replay the roots of a replay, and let members that were skipped because of them wait again.

    Raises GraphChanged, GraphFinished, MemberNotFound, RunNotFinished.
    """
    load_graph(tx, op.graph_id, op.namespace)
    earlier = resolve_outcomes(
        tx, tx.rows("outbox_of_graph", graph_id=op.graph_id), op.compose, op.lease
    )
    pending = tx.rows("places_of_graph", graph_id=op.graph_id)
    if any(row["status"] != REPLAY for row in pending):
        raise GraphChanged(
            graph=op.graph_id, why="the ends of its members are still being resolved: try again"
        )
    # Again: resolving the outbox may have changed the graph.
    graph = load_graph(tx, op.graph_id, op.namespace)
    roots = _roots(tx, op, graph)
    if not roots and not pending:
        raise GraphChanged(
            graph=op.graph_id, member=op.name, why="the member now waits for other members"
        )
    resolution = GraphResolution(tx, [graph], op.compose, op.lease)
    resolution.touch(graph)
    graph.status = GraphStatus.RUNNING
    graph.finished_at = None
    graph.summary = None
    _reopen(resolution, graph, roots, op)
    go_on(resolution, graph.id, START)
    resolution.finish()
    return StagedGraph(
        graph, [*(earlier.starter.born if earlier is not None else []), *resolution.starter.born]
    )


def _roots(tx: Transaction, op: ReplayMember, graph: GraphRecord) -> list[MemberRecord]:
    """Return the members to replay. Raises MemberNotFound, GraphFinished, RunNotFinished,
    GraphChanged."""
    run_id = run_of(op.graph_id, op.name)
    wanted = sorted({run_id, *(run_of(op.graph_id, name) for name in op.roots)})
    members = {
        row["run_id"]: member_from(row) for row in tx.rows("members_by_id", ids=tx.as_list(wanted))
    }
    member = members.get(run_id)
    if member is None or member.state is MemberState.STAGED:
        raise MemberNotFound(graph=op.graph_id, member=op.name)
    if graph.status in (GraphStatus.CANCELLING, GraphStatus.CANCELLED):
        raise GraphFinished(graph=graph.id, status=graph.status.value)
    if member.state not in ENDED:
        raise RunNotFinished(run=run_id, status=member.state.value)
    roots = [members.get(run_of(op.graph_id, name)) for name in sorted(op.roots)]
    ended = [root for root in roots if root is not None and root.state in ENDED]
    unknown = [
        root.run_id
        for root in ended
        if root.started_at is not None and root.run_id not in op.replays
    ]
    if unknown or len(ended) < len(roots):
        raise GraphChanged(graph=graph.id, run=unknown[0] if unknown else run_id)
    return ended


def _reopen(
    resolution: GraphResolution, graph: GraphRecord, roots: list[MemberRecord], op: ReplayMember
) -> None:
    """Replay runs that have ended; a root that was never started waits again."""
    ran = [root.run_id for root in roots if root.started_at is not None]
    replay_each(resolution.tx, [op.replays[run_id] for run_id in ran])
    states = dict.fromkeys((root.run_id for root in roots), MemberState.WAITING) | dict.fromkeys(
        ran, MemberState.STARTED
    )
    reopening = Reopening(resolution, graph)
    reopening.reopen(states)
    reopening.take_back([TakenBack(root.run_id, root.state) for root in roots])
