"""Apply the operations on gates: the holder of a run opens them, people decide them.

When a gate closes, its run is notified or woken as by a signal.

Lock order: the run, then its gates. Every writer of both uses this order, so that no two
transactions deadlock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.core import typed_json
from holdfast.core.events import Event, EventKind
from holdfast.core.gates import rules as gate_rules
from holdfast.core.gates.model import (
    Gate,
    GateAction,
    GateEntry,
    GateStatus,
    GateTerms,
    entry_detail,
    entry_of,
    hash_of,
)
from holdfast.core.gates.rules import GateVerdict
from holdfast.errors import GateNotFound
from holdfast.store.database import Row, Transaction
from holdfast.store.effects import Commit, applies
from holdfast.store.gates.operations import (
    ChangeGate,
    DecideGate,
    DelegateGate,
    ExpireGates,
    GateChange,
    ReassignGate,
    UpdateGate,
    WithdrawGate,
)
from holdfast.store.history import append_from_outside
from holdfast.store.wakeup import notify_or_wake

_BLOBS = ("assignees", "roles")


# What people do


def decide_gate(tx: Transaction, op: DecideGate) -> Gate:
    """Record a person's decision, and close the gate if the decision completes it."""
    state, gate, entries = _load(tx, op)
    entry, verdict = gate_rules.decide(gate, entries, op.decision, now=tx.now)
    _add(tx, gate, entry)
    return gate if verdict is None else _close(tx, state, gate, verdict)


def delegate_gate(tx: Transaction, op: DelegateGate) -> Gate:
    """Delegate one person's right to decide to another person."""
    _, gate, entries = _load(tx, op)
    changed = gate_rules.delegated(gate, entries, op.by, op.to, op.roles, now=tx.now)
    entry = GateEntry(
        kind=GateAction.DELEGATED, at=tx.now, person=op.by, names=(op.to,), reason=op.reason
    )
    return _save(tx, changed, entries, entry)


def reassign_gate(tx: Transaction, op: ReassignGate) -> Gate:
    """Replace the people and roles that may decide."""
    _, gate, entries = _load(tx, op)
    gate_rules.refuse_if_closed(gate, entries, tx.now)
    changed = msgspec.structs.replace(gate, assignees=op.assignees, roles=op.roles)
    gate_rules.check_quorum(changed, entries)
    entry = GateEntry(
        kind=GateAction.REASSIGNED,
        at=tx.now,
        person=op.by,
        names=op.assignees,
        roles=op.roles,
        reason=op.reason,
    )
    return _save(tx, changed, entries, entry)


def update_gate(tx: Transaction, op: UpdateGate) -> Gate:
    """Replace the data to decide on. Earlier decisions lapse: those people must decide again."""
    _, gate, entries = _load(tx, op)
    gate_rules.refuse_if_closed(gate, entries, tx.now)
    content_hash = hash_of(op.data)
    if content_hash == gate.hash:
        return gate
    # Decisions on other data must not count towards the quorum.
    tx.change("lapse_decisions", gate_id=gate.id)
    entry = GateEntry(
        kind=GateAction.UPDATED, at=tx.now, person=op.by, reason=op.reason, hash=content_hash
    )
    return _save(tx, msgspec.structs.replace(gate, data=op.data, hash=content_hash), entries, entry)


def withdraw_gate(tx: Transaction, op: WithdrawGate) -> Gate:
    """Close a gate without a decision, and notify its workflow."""
    state, gate, entries = _load(tx, op)
    if gate.status != GateStatus.OPEN:
        gate_rules.refuse_if_closed(gate, entries, tx.now)
    _add(tx, gate, GateEntry(kind=GateAction.WITHDRAWN, at=tx.now, person=op.by, reason=op.reason))
    return _close(tx, state, gate, gate_rules.withdrawal(op.reason or "by request"))


def _load(tx: Transaction, op: Any) -> tuple[Row, Gate, list[GateEntry]]:
    """Return the run (locked), its gate, and the entries of the gate. Raises GateNotFound."""
    # The run first: it is locked, so that the gate cannot change until the commit.
    state = tx.rows("load_state", run_id=op.run_id)
    gate_rows = tx.rows("gate", gate_id=op.gate_id)
    if not state or not gate_rows or gate_rows[0]["run_id"] != op.run_id:
        raise GateNotFound(gate=op.gate_id)
    return (
        state[0],
        gate_from(gate_rows[0]),
        [entry_of(row) for row in tx.rows("gate_entries", gate_id=op.gate_id)],
    )


def _save(tx: Transaction, gate: Gate, entries: Sequence[GateEntry], entry: GateEntry) -> Gate:
    """Update a gate that stays open, and add the entry that changed it."""
    tx.change("save_gate", **{name: values(gate)[name] for name in _CHANGING})
    _add(tx, gate, entry)
    _save_assignments(tx, gate, [*entries, entry])
    return gate


_CHANGING = ("id", "assignees", "roles", "data", "hash", "reminded", "reminded_at", "escalated")


def _add(tx: Transaction, gate: Gate, entry: GateEntry) -> None:
    tx.change(
        "insert_gate_entry",
        gate_id=gate.id,
        run_id=gate.run_id,
        kind=entry.kind,
        person=entry.person,
        at=entry.at,
        detail=entry_detail(entry),
    )


