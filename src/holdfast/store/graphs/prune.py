"""Delete graphs that ended long ago, by themselves or together with pruned runs."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.core.graphs.model import OPEN_GRAPHS, GraphStatus
from holdfast.store.database import Transaction
from holdfast.store.definitions.apply import prune_definitions
from holdfast.store.graphs.operations import PruneGraphs
from holdfast.store.runs.operations import Prune, Pruned
from holdfast.store.runs.prune import prune_runs

ROWS = 5000
"""How many members and audit entries one transaction deletes at most."""

_ALL = (
    "delete_graph_outbox",
    "delete_graph_edges",
    "delete_graph_groups",
    "delete_graph_members",
    "delete_graph_events",
    "delete_graph",
)


def prune_graphs(tx: Transaction, op: PruneGraphs) -> int:
    """Delete graphs that ended before *op.before*; their runs stay."""
    return prune_some(tx, op, frozenset(GraphStatus))


def prune_some(tx: Transaction, op: PruneGraphs, statuses: Collection[str]) -> int:
    """Delete old graphs that ended with one of these statuses. Return how many."""
    asked = {"before": op.before, "namespace": op.namespace or "", "limit": op.limit}
    ended = sorted(set(statuses) & set(GraphStatus) - OPEN_GRAPHS)
    graphs = [row for status in ended for row in tx.rows("old_graphs", status=str(status), **asked)]
    # Small graphs share their statements; a large one is hidden now and swept in portions.
    small: list[dict[str, object]] = []
    room = ROWS
    for row in graphs:
        room -= row["members"] + row["events"]
        if room >= 0:
            small.append({"graph_id": row["id"]})
        else:
            _leave_to_sweepers(tx, row["id"])
    for query in _ALL if small else ():
        tx.many(query, small)
    return len(graphs)


def _leave_to_sweepers(tx: Transaction, graph_id: str) -> None:
    """Hide a graph that has too many rows for this transaction; later transactions sweep them."""
    tx.change("delete_graph_outbox", graph_id=graph_id)
    tx.change("insert_stage", id=graph_id, due_at=0)
    tx.change("discard_stage", id=graph_id)
    tx.change("delete_graph", graph_id=graph_id)


def prune(tx: Transaction, op: Prune) -> Pruned:
    """Delete finished trees of runs, and graphs that ended before the same instant."""
    prune_of(tx, op)
    prune_definitions(tx)
    tx.change("delete_old_messages", now=tx.now)
    return prune_runs(tx, op)


def prune_of(tx: Transaction, op: Prune) -> None:
    """Delete old graphs together with runs, unless only the runs of one workflow are pruned."""
    if op.workflow is None:
        prune_some(tx, PruneGraphs(op.before, op.namespace, op.limit), op.statuses)
