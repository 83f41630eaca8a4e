"""Let runs that exist become members of a graph.

The row of the run names the graph from then on, so that every transaction that ends the run reports
its outcome. A worker that has the run in memory is notified. If it ends the run before it has read
that, the guard of its write finds the graph.

Lock order: the graph, then the runs by id.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core.graphs.model import GraphRecord, JoiningRun, MemberSpec, MemberState, run_of
from holdfast.core.runs import Route, RunRecord
from holdfast.core.status import FINAL
from holdfast.errors import GraphBusy, MemberElsewhere, MemberExists, RunNotFound
from holdfast.store.database import MemberOutcome, Row, Transaction
from holdfast.store.graphs.resolution import GraphResolution
from holdfast.store.rows import run_from
from holdfast.store.wakeup import notify_holder


def have_joined(tx: Transaction, graph: GraphRecord, joins: Sequence[JoiningRun]) -> bool:
    """Return whether all these runs are members of the graph, under these names."""
    members = _members_of(tx, joins)
    return all(
        join.run_id in members and members[join.run_id]["run_id"] == run_of(graph.id, join.name)
        for join in joins
    )


def join_runs(resolution: GraphResolution, graph: GraphRecord, joins: Sequence[JoiningRun]) -> None:
    """Make existing runs members of a graph. The outcomes of runs that have ended count at once.

    Raises RunNotFound, MemberElsewhere, MemberExists, GraphBusy.
    """
    if not joins:
        return
    tx = resolution.tx
    ids = tx.as_list(sorted(join.run_id for join in joins))
    runs = {run.id: run for run in map(run_from, tx.rows("runs_to_join", ids=ids))}
    members = _members_of(tx, joins)
    for join in joins:
        _check(graph, join, runs.get(join.run_id), members.get(join.run_id))
    rows = [_row(graph, join, runs[join.run_id], tx.now) for join in joins]
    if tx.many("insert_joined_member", rows) < len(rows):
        raise GraphBusy(graph=graph.id, member=joins[0].name)
    graph.members += len(joins)
    graph.live += len(joins)
    resolution.touch(graph)
    tx.many("join_graph", [{"run_id": join.run_id, "graph_id": graph.id} for join in joins])
    for join in joins:
        run = runs[join.run_id]
        resolution.audit.add(graph, "member_joined", join.name, {"run": run.id})
        if run.status in FINAL:
            tx.member_outcomes.append(MemberOutcome(graph.id, run.id, run.status.value))
        elif run.session_id is not None:
            notify_holder(tx, run.session_id, run.id)


def _members_of(tx: Transaction, joins: Sequence[JoiningRun]) -> dict[str, Row]:
    """Return the members that the runs are already, by the ids of the runs."""
    ids = tx.as_list([join.run_id for join in joins])
    return {row["joined"]: row for row in tx.rows("members_of_runs", ids=ids)}


def _check(graph: GraphRecord, join: JoiningRun, run: RunRecord | None, member: Row | None) -> None:
    """Check that a run can join. Raises RunNotFound, MemberElsewhere, MemberExists."""
    if run is None or run.namespace != graph.namespace:
        raise RunNotFound(run=join.run_id)
    if run.parent_id is not None:
        raise MemberElsewhere(
            run=run.id, parent=run.parent_id, why="it is a child, whose end belongs to its parent"
        )
    # A member that its graph has started has the id of the graph in its own.
    own = run.graph_id is not None and run.id.startswith(run_of(run.graph_id, ""))
    graph_id = member["graph_id"] if member is not None else run.graph_id if own else None
    if graph_id == graph.id:
        raise MemberExists(graph=graph.id, run=run.id, member=join.name)
    if graph_id is not None:
        raise MemberElsewhere(run=run.id, graph=graph.id, why=f"it belongs to graph {graph_id}")


def _row(graph: GraphRecord, join: JoiningRun, run: RunRecord, now: int) -> dict[str, object]:
    route = Route(run.namespace, run.workflow, run.version, run.lane, run.capabilities)
    return {
        "run_id": run_of(graph.id, join.name),
        "graph_id": graph.id,
        "workflow": run.workflow,
        "state": MemberState.STARTED.value,
        "spec": msgspec.json.encode(MemberSpec(route=route)),
        "input": b"",
        "started_at": now,
        "joined": run.id,
    }
