"""Gates of a held run: opening them, looking what people have decided, and what time does about
them.

Only a closed gate is an outcome, and it is closed in the store before the program hears of it: by a
decision, by its deadline or by whoever withdraws it. Reminders and escalations are written together
with their events.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from holdfast.core.commands import OpenGate
from holdfast.core.events import Event, EventKind
from holdfast.core.gates import rules as gate_rules
from holdfast.core.gates.answer import failure_of, outcome_of
from holdfast.core.gates.model import EXPIRED, OPEN, WITHDRAWN, Gate, GateAction, hash_of
from holdfast.engine.execution.pending import PendingGate
from holdfast.engine.execution.state import Held
from holdfast.engine.runtime.error_data import error_data
from holdfast.engine.runtime.ids import new_id
from holdfast.store.contract import Advance, ExpireGates, GateChange, GateMove


def open_gate(held: Held, command: OpenGate) -> None:
    """Ask people, or go on waiting for those who were asked before."""
    known = held.progress.gates.pop(command.id, None)
    gate = held.host.store.gate(known) if known is not None else None
    if gate is not None:
        want = PendingGate(command, gate, stored=True)
        held.wants[command.id] = want
        held.knock()  # it may have been decided before anybody looked
        held.due_at(want.until)
        return
    want = PendingGate(command, _new(held, command), stored=False)
    held.wants[command.id] = want
    held.batch.gates.append(want.gate)
    data = {"gate": want.gate.id, "prompt": command.prompt, "until": want.gate.deadline}
    held.batch.events.append(_event(EventKind.GATE_OPENED, want, data))


def note_stored(held: Held, moves: Sequence[GateMove]) -> None:
    """These were written: from now on time may do something about the gates that are new."""
    for move in moves:
        want = held.wants.get(move.step) if isinstance(move, Gate) else None
        if isinstance(want, PendingGate):
            want.stored = True
            held.due_at(want.until)


def _new(held: Held, command: OpenGate) -> Gate:
    now = held.now()
    return Gate(
        id=new_id(),
        run_id=held.run.id,
        step=command.id,
        prompt=command.prompt,
        terms=command.terms,
        assignees=command.assignees,
        roles=command.roles,
        data=command.data,
        hash=hash_of(command.data),
        opened_at=now,
        deadline=None if command.timeout is None else now + command.timeout,
    )


def look(held: Held, want: PendingGate) -> None:
    """See how a gate stands: if it is closed, that is a finding."""
    gate = held.host.store.gate(want.gate.id)
    if gate is None or gate.status == OPEN:
        if (
            gate is not None
            and gate.reminded >= want.gate.reminded
            and gate.escalated >= want.gate.escalated
        ):
            want.gate = gate
        if want.stored:
            held.due_at(want.until)
        return
    want.gate = gate
    # The store closes a gate when it gets round to it; its time was over at the deadline.
    late = gate.status == EXPIRED and gate.deadline is not None
    held.found((gate.deadline if late else gate.closed_at) or 0, partial(_take, held, want, gate))


def _take(held: Held, want: PendingGate, gate: Gate, events: list[Event]) -> None:
    step = want.command.id
    if held.wants.get(step) is want:
        del held.wants[step]
        events.append(_closed(held, want, gate))


def _closed(held: Held, want: PendingGate, gate: Gate) -> Event:
    outcome = outcome_of(gate, held.host.store.gate_entries(gate.id))
    failure = failure_of(gate, outcome)
    return Event(
        EventKind.GATE_CLOSED,
        want.command.id,
        msgspec.json.encode(outcome),
        None if failure is None else error_data(failure),
    )


def tend(held: Held, want: PendingGate, events: list[Event]) -> None:
    """Something is due: people are reminded, others may decide too, or time is over."""
    now = held.now()
    step = gate_rules.next_escalation(want.gate)
    while step is not None and step <= now:
        added = want.gate.terms.escalate[want.gate.escalated]
        want.gate = gate_rules.escalated(want.gate)
        held.batch.gates.append(GateChange(kind=GateAction.ESCALATED, gate_id=want.gate.id))
        told = {"gate": want.gate.id, "assignees": added.assignees, "roles": added.roles}
        events.append(_event(EventKind.GATE_ESCALATED, want, told))
        step = gate_rules.next_escalation(want.gate)
    due = gate_rules.next_reminder(want.gate)
    if due is not None and due <= now:
        want.gate = gate_rules.reminded(want.gate, now)
        held.batch.gates.append(GateChange(kind=GateAction.REMINDED, gate_id=want.gate.id))
        events.append(
            _event(
                EventKind.GATE_REMINDED,
                want,
                {"gate": want.gate.id, "reminder": want.gate.reminded},
            )
        )
    held.due_at(want.until)


async def close_overdue(held: Held, persist: Callable[[ExpireGates], Awaitable[object]]) -> None:
    """Close the gates whose time is over before the program hears of it: a decision may come at the
    very same time."""
    held.gate_is_over = False
    await persist(ExpireGates(held.run.id))
    held.knock()


def withdraw(held: Held, want: PendingGate, reason: str) -> None:
    """Nobody needs this gate any more: close it with the next commit."""
    held.batch.gates.append(
        GateChange(kind=GateAction.WITHDRAWN, gate_id=want.gate.id, reason=reason)
    )
    held.batch.events.append(
        _event(EventKind.GATE_WITHDRAWN, want, {"gate": want.gate.id, "reason": reason})
    )


def withdraw_all(held: Held, op: Advance) -> None:
    """The run ends: close whatever gate of it is still open."""
    left = [want for want in held.wants.values() if isinstance(want, PendingGate)]
    if not left:
        return
    reason = f"the run is {op.status.value if op.status is not None else WITHDRAWN}"
    op.gates = [
        *op.gates,
        *(
            GateChange(kind=GateAction.WITHDRAWN, gate_id=want.gate.id, reason=reason)
            for want in left
        ),
    ]
    op.events.extend(
        _event(EventKind.GATE_WITHDRAWN, want, {"gate": want.gate.id, "reason": reason})
        for want in left
    )


def _event(kind: str, want: PendingGate, data: dict[str, Any]) -> Event:
    return Event(kind, want.command.id, msgspec.json.encode(data))
