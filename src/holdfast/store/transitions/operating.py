"""What people do to runs and lanes: resume, replay, prune, set limits."""

from __future__ import annotations

import msgspec

from holdfast.core import claims, leases
from holdfast.core.records import Event, Kind
from holdfast.core.status import Move, Status, after
from holdfast.errors import IllegalMove, NotReclaimable, RunFinished, RunNotFinished
from holdfast.store import contract as c
from holdfast.store.tables import BELOW_RUNS
from holdfast.store.transitions.admitting import apply_new_rate
from holdfast.store.transitions.payloads import collect, digests_used
from holdfast.store.transitions.transaction import Transaction, append_from_outside, last_seq, load


def resume_run(tx: Transaction, op: c.ResumeRun) -> Status:
    """Put a stuck run back to work; one that was being cancelled goes on with that."""
    state = load(tx, op.run_id)
    if state["finished_at"] is not None:
        raise RunFinished(run=op.run_id, status=state["status"])
    try:
        status = after(Status(state["status"]), Move.RESUME)
    except IllegalMove:
        raise IllegalMove(run=op.run_id, status=state["status"], move="resume") from None
    if state["cancel_reason"] is not None:
        status = after(status, Move.CANCEL)
    _note(tx, op.run_id, Kind.RUN_RESUMED)
    tx.change("resume_run", run_id=op.run_id, status=status, rank=claims.rank(tx.now, state["priority"]))
    tx.hints.ready = True
    return status


def replay_run(tx: Transaction, op: c.ReplayRun) -> Status:
    """Put a finished run back to work, without the events that no longer count."""
    state = load(tx, op.run_id)
    if state["finished_at"] is None:
        raise RunNotFinished(run=op.run_id, status=state["status"])
    status = after(Status(state["status"]), Move.REPLAY)
    _check_replays(tx, op.run_id)
    _note(tx, op.run_id, Kind.RUN_REPLAYED, {"void": list(op.void)})
    tx.change("replay_run", run_id=op.run_id, status=status, rank=claims.rank(tx.now, state["priority"]))
    tx.change("reopen_waits", run_id=op.run_id)
    if state["parent_index"] is not None:
        tx.change("count_up", run_id=state["parent_id"], step=state["parent_step"])
    tx.hints.ready = True
    return status


def _check_replays(tx: Transaction, run_id: str) -> None:
    """What was agreed when a task was started limits how often it is replayed."""
    (facts,) = tx.rows("lease_facts", ids=tx.as_list([run_id]))
    if facts["policy"] is None:
        return
    limit = msgspec.json.decode(bytes(facts["policy"]), type=leases.TaskPolicy).replays
    history = [Event(kind=row["kind"]) for row in tx.rows("history", run_id=run_id, after=0)]
    if leases.replays_in(history) >= limit:
        raise NotReclaimable(run=run_id, why=f"it was replayed {limit} times, and no more was agreed: start it anew")


def _note(tx: Transaction, run_id: str, kind: str, data: object = None) -> None:
    told = None if data is None else msgspec.json.encode(data)
    append_from_outside(tx, [(run_id, Event(kind=kind, seq=last_seq(tx, run_id) + 1, data=told))])


_BELOW = (
    "delete_events", "delete_signals", "delete_tags", "delete_fanouts", *(f"delete_{table.name}" for table in BELOW_RUNS),
    "delete_run",
)  # fmt: skip


def prune(tx: Transaction, op: c.Prune) -> c.Pruned:
    """Delete finished trees, roots first found first gone; a tree with a live branch stays."""
    found = tx.rows(
        "prunable", before=op.before, statuses=tx.as_list(op.statuses), namespace=op.namespace, workflow=op.workflow,
        after=op.after, limit=op.limit,
    )  # fmt: skip
    gone = 0
    for root in found:
        if tx.rows("has_late_descendant", run_id=root["id"], before=op.before):
            continue
        doomed = [root["id"], *(row["id"] for row in tx.rows("descendants", run_id=root["id"]))]
        payloads = [digest for run_id in doomed for digest in digests_used(tx, run_id)]
        for query in _BELOW:
            tx.many(query, [{"run_id": run_id} for run_id in doomed])
        collect(tx, payloads)
        gone += len(doomed)
    return c.Pruned(runs=gone, last=found[-1]["id"] if len(found) == op.limit else None)


def set_lane(tx: Transaction, op: c.SetLane) -> None:
    """Create a lane or change its limits."""
    lane = op.lane
    tx.change(
        "save_lane", name=lane.name, concurrency=lane.concurrency, rate_limit=lane.rate_limit, rate_per=lane.rate_per,
        paused=int(lane.paused), per_share=lane.per_share, share_rate_limit=lane.share_rate_limit,
        share_rate_per=lane.share_rate_per, weights=lane.weights, draining=int(lane.draining),
    )  # fmt: skip
    apply_new_rate(tx, lane)
    tx.hints.ready = tx.hints.routes = True
