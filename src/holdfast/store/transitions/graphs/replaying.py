"""Doing members again: those that failed, those that were skipped, and all that were skipped because of them."""

from __future__ import annotations

from holdfast.core.graphs.records import ENDED, Edge, GraphStatus, MemberState, Whole, name_of, run_of
from holdfast.core.graphs.structure import again
from holdfast.errors import GraphChanged, GraphFinished, MemberNotFound, RunNotFinished
from holdfast.store import contract as c
from holdfast.store.transitions.graphs.rows import group_from, load_graph, member_from
from holdfast.store.transitions.graphs.settling import Work, settle_news
from holdfast.store.transitions.operating import replay_run
from holdfast.store.transitions.transaction import Transaction


def replay_member(tx: Transaction, op: c.ReplayMember) -> c.Staged:
    """Let a member end anew."""
    load_graph(tx, op.graph_id, op.namespace)
    heard = settle_news(tx, tx.rows("news_of_graph", graph_id=op.graph_id), op.compose, op.lease)
    whole = _whole(tx, op)
    graph, run_id = whole.graph, run_of(op.graph_id, op.name)
    member = whole.members.get(run_id)
    if member is None:
        raise MemberNotFound(graph=op.graph_id, member=op.name)
    if graph.status in (GraphStatus.CANCELLING, GraphStatus.CANCELLED):
        raise GraphFinished(graph=graph.id, status=graph.status.value)
    if member.state not in ENDED:
        raise RunNotFinished(run=run_id, status=member.state.value)
    work = Work(tx, [graph], op.compose, op.lease)
    work.touch(graph)
    found = sorted(again(whole, run_id))
    unknown = [one for one in found if whole.members[one].started_at is not None and one not in op.voids]
    if unknown:
        raise GraphChanged(graph=graph.id, run=unknown[0])
    for one in found:
        _reopen(tx, whole, one, op)
        work.trail.add(graph, "member_replayed", name_of(one))
    graph.live += len(found)
    graph.status, graph.finished_at, graph.summary = GraphStatus.RUNNING, None, None
    for query in ("recount_groups", "judge_groups", "recount_missing"):
        tx.change(query, graph_id=graph.id)
    runs, failed = work.composed([row["run_id"] for row in tx.rows("ready_members", graph_id=graph.id)])
    failed |= work.start(runs)
    work.proceed(dict.fromkeys(failed, MemberState.FAILED), failed)
    work.finish()
    return c.Staged(graph, [*(heard.born if heard is not None else []), *work.born])


def _whole(tx: Transaction, op: c.ReplayMember) -> Whole:
    members = [member_from(row) for row in tx.rows("members_of_graph", graph_id=op.graph_id)]
    groups = [group_from(row) for row in tx.rows("groups_of_graph", graph_id=op.graph_id)]
    edges = [Edge(row["upstream"], row["dependent"], row["number"]) for row in tx.rows("edges_of_graph", graph_id=op.graph_id)]
    return Whole(
        load_graph(tx, op.graph_id, op.namespace), {one.run_id: one for one in members},
        {(one.run_id, one.number): one for one in groups}, edges,
    )  # fmt: skip


def _reopen(tx: Transaction, whole: Whole, run_id: str, op: c.ReplayMember) -> None:
    """Put a run that has ended back to work; one that was never started waits again."""
    ran = whole.members[run_id].started_at is not None
    if ran:
        replay_run(tx, c.ReplayRun(run_id, list(op.voids[run_id])))
    tx.change("reopen_member", run_id=run_id, state=(MemberState.STARTED if ran else MemberState.WAITING).value)
