"""Settling graphs: what the ends of their members lead to, and what earlier transactions have left
over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.core.graphs.model import (
    CancelPolicy,
    GraphRecord,
    GraphStatus,
    MemberState,
    after_members,
    graph_of,
    run_of,
)
from holdfast.core.graphs.resolution import can_never_fire
from holdfast.store.contract.graphs import ResolvedGraphs, ResolveGraphs
from holdfast.store.contract.growing import Compose, Lease
from holdfast.store.contract.reading import MemberOutcome
from holdfast.store.transitions.graphs.reopening import Reopening, TakenBack, taken_back
from holdfast.store.transitions.graphs.rows import graph_from, group_from
from holdfast.store.transitions.graphs.work import (
    CANCEL,
    CONTINUED,
    REPLAY,
    REST,
    SKIP,
    START,
    GraphResolution,
)
from holdfast.store.transitions.transaction import Row, Transaction

_WAITING, _STARTED = "waiting", "started"
"""Which members of a cancelled graph a portion is about: first those that wait, then those that
were started."""


def resolve_graphs(tx: Transaction, op: ResolveGraphs) -> ResolvedGraphs:
    """Do what is to be done about the ends of this very transaction or, if there are none, about
    the oldest news."""
    if tx.news:
        here = _opened(tx, {graph_of(one.run_id) or "" for one in tx.news}, op.compose, op.lease)
        here.finish()
        return ResolvedGraphs(here.born, more=False, left=here.left)
    news, damaged = tx.sifted("graph_news", limit=op.limit, without=tx.as_list(sorted(op.without)))
    tx.hints.graphs = False
    work = resolve_outcomes(tx, news, op.compose, op.lease)
    unread = {f"of news {one.facts.get('key')}": str(one) for one in damaged}
    if work is None:
        return ResolvedGraphs([], more=False, left=unread)
    tx.hints.graphs |= (
        len(news) == op.limit and not work.left
    )  # what is left stays until somebody can settle it
    return ResolvedGraphs(work.born, more=tx.hints.graphs, left=work.left | unread)


def resolve_outcomes(
    tx: Transaction, news: Sequence[Row], compose: Compose, lease: Lease | None
) -> GraphResolution | None:
    """Settle these news. The graphs are locked first, then the news taken: those that somebody else
    has taken meanwhile are settled. News of graphs that are gone go, too."""
    if not news:
        return None
    work = _opened(tx, {str(row["graph_id"]) for row in news}, compose, lease)
    taken = {row["id"] for row in tx.rows("take_news", ids=tx.as_list([row["id"] for row in news]))}
    news = [row for row in news if row["id"] in taken]
    ends = [row for row in news if row["status"] not in CONTINUED]
    work.settle(
        [MemberOutcome(str(row["run_id"]), str(row["status"]), place=row["place"]) for row in ends]
    )
    going_on = [
        row for row in news if row["status"] in CONTINUED and row["graph_id"] in work.graphs
    ]
    _go_on_reopening(work, [row for row in going_on if row["status"] == REPLAY])
    for row in going_on:
        if row["status"] != REPLAY:
            go_on(work, row["graph_id"], row["status"], row["run_id"], row["place"])
    work.finish()
    return work


def _opened(
    tx: Transaction, graph_ids: Iterable[str], compose: Compose, lease: Lease | None
) -> GraphResolution:
    wanted = sorted(graph_ids)
    known, tx.graphs = tx.graphs, {}
    found = (
        list(map(known.get, wanted))
        if known.keys() >= set(wanted)
        else tx.rows("graphs_to_settle", ids=tx.as_list(wanted))
    )
    return GraphResolution(tx, [graph_from(row) for row in found], compose, lease, strict=False)


def go_on(
    work: GraphResolution,
    graph_id: str,
    kind: str,
    run_id: str | None = None,
    place: str | None = None,
) -> None:
    """Go on with work that an earlier transaction has left over, as far as this one has room."""
    if work.room <= 0:
        work.leave_over(graph_id, kind, run_id, place)
    elif kind == START:
        _go_on_starting(work, work.graphs[graph_id])
    elif kind == SKIP:
        _go_on_skipping(work, work.graphs[graph_id])
    elif kind == REST:
        _go_on_stopping(work, str(run_id), str(place))
    else:
        go_on_cancelling(work, work.graphs[graph_id], place)


def _go_on_starting(work: GraphResolution, graph: GraphRecord) -> None:
    """Start the next members that wait for nothing more."""
    if graph.status is not GraphStatus.RUNNING:
        return
    rows = work.ask("ready_members", graph_id=graph.id, limit=work.room + 1)
    ready = [row["run_id"] for row in rows][: work.room]
    known = len(work.left)
    runs, failed = work.composed(ready)
    if len(rows) > len(ready) or len(work.left) > known:
        work.leave_over(graph.id, START)
    work.room -= len(ready)
    failed |= work.start(runs)
    work.write()  # whoever fails now was noted to have started
    work.proceed(dict.fromkeys(failed, MemberState.FAILED), failed)


def _go_on_skipping(work: GraphResolution, graph: GraphRecord) -> None:
    """Skip the next members that wait in vain."""
    if graph.status is not GraphStatus.RUNNING:
        return
    rows = work.ask("vain_members", graph_id=graph.id, limit=work.room + 1)
    if len(rows) > work.room:
        work.leave_over(graph.id, SKIP)
    vain = {row["run_id"]: can_never_fire(group_from(row)) for row in rows[: work.room]}
    work.room -= len(vain)
    work.proceed(dict.fromkeys(vain, MemberState.SKIPPED), vain)


def _go_on_stopping(work: GraphResolution, run_id: str, place: str) -> None:
    """Stop the next members of the rest of a group."""
    if work.graph(run_id).status is not GraphStatus.RUNNING:
        return
    number, _, after = place.partition(" ")
    groups = [group_from(row) for row in work.ask("groups_of_member", run_id=run_id)]
    work.resumed[run_id, int(number)] = after
    work.proceed({}, decided=[group for group in groups if group.number == int(number)])


def _go_on_reopening(work: GraphResolution, news: Sequence[Row]) -> None:
    """Take the ends of replayed members back from their next dependents."""
    ends: dict[str, list[TakenBack]] = {}
    for row in news:
        ends.setdefault(row["graph_id"], []).append(
            taken_back(str(row["run_id"]), str(row["place"]))
        )
    for graph_id, ends_of_graph in ends.items():
        graph = work.graphs[graph_id]
        work.touch(graph)
        Reopening(work, graph).take_back(ends_of_graph)
        go_on(work, graph_id, START)


def go_on_cancelling(work: GraphResolution, graph: GraphRecord, place: str | None = None) -> None:
    """Cancel the next members of a cancelled graph that wait; then ask the next ones to stop that
    were started. A cancelled graph takes no new members, so each portion goes on after the last
    member of the one before (*place*)."""
    if graph.policy is None:
        return  # it was replayed meanwhile
    stage, _, after = (place or "").partition(" ")
    span: dict[str, str] = {
        "after": after or run_of(graph.id, ""),
        "until": after_members(graph.id),
    }
    if stage != _STARTED:
        rows = work.ask("waiting_members", limit=work.room, **span)
        work.cancel_waiting(
            graph, [row["run_id"] for row in rows], f"the graph was cancelled: {graph.reason}"
        )
        if work.room <= 0:
            work.leave_over(graph.id, CANCEL, place=f"{_WAITING} {rows[-1]['run_id']}")
            return
        span["after"] = run_of(graph.id, "")
    if graph.status is GraphStatus.CANCELLING and graph.policy != CancelPolicy.GRAPH:
        everybody = graph.policy == CancelPolicy.ALL
        rows = work.ask("unasked_members", everybody=int(everybody), limit=work.room, **span)
        work.room -= len(rows)
        reason = f"its graph was cancelled: {graph.reason}"
        work.stop({row["run_id"]: reason for row in rows})
        if work.room <= 0:
            work.leave_over(graph.id, CANCEL, place=f"{_STARTED} {rows[-1]['run_id']}")
