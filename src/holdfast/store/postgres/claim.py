"""Claim runs from many processes at once: SKIP LOCKED, and lane limits that hold for all of them.

The same steps as in SQLite (promote due runs, choose, lease), each in one statement for all routes
and statuses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from holdfast.core import claiming, typed_json
from holdfast.core.events import Event
from holdfast.core.runs import RunRecord
from holdfast.core.sessions import Lane
from holdfast.core.status import CLAIMABLE, Move, Status, after
from holdfast.core.waits import Signal
from holdfast.errors import LeaseLost
from holdfast.store.database import Row
from holdfast.store.lanes.fair_queue import (
    LaneUsage,
    choose,
    enter_usage,
    latest_turns,
    move_clocks,
)
from holdfast.store.lanes.rate_limits import Admissions, RateWindows, free
from holdfast.store.postgres.arrays import Blobs, Numbers, Texts
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.dialect import SQL
from holdfast.store.postgres.planned_writes import LINES, plan_write
from holdfast.store.postgres.transaction import Kinds, PostgresTransaction, columns
from holdfast.store.rows import lane_from, run_from
from holdfast.store.runs.claim import PROMOTED_AT_ONCE, WOKEN, holds_suspect
from holdfast.store.runs.ending import RunEnd, end_runs
from holdfast.store.runs.operations import Advance, Claim, ClaimedRuns
from holdfast.store.tasks import apply as tasks
from holdfast.store.tasks.operations import ClaimLeases, CompleteLeases, LeasedTask

WAKE = {"was": Texts(WOKEN), "becomes": Texts(after(was, Move.WAKE) for was in WOKEN)}
_BESIDE = (
    "open",
    "due",
    "ready",
    "suspect",
    "limited",
    "seq",
    "policy",
    "history",
    "signals",
    "rank",
)
"""The columns of `lease_ready` beside those of the run."""
_HISTORY = typed_json.decoder(list[Event])
_SIGNALS = typed_json.decoder(list[Signal])
_LEASE: Kinds = {"run_id": Texts, "generation": Numbers}
_OVER: Kinds = {"run_id": Texts, "step": Texts, "by": Texts, "now": Numbers}
_BEGUN: Kinds = {"lane": Texts, "share": Texts, "at": Numbers, "number": Numbers, "count": Numbers}
_COMPLETION = {
    "run_id": Texts,
    "generation": Numbers,
    "seq": Numbers,
    "result": Blobs,
    "data": Blobs,
    "started_at": Numbers,
}
CLAIM = {"was": Texts(CLAIMABLE), "becomes": Texts(after(was, Move.CLAIM) for was in CLAIMABLE)}

LANE = Lane.__struct_fields__


def is_worth_while(db: Connection, op: Claim | ClaimLeases, now: int) -> bool:
    """Return whether there is anything to claim or to promote."""
    (work,) = db.rows(SQL["check_work"], _question(op, now))
    return bool(work["open"] and (work["due"] or work["ready"] or work["suspect"]))


def _question(op: Claim | ClaimLeases, now: int) -> dict[str, object]:
    return {
        "session_id": op.session_id,
        "now": now,
        "route_ids": Numbers(number for number, _ in op.routes),
    }


def claim(tx: PostgresTransaction, op: Claim) -> ClaimedRuns:
    """Lease ready runs to a session, best rank first, within the limits of their lanes."""
    routes = {
        "route_ids": Numbers(number for number, _ in op.routes),
        "lanes": Texts(lane for _, lane in op.routes),
    }
    # One statement tells whether to claim, and if so locks the limited lanes, in the order of their
    # names. Lanes are locked before runs.
    rows = tx.unchecked("check_work_and_lock", session_id=op.session_id, now=tx.now, **routes)
    state = rows[0]
    if not state["open"]:
        # The session was ended as dead: a run leased to it now would never be freed.
        return ClaimedRuns()
    suspects = state["suspect"]
    if state["due"]:
        due = tx.rows(
            "promote_due", now=tx.now, step=claiming.PRIORITY_STEP, limit=PROMOTED_AT_ONCE, **WAKE
        )
        # A suspect may have been among the runs that became due only now.
        suspects = suspects or any(row["suspect"] for row in due)
    if not op.routes or not (state["due"] or state["ready"] or state["suspect"]):
        return ClaimedRuns()
    lanes = {
        row["name"]: lane_from({name: row[name] for name in LANE})
        for row in rows
        if row["name"] is not None
    }
    # Most installations limit no lane: then the database itself chooses, in one statement.
    if not lanes and not suspects:
        return _claim_best(tx, op)
    return _claim_within_limits(
        tx, op, lanes, suspects=suspects and not holds_suspect(tx, op.session_id)
    )


def _claim_best(tx: PostgresTransaction, op: Claim) -> ClaimedRuns:
    """Lease the best ranked runs. Fast path: no lane has a limit, and no run is a suspect."""
    routes = Numbers(number for number, _ in op.routes)
    rows = tx.rows(
        "claim_ready",
        route_ids=routes,
        limit=op.limit,
        session_id=op.session_id,
        now=tx.now,
        **CLAIM,
    )
    ranks = [row.pop("rank") for row in rows]
    runs = [run_from(row) for row in rows]
    _move_clocks(tx, ranks, runs)
    return ClaimedRuns(runs)


def _move_clocks(tx: PostgresTransaction, ranks: Sequence[int], runs: Sequence[RunRecord]) -> None:
    move_clocks(
        tx,
        [
            claiming.Claimable(rank, run.id, run.lane, share=run.share)
            for rank, run in zip(ranks, runs, strict=True)
        ],
    )


def _claim_within_limits(
    tx: PostgresTransaction, op: Claim, lanes: Mapping[str, Lane], *, suspects: bool
) -> ClaimedRuns:
    """Lease the best ranked runs that their lanes admit. Suspects are run one at a time."""
    usage = LaneUsage({}, Counter())
    windows = RateWindows(lanes)
    routes = {
        "route_ids": Numbers(number for number, _ in op.routes),
        "lanes": Texts(lane for _, lane in op.routes),
    }
    rows = tx.rows(
        "claimable_by_lane", now=tx.now, limit=op.limit, suspects=int(suspects), **routes
    )
    ready = [
        claiming.Claimable(
            row["one"], row["id"], row["lane"], bool(row["three"]), row["share"], row["two"]
        )
        for row in rows
        if row["fact"] == "ready"
    ]
    enter_usage((row for row in rows if row["fact"] != "ready"), usage, windows)
    chosen, admissions = choose(ready, lanes, usage, windows, now=tx.now, limit=op.limit)
    if not chosen:
        return ClaimedRuns(behind=True)
    runs = _leased(
        tx,
        "lease_within_limits",
        op.session_id,
        [run.id for run in chosen],
        **_admission_columns(admissions, latest_turns(chosen)),
    )
    free(tx, admissions.full)
    return ClaimedRuns(runs)


def _admission_columns(admissions: Admissions, turns: Mapping[str, int]) -> dict[str, object]:
    lanes = [(lane, before) for lane, by_share, before in admissions.gone if not by_share]
    shares = [(lane, before) for lane, by_share, before in admissions.gone if by_share]
    return {
        "turn_lane": Texts(turns),
        "turn_vtime": Numbers(turns.values()),
        "gone_lane": Texts(lane for lane, _ in lanes),
        "gone_before": Numbers(before for _, before in lanes),
        "gone_shares_lane": Texts(lane for lane, _ in shares),
        "gone_shares_before": Numbers(before for _, before in shares),
        **columns(_BEGUN, admissions.began, "begun_"),
    }


def claim_leases(tx: PostgresTransaction, op: ClaimLeases) -> list[LeasedTask]:
    """Lease ready runs to a remote worker."""
    return tasks.claim_leases(tx, op, tasks.ClaimStrategy(_lease_best, _advance_all))


def _lease_best(tx: PostgresTransaction, op: ClaimLeases) -> list[tasks.LeasedRun]:
    """Lease the best ranked runs and read their facts in one statement.

    Only if no lane has a limit, no run is a suspect and nothing is due; else step by step.
    """
    if op.run_id is not None:
        return tasks.lease_each(tx, op, claim, _lease)
    rows = tx.rows("lease_ready", limit=op.limit, **_question(op, tx.now), **CLAIM)
    state = rows[0]
    if state["limited"] or state["suspect"] or state["due"]:
        return tasks.lease_each(tx, op, claim, _lease)
    if state["id"] is None:
        return []
    ranks = [row["rank"] for row in rows]
    leased = [_leased_run(row) for row in rows]
    _move_clocks(tx, ranks, [leased_run.leased.run for leased_run in leased])
    return leased


def _leased_run(row: Row) -> tasks.LeasedRun:
    seq = row["seq"]
    policy = row["policy"]
    history = row["history"]
    signals = row["signals"]
    # The rest of the row is exactly a run, as `run_from` expects it.
    for name in _BESIDE:
        del row[name]
    events = [] if history is None else _HISTORY.decode(history)
    return tasks.LeasedRun(
        LeasedTask(run_from(row), seq or 0, policy),
        events,
        lambda: [] if signals is None else _SIGNALS.decode(signals),
    )


def _advance_all(tx: PostgresTransaction, changes: Sequence[Advance]) -> None:
    """Write changes of several runs in one statement, if they are only events and closed waits."""
    if not changes:
        return
    plain = [
        planned
        for change in changes
        if (planned := plan_write(change, tx.now, {}, ())) is not None
        and planned.head == "append_guarded"
    ]
    extras = [extra for write in plain for extra in write.extras]
    if len(plain) < len(changes) or any(query != "close_wait" for query, _ in extras):
        tasks.PLAIN.write(tx, changes)
        return
    values = columns(_LEASE, [write.row for write in plain]) | columns(
        LINES, [line for write in plain for line in write.lines], "line_"
    )
    values |= columns(_OVER, [row for _, rows in extras for row in rows], "over_")
    values["taken"] = Numbers(signal for write in plain for signal in write.taken)
    if len(tx.rows("resume_leases", **values)) < len(plain):
        raise LeaseLost(why="a run leased in this transaction has lost its lease: this is a bug")


def complete_leases(tx: PostgresTransaction, op: CompleteLeases) -> list[bool]:
    """Complete leased runs. Return for each whether its lease was still valid."""
    (answer,) = complete_all(tx, [op])
    return answer


def complete_all(tx: PostgresTransaction, ops: Sequence[CompleteLeases]) -> list[list[bool]]:
    """Complete the runs of several operations, all of them different, in one statement."""
    # Sorted by id: all transactions lock runs in this order.
    done = sorted(
        (completion for op in ops for completion in op.done),
        key=lambda completion: completion.run_id,
    )
    values = {
        name: kind([getattr(completion, name) for completion in done])
        for name, kind in _COMPLETION.items()
    }
    passed = {row["id"] for row in tx.rows("complete_leases", now=tx.now, **values)}
    end_runs(tx, [RunEnd(run_id, Status.COMPLETED) for run_id in passed])
    if len(passed) < len(done):
        passed |= tasks.complete_joined(tx, [item for item in done if item.run_id not in passed])
    return [[completion.run_id in passed for completion in op.done] for op in ops]


def _lease(tx: PostgresTransaction, session_id: str, ids: Sequence[str]) -> list[RunRecord]:
    return _leased(tx, "lease_runs", session_id, ids) if ids else []


def _leased(
    tx: PostgresTransaction, query: str, session_id: str, ids: Sequence[str], **more: object
) -> list[RunRecord]:
    order = {run_id: place for place, run_id in enumerate(ids)}
    rows = tx.rows(query, ids=Texts(ids), session_id=session_id, now=tx.now, **CLAIM, **more)
    return sorted(map(run_from, rows), key=lambda run: order[run.id])
