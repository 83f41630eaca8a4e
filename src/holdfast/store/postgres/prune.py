"""Prune many trees of runs with one statement per table, instead of one per run as in SQLite."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.store.database import Row
from holdfast.store.definitions.apply import prune_definitions
from holdfast.store.graphs.prune import prune_of
from holdfast.store.payloads.apply import collect, forget_history
from holdfast.store.postgres.arrays import Texts
from holdfast.store.postgres.transaction import PostgresTransaction
from holdfast.store.runs import trees
from holdfast.store.runs.operations import Prune, Pruned
from holdfast.store.runs.trees import cut, sizes_of
from holdfast.store.tables import BELOW_RUNS

_BELOW = (
    "delete_events_of",
    "delete_signals_of",
    "delete_tags_of",
    "delete_fanouts_of",
    *(f"delete_{table.name}_of" for table in BELOW_RUNS),
    "delete_runs",
)


def prune(tx: PostgresTransaction, op: Prune) -> Pruned:
    """Delete finished trees. A tree with a run that is live, or ended too late, is kept.

    A tree is locked before it is checked, because a replay may revive one of its runs meanwhile.
    """
    prune_of(tx, op)
    prune_definitions(tx)
    tx.change("delete_old_messages", now=tx.now)
    rows = tx.rows(
        "prunable",
        before=op.before,
        statuses=Texts(op.statuses),
        namespace=op.namespace,
        workflow=op.workflow,
        after=op.after,
        limit=op.limit,
    )
    roots = [row["id"] for row in rows]
    sizes = sizes_of(tx, "tree_sizes", roots, op.before)
    chosen = cut(roots, sizes, after=op.after, limit=op.limit)
    if chosen.part is not None:
        return _prune_part(tx, op, chosen.part, chosen.last)
    descendants = tx.rows("lock_descendants", run_ids=Texts(chosen.whole)) if chosen.whole else []
    # After the lock: a run of a chosen tree may have been replayed since the tree was measured.
    late = {row["root_id"] for row in descendants if _is_late(row, op)}
    run_ids = [root for root in chosen.whole if root not in late] + [
        row["id"] for row in descendants if row["root_id"] not in late
    ]
    _delete(tx, run_ids)
    return Pruned(runs=len(run_ids), last=chosen.last)


def _prune_part(tx: PostgresTransaction, op: Prune, root: str, last: str | None) -> Pruned:
    """Delete descendants of a tree that is too large for one transaction.

    The newest are deleted first, so that no run loses its parent before itself.
    """
    descendants = tx.rows("lock_last_descendants", run_id=root, limit=trees.RUNS)
    if any(_is_late(row, op) for row in descendants):
        return Pruned(runs=0, last=root)  # replayed since the tree was measured: keep the tree
    # Of a tree that is deleted in parts the rest must not be replayed.
    forget_history(tx, root)
    _delete(tx, [row["id"] for row in descendants])
    return Pruned(runs=len(descendants), last=last)


def _is_late(row: Row, op: Prune) -> bool:
    return row["finished_at"] is None or row["finished_at"] >= op.before


def _delete(tx: PostgresTransaction, run_ids: Sequence[str]) -> None:
    """Delete runs and all that belongs to them."""
    payloads = tx.rows("payloads_of_runs", run_ids=Texts(run_ids)) if run_ids else []
    for query in _BELOW if run_ids else ():
        tx.change(query, run_ids=Texts(run_ids))
    collect(tx, [bytes(row["digest"]) for row in payloads])
