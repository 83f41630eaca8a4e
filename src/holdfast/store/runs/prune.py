"""Delete finished trees of runs, a bounded number of runs per transaction."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.store.database import Transaction
from holdfast.store.payloads.apply import collect, digests_used, forget_history
from holdfast.store.runs import trees
from holdfast.store.runs.operations import Prune, Pruned
from holdfast.store.runs.trees import cut, sizes_of
from holdfast.store.tables import BELOW_RUNS

_BELOW = (
    "delete_events",
    "delete_signals",
    "delete_tags",
    "delete_fanouts",
    *(f"delete_{table.name}" for table in BELOW_RUNS),
    "delete_run",
)


def prune_runs(tx: Transaction, op: Prune) -> Pruned:
    """Delete finished trees in the order of their roots. A tree with a live run is kept."""
    rows = tx.rows(
        "prunable",
        before=op.before,
        statuses=tx.as_list(op.statuses),
        namespace=op.namespace,
        workflow=op.workflow,
        after=op.after,
        limit=op.limit,
    )
    roots = [row["id"] for row in rows]
    sizes = sizes_of(tx, "tree_sizes", roots, op.before)
    chosen = cut(roots, sizes, after=op.after, limit=op.limit)
    run_ids = [
        row["id"] for root in chosen.whole for row in tx.rows("descendants", run_id=root)
    ] + chosen.whole
    if chosen.part is not None:
        # Of a tree that is deleted in parts the rest must not be replayed.
        forget_history(tx, chosen.part)
        run_ids = [
            row["id"] for row in tx.rows("last_descendants", run_id=chosen.part, limit=trees.RUNS)
        ]
    # Read before the runs are deleted, and with them their references.
    payloads = [digest for run_id in run_ids for digest in digests_used(tx, run_id)]
    delete_runs(tx, run_ids)
    collect(tx, payloads)
    return Pruned(runs=len(run_ids), last=chosen.last)


def delete_runs(tx: Transaction, run_ids: Sequence[str]) -> None:
    """Delete runs and everything that belongs to them except payloads."""
    # By table, not by run: each statement is prepared once.
    for query in _BELOW:
        tx.many(query, [{"run_id": run_id} for run_id in run_ids])
