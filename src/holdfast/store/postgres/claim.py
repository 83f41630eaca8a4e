"""Claiming on many machines at once: what another process is claiming is left to it, and limits of
lanes hold for all together.

The same three moves as in SQLite (promote what is due, choose, lease), each in one statement for
all routes and statuses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from holdfast.core import claiming
from holdfast.core.events import Event
from holdfast.core.runs import RunRecord
from holdfast.core.sessions import Lane
from holdfast.core.status import CLAIMABLE, Move, after
from holdfast.core.waits import Signal
from holdfast.errors import LeaseLost
from holdfast.store.contract.leases import ClaimLeases, CompleteLeases, LeasedTask
from holdfast.store.contract.runs import Advance, Claim, ClaimedRuns
from holdfast.store.postgres.arrays import Blobs, Numbers, Texts
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.dialect import SQL
from holdfast.store.postgres.planned_writes import LINES, plan_write
from holdfast.store.postgres.transaction import Kinds, PostgresTransaction, columns
from holdfast.store.transitions import leases, run_from
from holdfast.store.transitions.admitting import Admissions, RateWindows, free
from holdfast.store.transitions.claiming import PROMOTED_AT_ONCE, WOKEN, holds_suspect
from holdfast.store.transitions.sharing import (
    LaneUsage,
    choose,
    latest_turns,
    move_clocks,
    take_down,
)
from holdfast.store.transitions.transaction import Row, lane_from

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
"""What `lease_ready` tells beside the run itself."""
_HISTORY, _SIGNALS = msgspec.json.Decoder(list[Event]), msgspec.json.Decoder(list[Signal])
_LEASE: Kinds = {"run_id": Texts, "generation": Numbers}
_OVER: Kinds = {"run_id": Texts, "step": Texts, "by": Texts, "now": Numbers}
_BEGUN: Kinds = {"lane": Texts, "share": Texts, "at": Numbers, "number": Numbers, "count": Numbers}
_COMPLETION = {"run_id": Texts, "generation": Numbers, "seq": Numbers, "result": Blobs}
CLAIM = {"was": Texts(CLAIMABLE), "becomes": Texts(after(was, Move.CLAIM) for was in CLAIMABLE)}

LANE = Lane.__struct_fields__


def is_worth_while(db: Connection, op: Claim | ClaimLeases, now: int) -> bool:
    """Say whether there is anything to claim, or to promote."""
    (found,) = db.rows(SQL["look_for_work"], _question(op, now))
    return bool(found["open"] and (found["due"] or found["ready"] or found["suspect"]))


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
    rows = tx.unchecked("look_and_lock", session_id=op.session_id, now=tx.now, **routes)
    found = rows[0]
    if not found["open"]:
        return ClaimedRuns()  # it was taken for dead, and what it leased now nobody would ever free
    suspects = found["suspect"]
    if found["due"]:
        due = tx.rows(
            "promote_due", now=tx.now, step=claiming.PRIORITY_STEP, limit=PROMOTED_AT_ONCE, **WAKE
        )
        suspects = suspects or any(
            row["suspect"] for row in due
        )  # one of them may have waited until now
    if not op.routes or not (found["due"] or found["ready"] or found["suspect"]):
        return ClaimedRuns()
    lanes = {
        row["name"]: lane_from({name: row[name] for name in LANE})
        for row in rows
        if row["name"] is not None
    }
    if not lanes and not suspects:
        return _claim_best(tx, op)
    return _claim_within_limits(
        tx, op, lanes, suspects=suspects and not holds_suspect(tx, op.session_id)
    )


def _claim_best(tx: PostgresTransaction, op: Claim) -> ClaimedRuns:
    """Lease the best, where no lane has a limit and nobody is suspected of anything."""
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
    """Lease the best that their lanes admit. What may have killed its worker is tried alone."""
    held, windows = LaneUsage({}, Counter()), RateWindows(lanes)
    routes = {
        "route_ids": Numbers(number for number, _ in op.routes),
        "lanes": Texts(lane for _, lane in op.routes),
    }
    rows = tx.rows("look_at_lanes", now=tx.now, limit=op.limit, suspects=int(suspects), **routes)
    ready = [
        claiming.Claimable(
            row["one"], row["id"], row["lane"], bool(row["three"]), row["share"], row["two"]
        )
        for row in rows
        if row["what"] == "ready"
    ]
    take_down((row for row in rows if row["what"] != "ready"), held, windows)
    chosen, notes = choose(ready, lanes, held, windows, now=tx.now, limit=op.limit)
    if not chosen:
        return ClaimedRuns(behind=True)
    runs = _leased(
        tx,
        "lease_within_limits",
        op.session_id,
        [run.id for run in chosen],
        **_noted(notes, latest_turns(chosen)),
    )
    free(tx, notes.full)
    return ClaimedRuns(runs)


def _noted(notes: Admissions, turns: Mapping[str, int]) -> dict[str, object]:
    lanes = [(lane, before) for lane, by_share, before in notes.gone if not by_share]
    shares = [(lane, before) for lane, by_share, before in notes.gone if by_share]
    return {
        "turn_lane": Texts(turns),
        "turn_vtime": Numbers(turns.values()),
        "gone_lane": Texts(lane for lane, _ in lanes),
        "gone_before": Numbers(before for _, before in lanes),
        "gone_shares_lane": Texts(lane for lane, _ in shares),
        "gone_shares_before": Numbers(before for _, before in shares),
        **columns(_BEGUN, notes.began, "begun_"),
    }


def claim_leases(tx: PostgresTransaction, op: ClaimLeases) -> list[LeasedTask]:
    """Lease ready runs to a program that is no Python function."""
    return leases.claim_leases(tx, op, leases.ClaimStrategy(_lease_best, _advance_all))


def _lease_best(tx: PostgresTransaction, op: ClaimLeases) -> list[leases.LeasedRun]:
    """Lease the best, where no lane has a limit, nobody is suspected of anything and nothing is
    due; else step by step."""
    if op.run_id is not None:
        return leases.lease_each(tx, op, claim, _lease)
    rows = tx.rows("lease_ready", limit=op.limit, **_question(op, tx.now), **CLAIM)
    asked = rows[0]
    if asked["limited"] or asked["suspect"] or asked["due"]:
        return leases.lease_each(tx, op, claim, _lease)
    if asked["id"] is None:
        return []
    ranks = [row["rank"] for row in rows]
    found = [_found(row) for row in rows]
    _move_clocks(tx, ranks, [one.leased.run for one in found])
    return found


def _found(row: Row) -> leases.LeasedRun:
    seq, policy, history, signals = row["seq"], row["policy"], row["history"], row["signals"]
    for name in _BESIDE:
        del row[name]
    past = [] if history is None else _HISTORY.decode(history)
    return leases.LeasedRun(
        LeasedTask(run_from(row), seq or 0, policy),
        past,
        lambda: [] if signals is None else _SIGNALS.decode(signals),
    )


def _advance_all(tx: PostgresTransaction, changes: Sequence[Advance]) -> None:
    """Write what the holders of different runs have to say: together, if all of it is lines of
    their histories, and waits that are over."""
    if not changes:
        return
    plain = [
        one
        for change in changes
        if (one := plan_write(change, tx.now, {}, ())) is not None and one.head == "append_guarded"
    ]
    extras = [extra for one in plain for extra in one.extras]
    if len(plain) < len(changes) or any(query != "close_wait" for query, _ in extras):
        leases.PLAIN.write(tx, changes)
        return
    values = columns(_LEASE, [one.row for one in plain]) | columns(
        LINES, [line for one in plain for line in one.lines], "line_"
    )
    values |= columns(_OVER, [each for _, rows in extras for each in rows], "over_")
    values["taken"] = Numbers(signal for one in plain for signal in one.taken)
    if len(tx.rows("resume_leases", **values)) < len(plain):
        raise LeaseLost(why="it was leased in this very transaction")


def complete_leases(tx: PostgresTransaction, op: CompleteLeases) -> list[bool]:
    """End leased runs well, as far as their leases stand."""
    (answer,) = complete_all(tx, [op])
    return answer


def complete_all(tx: PostgresTransaction, ops: Sequence[CompleteLeases]) -> list[list[bool]]:
    """The same for what several have asked for, about different runs."""
    done = sorted((one for op in ops for one in op.done), key=lambda one: one.run_id)
    values = {
        name: kind([getattr(one, name) for one in done]) for name, kind in _COMPLETION.items()
    }
    passed = {row["id"] for row in tx.rows("complete_leases", now=tx.now, **values)}
    tx.hints.finished.update(passed)
    return [[one.run_id in passed for one in op.done] for op in ops]


def _lease(tx: PostgresTransaction, session_id: str, ids: Sequence[str]) -> list[RunRecord]:
    return _leased(tx, "lease_runs", session_id, ids) if ids else []


def _leased(
    tx: PostgresTransaction, query: str, session_id: str, ids: Sequence[str], **more: object
) -> list[RunRecord]:
    order = {run_id: place for place, run_id in enumerate(ids)}
    found = tx.rows(query, ids=Texts(ids), session_id=session_id, now=tx.now, **CLAIM, **more)
    return sorted(map(run_from, found), key=lambda run: order[run.id])
