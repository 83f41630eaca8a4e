"""Gates: opening them, reading what people have decided, reminders and escalations.

Only a closed gate is an outcome, and it is closed in the store before the program is fed: by a
decision, by its deadline, or by a withdrawal. A decision may come at the very instant of the
deadline; the store decides which of them wins. Reminders and escalations are written together with
their events.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from holdfast.core import duration
from holdfast.core.commands import OpenGate
from holdfast.core.events import Event, EventKind
from holdfast.core.gates import rules as gate_rules
from holdfast.core.gates.answer import failure_of, outcome_of
from holdfast.core.gates.model import Gate, GateAction, GateStatus, GateTerms, hash_of
from holdfast.core.waits import WaitKind
from holdfast.engine.execution.findings import TIME
from holdfast.engine.execution.pending.base import Execution, Handler, Pending
from holdfast.engine.runtime.error_data import error_data
from holdfast.engine.runtime.ids import new_id
from holdfast.store.gates.operations import ChangeGate, GateChange
from holdfast.store.runs.operations import Advance

_UNAWAITED = "the run no longer waits for it"


class PendingGate(Pending):
    """A wait for people to decide.

    ``gate`` is the gate as this execution knows it; people may have changed it since. Time does not
    act on a gate that is not stored yet.
    """

    __slots__ = ("gate", "is_stored")

    is_listed_whole = False

    def __init__(self, command: OpenGate, gate: Gate, *, is_stored: bool) -> None:
        self.command: OpenGate = command
        self.gate: Gate = gate
        self.is_stored: bool = is_stored

    @property
    def due_at(self) -> int | None:
        if self.gate.status != GateStatus.OPEN:
            return None
        return gate_rules.next_at(self.gate)

    def as_wait(self) -> dict[str, Any]:
        gate = self.gate
        return {
            "kind": WaitKind.GATE,
            "step": self.command.id,
            "name": gate.prompt,
            "gate": gate.id,
            "until": self.due_at,
            "deadline": gate.deadline,
        }

    def on_time(self, run: Execution, now: int) -> None:
        if not self.is_stored:
            return
        deadline = self.gate.deadline
        if self.gate.status == GateStatus.OPEN and deadline is not None and deadline <= now:
            run.mailbox.gate_is_overdue = True  # only the store can close it
        else:
            run.mailbox.add_finding(self.due_at or 0, partial(self._tend, run), TIME)

    def _tend(self, run: Execution, events: list[Event]) -> None:
        """Remind people, or let others decide too, if that is due."""
        if not run.pending.has(self):
            return
        now = run.state.now()
        instant = gate_rules.next_escalation(self.gate)
        while instant is not None and instant <= now:
            added = self.gate.terms.escalate[self.gate.escalated]
            self.gate = gate_rules.escalated(self.gate)
            self._change(run, GateAction.ESCALATED)
            people = {"assignees": added.assignees, "roles": added.roles}
            data = {"gate": self.gate.id, **people}
            events.append(self._event(EventKind.GATE_ESCALATED, data))
            instant = gate_rules.next_escalation(self.gate)
        instant = gate_rules.next_reminder(self.gate)
        if instant is not None and instant <= now:
            self.gate = gate_rules.reminded(self.gate, now)
            self._change(run, GateAction.REMINDED)
            number = {"gate": self.gate.id, "reminder": self.gate.reminded}
            events.append(self._event(EventKind.GATE_REMINDED, number))
        run.pending.schedule(self, run.mailbox)

    def found(self, run: Execution, gate: Gate) -> None:
        """Report that the gate is closed."""
        self.gate = gate
        # The store closes an overdue gate late; its time was over at the deadline.
        instant = gate.closed_at
        if gate.status == GateStatus.EXPIRED and gate.deadline is not None:
            instant = gate.deadline
        run.mailbox.add_finding(instant or 0, partial(self._take, run, gate))

    def _take(self, run: Execution, gate: Gate, events: list[Event]) -> None:
        if not run.pending.take(self):
            return
        outcome = outcome_of(gate, run.context.store.gates.entries(gate.id))
        failure = failure_of(gate, outcome)
        closed = Event(EventKind.GATE_CLOSED, self.command.id, msgspec.json.encode(outcome))
        if failure is not None:
            closed.error = error_data(failure)
        events.append(closed)

    def on_drop(self, run: Execution) -> None:
        self._change(run, GateAction.WITHDRAWN, _UNAWAITED)
        run.commit.events.append(self.withdrawal(_UNAWAITED))

    def withdrawal(self, reason: str) -> Event:
        """Return the event of its withdrawal."""
        return self._event(EventKind.GATE_WITHDRAWN, {"gate": self.gate.id, "reason": reason})

    def _change(self, run: Execution, action: str, reason: str = "") -> None:
        change = GateChange(kind=action, gate_id=self.gate.id, reason=reason)
        run.commit.add(ChangeGate(change))

    def _event(self, kind: str, data: dict[str, Any]) -> Event:
        return Event(kind, self.command.id, msgspec.json.encode(data))


def _open_gate(run: Execution, command: OpenGate) -> None:
    """Open the gate, or continue to wait for one that was opened before."""
    gate = _known_gate(run, command.id)
    if gate is not None:
        pending = PendingGate(command, gate, is_stored=True)
        run.pending.add(pending)
        if gate.status != GateStatus.OPEN:
            pending.found(run, gate)  # it was decided before this execution began
        else:
            run.pending.schedule(pending, run.mailbox)
        return
    pending = PendingGate(command, _new_gate(run, command), is_stored=False)
    run.pending.add(pending)
    run.commit.add(ChangeGate(pending.gate))
    data = {"gate": pending.gate.id, "prompt": command.prompt, "until": pending.gate.deadline}
    run.commit.events.append(Event(EventKind.GATE_OPENED, command.id, msgspec.json.encode(data)))


def _known_gate(run: Execution, step: str) -> Gate | None:
    """Return the gate that an earlier holder has opened for a step. The first time, all gates that
    the history knows are read together."""
    state = run.state
    known = state.progress.gates.get(step)
    if known is None:
        return None
    if state.known_gates is None:
        state.known_gates = run.context.store.gates.of_ids(state.progress.gates.values())
    del state.progress.gates[step]
    return state.known_gates.pop(known, None)


def find_closed_gates(run: Execution, revision: int) -> None:
    """Find the gates that were closed since the last time; *revision* is that of the run now.

    The revision of a run grows with each gate that closes, and the gate has it: so the gates that
    are still open cost nothing.
    """
    state = run.state
    closed = run.context.store.gates.closed_since(state.run.id, state.gates_revision)
    state.gates_revision = revision
    for gate in closed:
        pending = run.pending.get(gate.step)
        if isinstance(pending, PendingGate) and pending.gate.id == gate.id:
            pending.found(run, gate)


def _new_gate(run: Execution, command: OpenGate) -> Gate:
    now = run.state.now()
    return Gate(
        id=new_id(),
        run_id=run.state.run.id,
        step=command.id,
        prompt=command.prompt,
        terms=_terms(command, now),
        assignees=command.assignees,
        roles=command.roles,
        data=command.data,
        hash=hash_of(command.data),
        opened_at=now,
        deadline=duration.after(now, command.timeout),
    )


def _terms(command: OpenGate, now: int) -> GateTerms:
    """Return the terms of a new gate; its due date is one more reminder."""
    if command.due_at is None:
        return command.terms
    remind = (*command.terms.remind, max(command.due_at - now, 1))
    return msgspec.structs.replace(command.terms, remind=remind)


def note_stored(run: Execution, effects: Sequence[ChangeGate]) -> None:
    """Let time act on the gates that the last commit has stored."""
    for effect in effects:
        gate = effect.change
        if not isinstance(gate, Gate):
            continue
        pending = run.pending.get(gate.step)
        if isinstance(pending, PendingGate):
            pending.is_stored = True
            run.pending.schedule(pending, run.mailbox)


def withdraw_all(run: Execution, op: Advance) -> None:
    """Close the gates that are still open when the run ends."""
    gates = run.pending.of(PendingGate)
    if not gates:
        return
    reason = f"the run is {op.status or GateStatus.WITHDRAWN}"
    changes = [
        ChangeGate(GateChange(kind=GateAction.WITHDRAWN, gate_id=pending.gate.id, reason=reason))
        for pending in gates
    ]
    op.effects = [*op.effects, *changes]
    op.events.extend(pending.withdrawal(reason) for pending in gates)


HANDLERS: dict[type, Handler] = {OpenGate: _open_gate}
