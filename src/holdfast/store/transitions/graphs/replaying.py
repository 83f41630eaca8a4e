"""Replaying members: those that ended by themselves here, all that were skipped because of them by
``reopening``."""

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
from holdfast.store.contract.graphs import ReplayMember, StagedGraph
from holdfast.store.transitions.graphs.reopening import Reopening, TakenBack
from holdfast.store.transitions.graphs.rows import load_graph, member_from
from holdfast.store.transitions.graphs.settling import go_on, resolve_outcomes
from holdfast.store.transitions.graphs.work import REPLAY, START, GraphResolution
from holdfast.store.transitions.operating import replay_each
from holdfast.store.transitions.transaction import Transaction


def replay_member(tx: Transaction, op: ReplayMember) -> StagedGraph:
    """Put the roots of a replay back to work, and let members that were skipped because of them
    wait again."""
    load_graph(tx, op.graph_id, op.namespace)
    heard = resolve_outcomes(
        tx, tx.rows("news_of_graph", graph_id=op.graph_id), op.compose, op.lease
    )
    pending = tx.rows("places_of_graph", graph_id=op.graph_id)
    if any(row["status"] != REPLAY for row in pending):
        raise GraphChanged(graph=op.graph_id, why="the ends of its members are still being settled")
    graph = load_graph(tx, op.graph_id, op.namespace)  # as the news have left it
    roots = _roots(tx, op, graph)
    if not roots and not pending:
        raise GraphChanged(
            graph=op.graph_id, member=op.name, why="it waits for other members by now"
        )
    work = GraphResolution(tx, [graph], op.compose, op.lease)
    work.touch(graph)
    graph.status, graph.finished_at, graph.summary = GraphStatus.RUNNING, None, None
    _reopen(work, graph, roots, op)
    go_on(work, graph.id, START)
    work.finish()
    return StagedGraph(graph, [*(heard.born if heard is not None else []), *work.born])


def _roots(tx: Transaction, op: ReplayMember, graph: GraphRecord) -> list[MemberRecord]:
    """Return the members that are put back to work. Raises what stands against it."""
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
    found = [root for root in roots if root is not None and root.state in ENDED]
    unknown = [
        root.run_id
        for root in found
        if root.started_at is not None and root.run_id not in op.replays
    ]
    if unknown or len(found) < len(roots):
        raise GraphChanged(graph=graph.id, run=unknown[0] if unknown else run_id)
    return found


def _reopen(
    work: GraphResolution, graph: GraphRecord, roots: list[MemberRecord], op: ReplayMember
) -> None:
    """Put the runs that have ended back to work; a root that was never started waits again."""
    ran = [root.run_id for root in roots if root.started_at is not None]
    replay_each(work.tx, [op.replays[run_id] for run_id in ran])
    states = dict.fromkeys((root.run_id for root in roots), MemberState.WAITING) | dict.fromkeys(
        ran, MemberState.STARTED
    )
    reopening = Reopening(work, graph)
    reopening.reopen(states)
    reopening.take_back([TakenBack(root.run_id, root.state) for root in roots])
