"""Resolve graphs: process the ends of members, and work that earlier transactions left over.

Lock order: the graphs by id, then the rows of the outbox, then members.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.core.graphs.model import (
    CancelPolicy,
    GraphRecord,
    GraphStatus,
    MemberState,
    after_members,
    run_of,
)
from holdfast.core.graphs.resolution import can_never_fire
from holdfast.store.database import MemberOutcome, Row, Transaction
from holdfast.store.graphs.operations import Compose, Lease, ResolvedGraphs, ResolveGraphs
from holdfast.store.graphs.outbox import CANCEL, CONTINUED, REPLAY, REST, SKIP, START
from holdfast.store.graphs.reopen import Reopening, TakenBack, taken_back
from holdfast.store.graphs.resolution import GraphResolution
from holdfast.store.graphs.rows import graph_from, group_from

_WAITING = "waiting"
_STARTED = "started"
"""The stages of cancelling a graph: first the waiting members, then the started ones."""


def resolve_graphs(tx: Transaction, op: ResolveGraphs) -> ResolvedGraphs:
    """Resolve the member outcomes of this very transaction or, if there are none, the oldest of
    the outbox."""
    if tx.member_outcomes:
        graph_ids = {outcome.graph_id for outcome in tx.member_outcomes}
        here = _opened(tx, graph_ids, op.compose, op.lease)
        here.finish()
        # The caller who asked for the outbox shares this commit with the ends of members, and its
        # outbox is not read yet. Without "more", it would take it for empty and go to sleep.
        return ResolvedGraphs(here.starter.born, more=not op.closing, left=here.unresolvable)
    outcomes, damaged = tx.sound_rows(
        "graph_outbox", limit=op.limit, without=tx.as_list(sorted(op.without))
    )
    # Cleared here and set again below if something is left, so that the worker continues.
    tx.hints.graphs = False
    resolution = resolve_outcomes(tx, outcomes, op.compose, op.lease)
    unread = {f"of the outbox, row {damage.facts.get('key')}": str(damage) for damage in damaged}
    if resolution is None:
        return ResolvedGraphs([], more=False, left=unread)
    # Not if something is left: it stays until a process with the missing keys resolves it.
    tx.hints.graphs |= len(outcomes) == op.limit and not resolution.unresolvable
    return ResolvedGraphs(
        resolution.starter.born, more=tx.hints.graphs, left=resolution.unresolvable | unread
    )


def resolve_outcomes(
    tx: Transaction, outcomes: Sequence[Row], compose: Compose, lease: Lease | None
) -> GraphResolution | None:
    """Resolve these rows of the outbox. Return None if there are none.

    The graphs are locked first, then the rows are taken: a row that another process has taken
    meanwhile is resolved already. Rows of deleted graphs are deleted, too.
    """
    if not outcomes:
        return None
    resolution = _opened(tx, {str(row["graph_id"]) for row in outcomes}, compose, lease)
    taken = {
        row["id"]
        for row in tx.rows("take_from_outbox", ids=tx.as_list([row["id"] for row in outcomes]))
    }
    outcomes = [row for row in outcomes if row["id"] in taken]
    ends = [row for row in outcomes if row["status"] not in CONTINUED]
    resolution.resolve(
        [
            MemberOutcome(row["graph_id"], row["run_id"], row["status"], place=row["place"])
            for row in ends
        ]
    )
    going_on = [
        row
        for row in outcomes
        if row["status"] in CONTINUED and row["graph_id"] in resolution.graphs
    ]
    _go_on_reopening(resolution, [row for row in going_on if row["status"] == REPLAY])
    for row in going_on:
        if row["status"] not in (REPLAY, START):
            go_on(resolution, row["graph_id"], row["status"], row["run_id"], row["place"])
    # Together, because one call may start very many graphs.
    _go_on_starting(
        resolution,
        [resolution.graphs[row["graph_id"]] for row in going_on if row["status"] == START],
    )
    resolution.finish()
    return resolution


def _opened(
    tx: Transaction, graph_ids: Iterable[str], compose: Compose, lease: Lease | None
) -> GraphResolution:
    wanted = sorted(graph_ids)
    known = tx.graphs
    tx.graphs = {}
    # Graphs that this transaction has locked already are not read again, which saves a statement.
    rows = (
        list(map(known.get, wanted))
        if known.keys() >= set(wanted)
        else tx.rows("lock_graphs", ids=tx.as_list(wanted))
    )
    return GraphResolution(tx, [graph_from(row) for row in rows], compose, lease, strict=False)


def go_on(
    resolution: GraphResolution,
    graph_id: str,
    kind: str,
    run_id: str | None = None,
    place: str | None = None,
) -> None:
    """Continue work that an earlier transaction left over, as far as this one has room."""
    if resolution.room <= 0:
        resolution.outbox.leave(graph_id, kind, run_id, place)
    elif kind == START:
        _go_on_starting(resolution, [resolution.graphs[graph_id]])
    elif kind == SKIP:
        _go_on_skipping(resolution, resolution.graphs[graph_id])
    elif kind == REST:
        _go_on_stopping(resolution, str(run_id), str(place))
    else:
        go_on_cancelling(resolution, resolution.graphs[graph_id], place)


def _go_on_starting(resolution: GraphResolution, graphs: Sequence[GraphRecord]) -> None:
    """Start the next members of these graphs that wait for nothing more."""
    running = [graph.id for graph in graphs if graph.status is GraphStatus.RUNNING]
    if not running:
        return
    room = max(resolution.room, 0)
    ids = resolution.tx.as_list(sorted(running))
    rows = resolution.writes.ask("ready_members", ids=ids, limit=room + 1)
    ready = [row["run_id"] for row in rows[:room]]
    known = set(resolution.unresolvable)
    runs, failed = resolution.starter.compose(ready)
    # If there are more members than room, each graph may have some of them.
    for graph_id in running if len(rows) > room else resolution.unresolvable.keys() - known:
        resolution.outbox.leave(graph_id, START)
    resolution.room -= len(ready)
    failed |= resolution.start(runs)
    resolution.writes.flush()  # before `proceed`: the members that fail now are queued as started
    resolution.proceed(dict.fromkeys(failed, MemberState.FAILED), failed)


def _go_on_skipping(resolution: GraphResolution, graph: GraphRecord) -> None:
    """Skip the next members that can never start."""
    if graph.status is not GraphStatus.RUNNING:
        return
    rows = resolution.writes.ask(
        "unreachable_members", graph_id=graph.id, limit=resolution.room + 1
    )
    if len(rows) > resolution.room:
        resolution.outbox.leave(graph.id, SKIP)
    unreachable = {
        row["run_id"]: can_never_fire(group_from(row)) for row in rows[: resolution.room]
    }
    resolution.room -= len(unreachable)
    resolution.proceed(dict.fromkeys(unreachable, MemberState.SKIPPED), unreachable)


def _go_on_stopping(resolution: GraphResolution, run_id: str, place: str) -> None:
    """Stop the next members of the remainder of a decided group."""
    if resolution.graph(run_id).status is not GraphStatus.RUNNING:
        return
    number, _, after = place.partition(" ")
    groups = [group_from(row) for row in resolution.writes.ask("groups_of_member", run_id=run_id)]
    resolution.links.resumed[run_id, int(number)] = after
    resolution.proceed({}, decided=[group for group in groups if group.number == int(number)])


def _go_on_reopening(resolution: GraphResolution, outcomes: Sequence[Row]) -> None:
    """Take back the ends of replayed members from the next of their dependents."""
    ends: dict[str, list[TakenBack]] = {}
    for row in outcomes:
        ends.setdefault(row["graph_id"], []).append(
            taken_back(str(row["run_id"]), str(row["place"]))
        )
    for graph_id, ends_of_graph in ends.items():
        graph = resolution.graphs[graph_id]
        resolution.touch(graph)
        Reopening(resolution, graph).take_back(ends_of_graph)
        go_on(resolution, graph_id, START)


def go_on_cancelling(
    resolution: GraphResolution, graph: GraphRecord, place: str | None = None
) -> None:
    """Cancel the next waiting members of a cancelled graph, then stop the next started ones.

    A cancelled graph takes no new members, so each portion continues after the last member of the
    portion before (*place*).
    """
    if graph.policy is None:
        return  # the graph was replayed meanwhile
    stage, _, after = (place or "").partition(" ")
    span: dict[str, str] = {
        "after": after or run_of(graph.id, ""),
        "until": after_members(graph.id),
    }
    if stage != _STARTED:
        rows = resolution.writes.ask("waiting_members", limit=resolution.room, **span)
        resolution.cancel_waiting(
            graph, [row["run_id"] for row in rows], f"the graph was cancelled: {graph.reason}"
        )
        if resolution.room <= 0:
            resolution.outbox.leave(graph.id, CANCEL, place=f"{_WAITING} {rows[-1]['run_id']}")
            return
        span["after"] = run_of(graph.id, "")
    if graph.status is GraphStatus.CANCELLING and graph.policy != CancelPolicy.GRAPH:
        all_members = graph.policy == CancelPolicy.ALL
        rows = resolution.writes.ask(
            "unasked_members", everybody=int(all_members), limit=resolution.room, **span
        )
        resolution.room -= len(rows)
        reason = f"its graph was cancelled: {graph.reason}"
        resolution.stop({row["run_id"]: reason for row in rows})
        if resolution.room <= 0:
            resolution.outbox.leave(graph.id, CANCEL, place=f"{_STARTED} {rows[-1]['run_id']}")
