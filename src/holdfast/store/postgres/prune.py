"""Pruning many trees at once: the same moves as in SQLite, each in one statement for all of
them."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.store.contract.runs import Prune, Pruned
from holdfast.store.postgres.arrays import Texts
from holdfast.store.postgres.transaction import PostgresTransaction
from holdfast.store.tables import BELOW_RUNS
from holdfast.store.transitions import trees
from holdfast.store.transitions.graphs import prune_of
from holdfast.store.transitions.payloads import collect, forget_history
from holdfast.store.transitions.transaction import Row
from holdfast.store.transitions.trees import cut, sizes_of

_BELOW = (
    "delete_events_of",
    "delete_signals_of",
    "delete_tags_of",
    "delete_fanouts_of",
    *(f"delete_{table.name}_of" for table in BELOW_RUNS),
    "delete_runs",
)


def prune(tx: PostgresTransaction, op: Prune) -> Pruned:
    """Delete finished trees; one with a branch that lives, or ended too late, stays. A tree is
    locked before it is judged."""
    prune_of(tx, op)
    found = tx.rows(
        "prunable",
        before=op.before,
        statuses=Texts(op.statuses),
        namespace=op.namespace,
        workflow=op.workflow,
        after=op.after,
        limit=op.limit,
    )
    roots = [row["id"] for row in found]
    chosen = cut(roots, sizes_of(tx, "tree_sizes", roots, op.before), op)
    if chosen.part is not None:
        return _prune_part(tx, op, chosen.part, chosen.last)
    below = tx.rows("lock_descendants", run_ids=Texts(chosen.whole)) if chosen.whole else []
    late = {row["root_id"] for row in below if _is_late(row, op)}
    doomed = [root for root in chosen.whole if root not in late] + [
        row["id"] for row in below if row["root_id"] not in late
    ]
    _delete(tx, doomed)
    return Pruned(runs=len(doomed), last=chosen.last)


def _prune_part(tx: PostgresTransaction, op: Prune, root: str, last: str | None) -> Pruned:
    """Delete descendants of a tree that is too large for one transaction, the newest first, so that
    none loses its parent."""
    below = tx.rows("lock_last_descendants", run_id=root, limit=trees.RUNS)
    if any(_is_late(row, op) for row in below):
        return Pruned(runs=0, last=root)  # replayed since its tree was measured: the tree stays
    forget_history(tx, root)  # what is left of the tree must not be replayed
    _delete(tx, [row["id"] for row in below])
    return Pruned(runs=len(below), last=last)


def _is_late(row: Row, op: Prune) -> bool:
    return row["finished_at"] is None or row["finished_at"] >= op.before


def _delete(tx: PostgresTransaction, doomed: Sequence[str]) -> None:
    """Delete runs and all that belongs to them."""
    payloads = tx.rows("payloads_of_runs", run_ids=Texts(doomed)) if doomed else []
    for query in _BELOW if doomed else ():
        tx.change(query, run_ids=Texts(doomed))
    collect(tx, [bytes(row["digest"]) for row in payloads])