def _save_assignments(tx: Transaction, gate: Gate, entries: Sequence[GateEntry]) -> None:
    # Replaced as a whole: they are few, and the list of open gates of a person is read from them.
    tx.change("delete_assignments", gate_id=gate.id)
    rows: list[dict[str, object]] = [
        {
            "kind": assignment.kind,
            "name": assignment.name,
            "gate_id": gate.id,
            "run_id": gate.run_id,
        }
        for assignment in gate_rules.assignments(gate, entries)
    ]
    tx.many("insert_assignment", rows)


def _close(tx: Transaction, state: Row, gate: Gate, verdict: GateVerdict) -> Gate:
    _close_row(tx, gate.id, verdict)
    notify_or_wake(tx, state)
    return msgspec.structs.replace(
        gate, status=verdict.status, closed_at=tx.now, choice=verdict.choice, reason=verdict.reason
    )


def _close_row(tx: Transaction, gate_id: str, verdict: GateVerdict) -> int:
    written = tx.change(
        "close_gate",
        gate_id=gate_id,
        status=verdict.status,
        choice=verdict.choice,
        reason=verdict.reason,
        now=tx.now,
    )
    # A closed gate is in the inbox of no one.
    tx.change("delete_assignments", gate_id=gate_id)
    return written


# What time does


def expire_gates(tx: Transaction, op: ExpireGates) -> int:
    """Close the gates of a run whose deadline has passed. Return how many."""
    # The run first, as everywhere: it is locked, so that no decision comes in between.
    state = tx.rows("load_state", run_id=op.run_id)
    overdue = [
        row["id"] for row in tx.rows("open_gates", run_id=op.run_id) if _is_over(row, tx.now)
    ]
    for gate_id in overdue:
        gate = gate_from(tx.rows("gate", gate_id=gate_id)[0])
        _add(tx, gate, GateEntry(kind=GateAction.EXPIRED, at=tx.now))
        _close_row(tx, gate_id, gate_rules.expired(gate))
    # Once for all gates, because the run is one row.
    if overdue:
        notify_or_wake(tx, state[0])
    return len(overdue)


def _is_over(row: Row, now: int) -> bool:
    return row["deadline"] is not None and row["deadline"] <= now


# What the holder of a run does


@applies(ChangeGate)
def change_gates(tx: Transaction, commit: Commit, effects: Sequence[ChangeGate]) -> None:
    """Open, withdraw and change gates, as part of the commit of the run's holder."""
    for effect in effects:
        move = effect.change
        if isinstance(move, Gate):
            tx.change(
                "insert_gate",
                **{name: value for name, value in values(move).items() if name in _OPENING},
            )
            _save_assignments(tx, move, [])
        elif move.kind == GateAction.WITHDRAWN:
            _withdraw(tx, move.gate_id, move.reason)
        else:
            _change(tx, move)


_OPENING = (
    "id",
    "run_id",
    "step",
    "status",
    "prompt",
    "terms",
    "assignees",
    "roles",
    "data",
    "hash",
    "opened_at",
    "deadline",
)


def _change(tx: Transaction, move: GateChange) -> None:
    gate_rows = tx.rows("gate", gate_id=move.gate_id)
    if not gate_rows or gate_rows[0]["closed_at"] is not None:
        return
    gate = gate_from(gate_rows[0])
    entries = [entry_of(row) for row in tx.rows("gate_entries", gate_id=gate.id)]
    if move.kind == GateAction.REMINDED:
        _save(
            tx,
            gate_rules.reminded(gate, tx.now),
            entries,
            GateEntry(kind=GateAction.REMINDED, at=tx.now),
        )
    elif move.kind == GateAction.ESCALATED and gate.escalated < len(gate.terms.escalate):
        step = gate.terms.escalate[gate.escalated]
        _save(
            tx,
            gate_rules.escalated(gate),
            entries,
            GateEntry(kind=GateAction.ESCALATED, at=tx.now, names=step.assignees, roles=step.roles),
        )


def _withdraw(tx: Transaction, gate_id: str, reason: str) -> None:
    gate_rows = tx.rows("gate", gate_id=gate_id)
    if gate_rows and gate_rows[0]["closed_at"] is None:
        _add(
            tx,
            gate_from(gate_rows[0]),
            GateEntry(kind=GateAction.WITHDRAWN, at=tx.now, reason=reason),
        )
        _close_row(tx, gate_id, gate_rules.withdrawal(reason))


def withdraw_all(tx: Transaction, run_id: str, reason: str, seq: int) -> int:
    """Close all open gates of a run that ends without its holder, and record it in the history.

    The events are numbered from *seq* on. Return the next free number.
    """
    for row in tx.rows("open_gates", run_id=run_id):
        _withdraw(tx, row["id"], reason)
        data = msgspec.json.encode({"gate": row["id"], "reason": reason})
        append_from_outside(
            tx, [(run_id, Event(EventKind.GATE_WITHDRAWN, row["step"], data, seq=seq))]
        )
        seq += 1
    return seq


# Rows


def gate_from(row: Row) -> Gate:
    """Return the gate of a row."""
    columns = dict(row)
    columns["terms"] = typed_json.decode(bytes(columns["terms"]), GateTerms)
    for name in _BLOBS:
        columns[name] = typed_json.decode(bytes(columns[name]), tuple[str, ...])
    columns["data"] = None if columns["data"] is None else bytes(columns["data"])
    return Gate(**columns)


def values(gate: Gate) -> dict[str, object]:
    """Return the columns of a gate, its structured fields encoded as JSON."""
    columns = {name: getattr(gate, name) for name in Gate.__struct_fields__}
    return columns | {name: msgspec.json.encode(getattr(gate, name)) for name in ("terms", *_BLOBS)}
