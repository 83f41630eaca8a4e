"""Stopping runs from outside: cancelled by somebody, or past their deadline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.core import claims
from holdfast.core.records import Event, Kind
from holdfast.core.status import Move, Status, after
from holdfast.errors import RowDamaged, RunFinished
from holdfast.store import contract as c
from holdfast.store.transitions.budgets import settle_run
from holdfast.store.transitions.damage import set_aside
from holdfast.store.transitions.gates import withdraw_all
from holdfast.store.transitions.touching import free_schedule, knock, tell_graph, tell_parent
from holdfast.store.transitions.transaction import Row, Transaction, append_each, append_from_outside, last_seq, last_seqs, load

DEADLINE = "deadline"


def request_cancel(tx: Transaction, op: c.RequestCancel) -> Status:
    """Ask a run to stop, and its children; end it at once when nothing of it was ever done, or when forced."""
    state = load(tx, op.run_id)
    if state["finished_at"] is not None:
        raise RunFinished(run=op.run_id, status=state["status"])
    status = _stop(tx, state, op.reason, force=op.force)
    cancel_children(tx, op.run_id, op.reason)
    return status


def cancel_children(tx: Transaction, run_id: str, reason: str, *, at: int | None = None) -> None:
    """Ask all below a run to stop, but those that were started to outlive their parent. *at* is the instant of the request."""
    parents = [run_id]
    while parents:
        for child in tx.rows("live_children", run_id=parents.pop()):
            state = _sound(tx, child["id"])
            if state is not None:
                _stop(tx, state, reason, at=at)
            parents.append(child["id"])


def expire_runs(tx: Transaction, op: c.ExpireRuns) -> int:
    """End what is past its deadline: at once if it never ran, else through its own undoing. A damaged run stays, and is stuck."""
    rows, damaged = tx.sifted("overdue", now=tx.now, limit=op.limit)
    set_aside(tx, c.SetAside(damaged))
    overdue = [(state, row["deadline"]) for row in rows if (state := _sound(tx, row["id"])) is not None]
    for state, deadline in overdue:
        if state["started_at"] is None or state["status"] == Status.STUCK:
            _end(tx, state, Move.EXPIRE, Kind.RUN_EXPIRED, DEADLINE)
        else:
            _ask_to_stop(tx, state, DEADLINE, at=deadline)
        cancel_children(tx, state["id"], DEADLINE, at=deadline)
    return len(overdue)


def _sound(tx: Transaction, run_id: str) -> Row | None:
    """Return the state of a run. One whose row is damaged is set aside, and None is returned: it must not hold up the others,
    and one that is aside already would be met again by every try."""
    try:
        return load(tx, run_id)
    except RowDamaged as damage:
        set_aside(tx, c.SetAside([damage]))
        return None


def _stop(tx: Transaction, state: Row, reason: str, *, force: bool = False, at: int | None = None) -> Status:
    if force or (state["started_at"] is None and state["session_id"] is None):
        if reason == DEADLINE:  # that of a parent is its children's, too
            return _end(tx, state, Move.EXPIRE, Kind.RUN_EXPIRED, reason)
        return _end(tx, state, Move.END_CANCELLED, Kind.RUN_CANCELLED, reason)
    return _ask_to_stop(tx, state, reason, at=at)


def _ask_to_stop(tx: Transaction, state: Row, reason: str, *, at: int | None = None) -> Status:
    status = after(Status(state["status"]), Move.CANCEL)
    if state["status"] == status:
        return status  # it was asked before, and the first reason stands
    tx.change("save_cancel", **_cancel_row(tx, state, reason, at))
    if state["session_id"] is not None:
        knock(tx, state["session_id"], state["id"])
    else:
        tx.hints.ready = True
    return status


def _end(tx: Transaction, state: Row, move: Move, kind: str, reason: str) -> Status:
    """End a run without its program: nothing ran, nobody holds it, or somebody insists."""
    status = after(Status(state["status"]), move)
    error = msgspec.json.encode({"type": status.value, "message": reason})
    seq = last_seq(tx, state["id"]) + 1
    if state["started_at"] is not None:  # what never ran has opened nothing
        seq = withdraw_all(tx, state["id"], f"the run is {status.value}: {reason}", seq)
    append_from_outside(tx, [(state["id"], Event(kind=kind, seq=seq, error=error))])
    tx.change("end_run", run_id=state["id"], status=status, error=error, now=tx.now, reason=reason)
    tx.change("close_streams", run_id=state["id"], now=tx.now, reason=status.value, least=0)
    tx.hints.finished.add(state["id"])
    settle_run(tx, state["id"])
    free_schedule(tx, state["id"])
    if state["session_id"] is not None:
        knock(tx, state["session_id"], state["id"])
    if state["parent_id"] is not None:
        tell_parent(tx, (state["parent_id"], state["parent_step"], state["parent_index"]), completed=False)
    tell_graph(tx, state["id"], status=status)
    return status


def stop_runs(tx: Transaction, reasons: Mapping[str, str]) -> None:
    """Ask many runs to stop, each for its reason, and all below them. None of them is a child."""
    states = [state for state in tx.rows("states_by_id", ids=tx.as_list(sorted(reasons))) if state["finished_at"] is None]
    fresh = [state for state in states if state["started_at"] is None and state["session_id"] is None]
    if fresh:
        _end_unbegun(tx, fresh, reasons)
    begun = [state for state in states if state["started_at"] is not None or state["session_id"] is not None]
    asked = [state for state in begun if after(Status(state["status"]), Move.CANCEL) != state["status"]]
    tx.many("save_cancel", [_cancel_row(tx, state, reasons[state["id"]]) for state in asked])
    held = [state for state in asked if state["session_id"] is not None]
    tx.many("insert_knock", [{"session_id": state["session_id"], "run_id": state["id"]} for state in held])
    tx.hints.runs.update(state["id"] for state in held)
    tx.hints.ready |= len(held) < len(asked)
    for child in tx.rows("live_children_of", ids=tx.as_list([state["id"] for state in begun])) if begun else []:
        request_cancel(tx, c.RequestCancel(child["id"], "its parent was asked to stop"))


def _end_unbegun(tx: Transaction, states: Sequence[Row], reasons: Mapping[str, str]) -> None:
    """End runs that never began: they have opened nothing, and nothing is to be undone."""
    status, lines = Status.CANCELLED, []
    rows: list[dict[str, object]] = []
    seqs = last_seqs(tx, [state["id"] for state in states])
    for state in states:
        reason = reasons[state["id"]]
        error = msgspec.json.encode({"type": after(Status(state["status"]), Move.END_CANCELLED).value, "message": reason})
        lines.append((state["id"], Event(kind=Kind.RUN_CANCELLED, seq=seqs[state["id"]] + 1, error=error)))
        rows.append({"run_id": state["id"], "status": status, "error": error, "now": tx.now, "reason": reason})
        tx.hints.finished.add(state["id"])
    append_each(tx, lines)
    tx.many("end_run", rows)
    tell_graph(tx, *(state["id"] for state in states), status=status)


def _cancel_row(tx: Transaction, state: Row, reason: str, at: int | None = None) -> dict[str, object]:
    held = state["session_id"] is not None
    return {
        "run_id": state["id"], "status": after(Status(state["status"]), Move.CANCEL), "reason": reason,
        "at": tx.now if at is None else at, "rank": None if held else claims.rank(tx.now, state["priority"]),
        "wake_at": state["wake_at"] if held else None, "waits": state["waits"] if held else None,
    }  # fmt: skip
