"""Delete discarded stages and pruned graphs, a portion of rows per transaction."""

from __future__ import annotations

from holdfast.store.database import Transaction
from holdfast.store.graphs.operations import SweepStages
from holdfast.store.graphs.portions import PORTION


def sweep_stages(tx: Transaction, op: SweepStages) -> bool:
    """Delete a portion of a discarded or stale stage. Return False if there is none."""
    if op.give_up:
        tx.change("discard_stage", id=op.stage_id)
    stages = tx.rows("stage_to_sweep", stage_id=op.stage_id or "", now=tx.now)
    if not stages:
        return False
    stage_id = stages[0]["id"]
    # Before the deletion: a writer that returns to the stage must start from the beginning.
    tx.change("discard_stage", id=stage_id)
    members = tx.rows("members_to_sweep", stage_id=stage_id, limit=PORTION)
    for query in ("delete_edges_above", "delete_groups_of", "delete_members"):
        tx.many(query, [{"run_id": row["run_id"]} for row in members])
    if len(members) < PORTION and not _sweep_events(tx, stage_id):
        tx.change("delete_stage", id=stage_id)
    return True


def _sweep_events(tx: Transaction, stage_id: str) -> int:
    """Delete a portion of the events of a pruned graph, or of a staged history. Return how many."""
    return tx.change("sweep_events", stage_id=stage_id, limit=PORTION) or tx.change(
        "sweep_history", stage_id=stage_id, limit=PORTION
    )
