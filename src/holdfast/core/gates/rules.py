"""Who may decide, what may be chosen, and when a gate closes. Pure; whoever is refused is told why.

A choice wins when as many people as the quorum says have made it. As soon as no choice but a
rejecting one can still win, which can be known only where all who may decide are named, the gate is
rejected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from holdfast.core.gates import forms
from holdfast.core.gates.model import (
    ANONYMOUS,
    ANYONE,
    APPROVE,
    APPROVED,
    EXCLUDED,
    EXPIRED,
    OPEN,
    PERSON,
    REJECT,
    REJECTED,
    ROLE,
    WITHDRAWN,
    Gate,
    GateAction,
    GateAssignment,
    GateEntry,
    Option,
)
from holdfast.errors import (
    AlreadyDecided,
    GateChanged,
    GateClosed,
    NotYourGate,
    QuorumImpossible,
    UnknownChoice,
    WrongAnswer,
)

_APPROVES = frozenset(
    {"approve", "approved", "yes", "y", "ok", "okay", "accept", "allow", "agree", "go", "true"}
)
_REJECTS = frozenset(
    {"reject", "rejected", "no", "n", "deny", "decline", "refuse", "disagree", "stop", "false"}
)


class GateVerdict(msgspec.Struct):
    """How a gate closes."""

    status: str
    choice: str | None
    reason: str | None = None


class GateDecision(msgspec.Struct, kw_only=True):
    """What somebody has decided, or wants to."""

    choice: str
    by: str | None = None
    roles: tuple[str, ...] = ()
    feedback: str | None = None
    selections: tuple[str, ...] = ()
    value: bytes | None = None
    expect: str | None = None


# What may be chosen


def meaning(option: Option) -> str | None:
    """Say what a choice means: what it says it means, or what its word does."""
    word = option.value.strip().lower()
    return option.means or (APPROVE if word in _APPROVES else REJECT if word in _REJECTS else None)


def rejects(gate: Gate, choice: str | None) -> bool:
    """Say whether a choice rejects."""
    found = next((option for option in gate.terms.options if option.value == choice), None)
    return choice == REJECT if found is None else meaning(found) == REJECT


def understood(gate: Gate, choice: str, selections: Sequence[str]) -> str:
    """Return the choice that is meant: one of the gate's, or what approving or rejecting comes to
    there. Raises UnknownChoice."""
    if choice in gate.choices:
        return choice
    if choice in (APPROVE, REJECT):
        found = _by_verb(gate, choice)
        if found is not None:
            return found
        if choice == REJECT or selections:
            return choice
        raise UnknownChoice(
            gate=gate.id, choice=choice, known=", ".join(gate.choices), why="say which of them"
        )
    raise UnknownChoice(gate=gate.id, choice=choice, known=", ".join(gate.choices))


def _by_verb(gate: Gate, verb: str) -> str | None:
    """Return the one option that means *verb*, or the one that is left when those that mean the
    opposite are left out."""
    means = {option.value: meaning(option) for option in gate.terms.options}
    named = [value for value, mean in means.items() if mean == verb]
    if named:
        return named[0] if len(named) == 1 else None
    opposite = REJECT if verb == APPROVE else APPROVE
    left = [value for value, mean in means.items() if mean != opposite]
    return left[0] if len(left) == 1 and len(means) > 1 else None


def _check_answer(gate: Gate, decision: GateDecision) -> None:
    unknown = [
        one
        for one in decision.selections
        if one not in {option.value for option in gate.terms.options}
    ]
    if unknown:
        known = ", ".join(option.value for option in gate.terms.options) or "there are none"
        raise UnknownChoice(gate=gate.id, selection=unknown[0], known=known)
    if gate.terms.form is None:
        if decision.value is not None:
            raise WrongAnswer(gate=gate.id, why="nothing is to be filled in here")
    elif decision.value is not None:
        wrong = forms.check(gate.terms.form, decision.value)
        if wrong is not None:
            raise WrongAnswer(gate=gate.id, field=wrong.field, why=wrong.why)
    elif not rejects(gate, decision.choice):
        raise WrongAnswer(
            gate=gate.id,
            why="there is a form to be filled in",
            fields=", ".join(forms.fields(gate.terms.form)),
        )


# Who may decide


def votes(entries: Iterable[GateEntry]) -> list[GateEntry]:
    """Return the decisions that count."""
    return [entry for entry in entries if entry.kind == GateAction.DECIDED and not entry.lapsed]


def away(entries: Iterable[GateEntry]) -> set[str]:
    """Return who has given the decision to somebody else, and not been given it back."""
    found: set[str] = set()
    for entry in entries:
        if entry.kind == GateAction.DELEGATED and entry.person is not None:
            found.add(entry.person)
            found -= set(entry.names)
        elif entry.kind == GateAction.REASSIGNED:
            found -= set(entry.names)
    return found


def may_decide(
    gate: Gate, entries: Sequence[GateEntry], person: str | None, roles: Iterable[str]
) -> str:
    """Return the name under which somebody decides. Raises NotYourGate, saying why."""
    terms, free = gate.terms, not gate.assignees and not gate.roles
    if person is None:
        if free and terms.quorum == 1 and not terms.exclude:
            return ANONYMOUS
        raise NotYourGate(gate=gate.id, why="say who decides")
    if person in terms.exclude:
        raise NotYourGate(gate=gate.id, by=person, why="they are excluded from this decision")
    if person in gate.assignees:
        return person
    if person in away(entries):
        raise NotYourGate(
            gate=gate.id, by=person, why="they have given this decision to somebody else"
        )
    if free or set(roles) & set(gate.roles):
        return person
    raise NotYourGate(gate=gate.id, by=person, may=told_who(gate))


def told_who(gate: Gate) -> str:
    """Write who may decide."""
    people, roles = ", ".join(gate.assignees), ", ".join(gate.roles)
    either = " or ".join(
        part for part in (people, f"anybody with the role {roles}" if roles else "") if part
    )
    but = ", ".join(gate.terms.exclude)
    return (either or "anybody") + (f", but not {but}" if but else "")


def people(gate: Gate) -> set[str] | None:
    """Return all who may decide, if they are known by name."""
    return (
        None if gate.roles or not gate.assignees else set(gate.assignees) - set(gate.terms.exclude)
    )


def missing(gate: Gate, entries: Iterable[GateEntry]) -> int:
    """Say how many more people must agree with the strongest choice."""
    counts = Counter(vote.choice for vote in votes(entries))
    return gate.terms.quorum - max(counts.values(), default=0)


def check_quorum(gate: Gate, entries: Iterable[GateEntry] = ()) -> None:
    """Refuse a gate that cannot be decided by those who may. Raises QuorumImpossible."""
    known = people(gate)
    if known is None:
        return
    able = len(known | {str(vote.person) for vote in votes(entries)})
    if able < gate.terms.quorum:
        raise QuorumImpossible(
            option="quorum",
            value=gate.terms.quorum,
            people=able,
            why=f"only {told_who(gate)} may decide",
        )


def seats(gate: Gate, entries: Sequence[GateEntry]) -> list[GateAssignment]:
    """Return in whose inbox the gate is."""
    found = {GateAssignment(PERSON, name) for name in gate.assignees} | {
        GateAssignment(ROLE, name) for name in gate.roles
    }
    out = (set(gate.terms.exclude) | away(entries)) - (
        set(gate.assignees) - set(gate.terms.exclude)
    )
    return sorted(
        (found or {GateAssignment(ANYONE)}) | {GateAssignment(EXCLUDED, name) for name in out}
    )


# Deciding


def decide(
    gate: Gate, entries: Sequence[GateEntry], decision: GateDecision, *, now: int
) -> tuple[GateEntry, GateVerdict | None]:
    """Return the line that a decision adds, and how the gate closes if it does.

    Raises GateClosed, NotYourGate, AlreadyDecided, GateChanged, UnknownChoice or WrongAnswer; then
    nothing is written."""
    refuse_if_closed(gate, entries, now)
    person = may_decide(gate, entries, decision.by, decision.roles)
    before = next((vote for vote in votes(entries) if vote.person == person), None)
    if before is not None:
        raise AlreadyDecided(gate=gate.id, by=person, choice=before.choice, at=before.at)
    if decision.expect is not None and decision.expect != (gate.hash or ""):
        raise GateChanged(
            gate=gate.id, expected=decision.expect or "no data", found=gate.hash or "no data"
        )
    choice = understood(gate, decision.choice, decision.selections)
    _check_answer(gate, msgspec.structs.replace(decision, choice=choice))
    entry = GateEntry(
        kind=GateAction.DECIDED,
        at=now,
        person=person,
        choice=choice,
        feedback=decision.feedback,
        hash=gate.hash,
        selections=_in_order(gate, decision.selections),
        value=None if decision.value is None else msgspec.json.decode(decision.value),
    )
    return entry, verdict(gate, [*entries, entry])


def _in_order(gate: Gate, selections: Iterable[str]) -> tuple[str, ...]:
    wanted = set(selections)
    return tuple(option.value for option in gate.terms.options if option.value in wanted)


def refuse_if_closed(gate: Gate, entries: Iterable[GateEntry], now: int) -> None:
    """Raise GateClosed, with what has happened, unless the gate is open and its time is not
    over."""
    if gate.status == OPEN and (gate.deadline is None or now < gate.deadline):
        return
    if gate.status == OPEN:
        raise GateClosed(gate=gate.id, status=EXPIRED, at=gate.deadline)
    by = [str(vote.person) for vote in votes(entries) if vote.choice == gate.choice]
    if gate.status == WITHDRAWN:
        by = [
            entry.person for entry in entries if entry.kind == GateAction.WITHDRAWN and entry.person
        ]
    told = {
        "choice": gate.choice,
        "by": ", ".join(by) or None,
        "reason": gate.reason,
        "at": gate.closed_at,
    }
    raise GateClosed(
        gate=gate.id,
        status=gate.status,
        **{name: value for name, value in told.items() if value is not None},
    )


def verdict(gate: Gate, entries: Sequence[GateEntry]) -> GateVerdict | None:
    """Say how the gate closes, if it does."""
    counts = Counter(str(vote.choice) for vote in votes(entries))
    for choice, count in counts.items():
        if count >= gate.terms.quorum:
            return GateVerdict(REJECTED if rejects(gate, choice) else APPROVED, choice)
    known = people(gate)
    if known is None:
        return None
    left = len(known - away(entries) - {str(vote.person) for vote in votes(entries)})
    best = max((count for choice, count in counts.items() if not rejects(gate, choice)), default=0)
    if best + left >= gate.terms.quorum:
        return None
    return GateVerdict(
        REJECTED, _by_verb(gate, REJECT) or REJECT, "no other choice can reach the quorum any more"
    )


def expired(gate: Gate) -> GateVerdict:
    """Say how a gate closes whose time is over."""
    chosen = gate.terms.on_timeout if gate.terms.on_timeout in gate.choices else None
    return GateVerdict(EXPIRED, chosen, "its time is over")


def withdrawn(reason: str) -> GateVerdict:
    """Say how a gate closes that nobody needs any more."""
    return GateVerdict(WITHDRAWN, None, reason)


# Time


def next_at(gate: Gate) -> int | None:
    """Return when something is due: a reminder, an escalation, the end."""
    found = [next_reminder(gate), next_escalation(gate), gate.deadline]
    return min((instant for instant in found if instant is not None), default=None)


def next_reminder(gate: Gate) -> int | None:
    """Return when people are to be reminded next. Reminders that nobody was there to give are not
    made up for."""
    last = gate.opened_at if gate.reminded_at is None else gate.reminded_at
    listed = [
        gate.opened_at + after for after in gate.terms.remind if gate.opened_at + after > last
    ]
    if gate.terms.remind_every is not None:
        passed = (last - gate.opened_at) // gate.terms.remind_every
        listed.append(gate.opened_at + (passed + 1) * gate.terms.remind_every)
    return min(listed, default=None)


def next_escalation(gate: Gate) -> int | None:
    """Return when the next others may decide too."""
    left = gate.terms.escalate[gate.escalated :]
    return gate.opened_at + left[0].after if left else None


def reminded(gate: Gate, now: int) -> Gate:
    """Return the gate as it is once people have been reminded."""
    return msgspec.structs.replace(gate, reminded=gate.reminded + 1, reminded_at=now)


def escalated(gate: Gate) -> Gate:
    """Return the gate as it is once the next others may decide too."""
    step = gate.terms.escalate[gate.escalated]
    return msgspec.structs.replace(
        gate,
        escalated=gate.escalated + 1,
        assignees=_added(gate.assignees, step.assignees),
        roles=_added(gate.roles, step.roles),
    )


def delegated(
    gate: Gate,
    entries: Sequence[GateEntry],
    person: str,
    to: str,
    roles: Iterable[str],
    *,
    now: int,
) -> Gate:
    """Return the gate as it is once *to* decides instead of *person*. Raises GateClosed,
    NotYourGate, AlreadyDecided."""
    refuse_if_closed(gate, entries, now)
    may_decide(gate, entries, person, roles)
    for one in (person, to):
        before = next((vote for vote in votes(entries) if vote.person == one), None)
        if before is not None:
            raise AlreadyDecided(gate=gate.id, by=one, choice=before.choice, at=before.at)
    if to in gate.terms.exclude or to in gate.assignees or to == person:
        why = (
            "they are excluded from this decision"
            if to in gate.terms.exclude
            else "they may decide anyway"
        )
        raise NotYourGate(gate=gate.id, by=to, why=why)
    others = tuple(name for name in gate.assignees if name != person)
    free = not gate.assignees and not gate.roles
    return gate if free else msgspec.structs.replace(gate, assignees=_added(others, (to,)))


def _added(names: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*names, *more)))
