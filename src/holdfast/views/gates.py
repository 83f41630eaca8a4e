"""Views of gates and of the actions on them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast.core.gates import rules
from holdfast.core.gates.model import Gate, GateEntry, GateStatus
from holdfast.core.stored_json import decode_stored
from holdfast.views.text import away
from holdfast.views.values import instant, optional_instant


class GateOptionView(msgspec.Struct, kw_only=True):
    """One choice of a gate. ``means`` is "approve", "reject" or None."""

    value: str
    label: str | None
    means: str | None


class GateEntryView(msgspec.Struct, kw_only=True):
    """One action on a gate. A decision has lapsed, and no longer counts, if the data of the gate
    changed after it."""

    kind: str
    at: datetime
    person: str | None
    choice: str | None
    feedback: str | None
    selections: list[str]
    value: Any
    names: list[str]
    roles: list[str]
    reason: str | None
    hash: str | None
    lapsed: bool


class GateView(msgspec.Struct, kw_only=True):
    """A decision asked of people. ``missing`` is the number of decisions that are still needed;
    ``who`` names the people who may decide."""

    id: str
    run: str
    step: str
    status: str
    kind: str
    """The type of a gate of a text workflow; empty for other gates."""
    prompt: str
    options: list[GateOptionView]
    choices: list[str]
    assignees: list[str]
    roles: list[str]
    exclude: list[str]
    who: str
    quorum: int
    missing: int
    data: Any
    hash: str | None
    form: dict[str, Any] | None
    opened_at: datetime
    deadline: datetime | None
    on_timeout: str
    reminded: int
    escalated: int
    closed_at: datetime | None
    choice: str | None
    reason: str | None
    entries: list[GateEntryView]


def of(gate: Gate, entries: Sequence[GateEntry]) -> GateView:
    """Return the view of a gate with all actions on it. Raises RowDamaged."""
    is_open = gate.status == GateStatus.OPEN
    terms = gate.terms
    return GateView(
        id=gate.id,
        run=gate.run_id,
        step=gate.step,
        status=gate.status,
        kind=gate.terms.kind,
        prompt=gate.prompt,
        options=[
            GateOptionView(value=option.value, label=option.label, means=option.means)
            for option in terms.options
        ],
        choices=list(gate.choices),
        assignees=list(gate.assignees),
        roles=list(gate.roles),
        exclude=list(terms.exclude),
        who=rules.describe_deciders(gate),
        quorum=terms.quorum,
        missing=max(rules.missing(gate, entries), 0) if is_open else 0,
        data=None if gate.data is None else decode_stored(gate.data, f"the data of gate {gate.id}"),
        hash=gate.hash,
        form=terms.form,
        opened_at=instant(gate.opened_at),
        deadline=optional_instant(gate.deadline),
        on_timeout=terms.on_timeout,
        reminded=gate.reminded,
        escalated=gate.escalated,
        closed_at=optional_instant(gate.closed_at),
        choice=gate.choice,
        reason=gate.reason,
        entries=[entry_of(entry) for entry in entries],
    )


def entry_of(entry: GateEntry) -> GateEntryView:
    """Return the view of an action on a gate."""
    return GateEntryView(
        kind=entry.kind,
        at=instant(entry.at),
        person=entry.person,
        choice=entry.choice,
        feedback=entry.feedback,
        selections=list(entry.selections),
        value=entry.value,
        names=list(entry.names),
        roles=list(entry.roles),
        reason=entry.reason,
        hash=entry.hash,
        lapsed=entry.lapsed,
    )


def state_line(gate: GateView, now: datetime) -> str:
    """Return the state of a gate as text: open and until when, or how it was closed."""
    if gate.status != GateStatus.OPEN:
        return f"{gate.status}: {gate.choice}" if gate.choice else gate.status
    return "open" if gate.deadline is None else f"open, ends {away(gate.deadline, now)}"


def entry_line(entry: GateEntryView) -> str:
    """Return an action on a gate as one line."""
    parts = [entry.kind]
    if entry.choice:
        parts.append(entry.choice)
    if entry.person:
        parts.append(f"by {entry.person}")
    if entry.names:
        parts.append(f"to {', '.join(entry.names)}")
    comment = entry.feedback or entry.reason
    if comment:
        parts.append(comment)
    if entry.lapsed:
        parts.append("(lapsed)")
    return " ".join(parts)
