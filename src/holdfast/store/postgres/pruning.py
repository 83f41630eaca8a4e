"""Pruning many trees at once: the same moves as in SQLite, each in one statement for all of them."""

from __future__ import annotations

from holdfast.store import contract as c
from holdfast.store.postgres.arrays import Texts
from holdfast.store.postgres.transaction import PostgresTransaction
from holdfast.store.tables import BELOW_RUNS
from holdfast.store.transitions.graphs import prune_of
from holdfast.store.transitions.payloads import collect

_BELOW = (
    "delete_events_of", "delete_signals_of", "delete_tags_of", "delete_fanouts_of",
    *(f"delete_{table.name}_of" for table in BELOW_RUNS), "delete_runs",
)  # fmt: skip


def prune(tx: PostgresTransaction, op: c.Prune) -> c.Pruned:
    """Delete finished trees; one with a branch that lives, or ended too late, stays. A tree is locked before it is judged."""
    prune_of(tx, op)
    found = tx.rows(
        "prunable", before=op.before, statuses=Texts(op.statuses), namespace=op.namespace, workflow=op.workflow,
        after=op.after, limit=op.limit,
    )  # fmt: skip
    roots = [row["id"] for row in found]
    below = tx.rows("lock_descendants", run_ids=Texts(roots)) if roots else []
    late = {row["root_id"] for row in below if row["finished_at"] is None or row["finished_at"] >= op.before}
    doomed = [root for root in roots if root not in late] + [row["id"] for row in below if row["root_id"] not in late]
    payloads = tx.rows("payloads_of_runs", run_ids=Texts(doomed)) if doomed else []
    for query in _BELOW if doomed else ():
        tx.change(query, run_ids=Texts(doomed))
    collect(tx, [bytes(row["digest"]) for row in payloads])
    return c.Pruned(runs=len(doomed), last=roots[-1] if len(roots) == op.limit else None)
