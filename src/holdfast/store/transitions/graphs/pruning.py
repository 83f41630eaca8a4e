"""Graphs that ended long ago go: by themselves, or with the runs that go."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.core.graphs.model import OPEN_GRAPHS, GraphStatus
from holdfast.store.contract.graphs import PruneGraphs
from holdfast.store.contract.runs import Prune, Pruned
from holdfast.store.transitions import operating
from holdfast.store.transitions.transaction import Transaction

ROWS = 5000
"""How many members and lines of audit trails one transaction deletes at most."""

_ALL = (
    "delete_graph_news",
    "delete_graph_edges",
    "delete_graph_groups",
    "delete_graph_members",
    "delete_graph_events",
    "delete_graph",
)


def prune_graphs(tx: Transaction, op: PruneGraphs) -> int:
    """Delete graphs that ended long ago; their runs stay."""
    return prune_some(tx, op, frozenset(GraphStatus))


def prune_some(tx: Transaction, op: PruneGraphs, statuses: Collection[str]) -> int:
    """Delete those of them that ended in one of these ways."""
    asked = {"before": op.before, "namespace": op.namespace or "", "limit": op.limit}
    ended = sorted(set(statuses) & set(GraphStatus) - OPEN_GRAPHS)
    doomed = [row for status in ended for row in tx.rows("old_graphs", status=str(status), **asked)]
    small: list[dict[str, object]] = []
    room = ROWS
    for row in doomed:
        room -= row["members"] + row["events"]
        if room >= 0:
            small.append({"graph_id": row["id"]})
        else:
            _leave_to_sweepers(tx, row["id"])
    for query in _ALL if small else ():
        tx.many(query, small)
    return len(doomed)


def _leave_to_sweepers(tx: Transaction, graph_id: str) -> None:
    """Let a graph disappear whose rows are too many for this transaction: the next ones delete
    them."""
    tx.change("delete_graph_news", graph_id=graph_id)
    tx.change("insert_stage", id=graph_id, due_at=0)
    tx.change("discard_stage", id=graph_id)
    tx.change("delete_graph", graph_id=graph_id)


def prune(tx: Transaction, op: Prune) -> Pruned:
    """Delete finished trees of runs, and graphs that ended as long ago."""
    prune_of(tx, op)
    return operating.prune(tx, op)


def prune_of(tx: Transaction, op: Prune) -> None:
    """Delete the graphs that go when runs are pruned: unless only those of one workflow are."""
    if op.workflow is None:
        prune_some(tx, PruneGraphs(op.before, op.namespace, op.limit), op.statuses)
