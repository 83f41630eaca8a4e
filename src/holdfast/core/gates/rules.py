"""Rules of gates: who may decide, which choices exist, when a gate closes, reminders. Pure.

Invariants:
- A choice wins when as many people as the quorum says have made it.
- A gate is rejected as soon as only a rejecting choice can still win. This is known only if all
  people who may decide are named.
- Every refusal raises an error that states its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from holdfast.core.gates import forms
from holdfast.core.gates.model import (
    ANONYMOUS,
    ANY_FORM,
    ANYONE,
    APPROVE,
    EXCLUDED,
    PERSON,
    REJECT,
    RESOLVER,
    ROLE,
    Gate,
    GateAction,
    GateAssignment,
    GateEntry,
    GateStatus,
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
"""The values of options that mean a rejection, or above an approval, without saying so."""


class GateVerdict(msgspec.Struct):
    """The status, the choice and the reason with which a gate closes."""

    status: str
    choice: str | None
    reason: str | None = None


class GateDecision(msgspec.Struct, kw_only=True):
    """The decision that a person submits. ``roles`` are the roles of the person, ``expect`` is the
    hash of the data that the person has seen."""

    choice: str
    by: str | None = None
    roles: tuple[str, ...] = ()
    feedback: str | None = None
    selections: tuple[str, ...] = ()
    value: bytes | None = None
    expect: str | None = None
    is_final: bool = False
    """Whether it closes the gate regardless of the quorum: the answer of a resolver, which no
    request can make."""


# Choices


def meaning(option: Option) -> str | None:
    """Return what an option means: its ``means``, or else the meaning of its word."""
    if option.means:
        return option.means
    word = option.value.strip().lower()
    if word in _APPROVES:
        return APPROVE
    if word in _REJECTS:
        return REJECT
    return None


def rejects(gate: Gate, choice: str | None) -> bool:
    """Return whether a choice means a rejection."""
    chosen = next((option for option in gate.terms.options if option.value == choice), None)
    if chosen is None:
        return choice == REJECT
    return meaning(chosen) == REJECT


def understood(gate: Gate, choice: str, selections: Sequence[str]) -> str:
    """Return the choice of the gate that *choice* stands for. "approve" and "reject" stand for the
    only option with that meaning. A rejection, and an approval with selections, need no option.
    Raises UnknownChoice."""
    if gate.terms.least == 0 and choice in (APPROVE, REJECT):
        return choice
    if choice in gate.choices:
        return choice
    if choice in (APPROVE, REJECT):
        value = _option_meaning(gate, choice)
        if value is not None:
            return value
        if choice == REJECT or selections:
            return choice
        raise UnknownChoice(
            gate=gate.id, choice=choice, known=", ".join(gate.choices), why="say which of them"
        )
    raise UnknownChoice(gate=gate.id, choice=choice, known=", ".join(gate.choices))


def _option_meaning(gate: Gate, verb: str) -> str | None:
    """Return the only option that means *verb*, or else the only one that does not mean the
    opposite. None if there is no such option, or more than one."""
    means = {option.value: meaning(option) for option in gate.terms.options}
    same = [value for value, mean in means.items() if mean == verb]
    if same:
        if len(same) != 1:
            return None
        return same[0]
    opposite = REJECT if verb == APPROVE else APPROVE
    others = [value for value, mean in means.items() if mean != opposite]
    if len(others) == 1 and len(means) > 1:
        return others[0]
    return None


def _check_answer(gate: Gate, decision: GateDecision) -> None:
    """Raise UnknownChoice for an unknown selection, WrongAnswer for a form that does not fit. A
    rejection needs no form."""
    options = [option.value for option in gate.terms.options]
    unknown = [selection for selection in decision.selections if selection not in options]
    if unknown:
        known = ", ".join(options) or "there are none"
        raise UnknownChoice(gate=gate.id, selection=unknown[0], known=known)
    if gate.terms.form is None:
        if decision.value is not None:
            raise WrongAnswer(gate=gate.id, why="this gate has no form: leave out the value")
    elif decision.value is not None:
        errors = forms.check_all(gate.terms.form, decision.value)
        if len(errors) == 1:
            raise WrongAnswer(gate=gate.id, field=errors[0].field, why=errors[0].why)
        if errors:
            raise WrongAnswer(
                gate=gate.id,
                fields=", ".join(error.field for error in errors),
                why="; ".join(f"{error.field}: {error.why}" for error in errors),
            )
    elif not rejects(gate, decision.choice) and gate.terms.form != ANY_FORM:
        raise WrongAnswer(
            gate=gate.id,
            why="this gate has a form: fill it in",
            fields=", ".join(forms.fields(gate.terms.form)),
        )


# Who may decide


def votes(entries: Iterable[GateEntry]) -> list[GateEntry]:
    """Return the decisions that count: the ones that have not lapsed."""
    return [entry for entry in entries if entry.kind == GateAction.DECIDED and not entry.lapsed]


def away(entries: Iterable[GateEntry]) -> set[str]:
    """Return the people who have delegated the decision and have not received it back."""
    delegators: set[str] = set()
    for entry in entries:
        if entry.kind == GateAction.DELEGATED and entry.person is not None:
            delegators.add(entry.person)
            delegators -= set(entry.names)
        elif entry.kind == GateAction.REASSIGNED:
            delegators -= set(entry.names)
    return delegators


def may_decide(
    gate: Gate, entries: Sequence[GateEntry], person: str | None, roles: Iterable[str]
) -> str:
    """Return the name under which a person decides. Raises NotYourGate with the reason."""
    terms = gate.terms
    anyone_may = not gate.assignees and not gate.roles
    if person is None:
        if anyone_may and terms.quorum == 1 and not terms.exclude:
            return ANONYMOUS
        raise NotYourGate(gate=gate.id, why="say who decides")
    if person in terms.exclude:
        raise NotYourGate(gate=gate.id, by=person, why="they are excluded from this decision")
    if person in gate.assignees:
        return person
    if person in away(entries):
        raise NotYourGate(
            gate=gate.id, by=person, why="they have given this decision to another person"
        )
    if anyone_may or set(roles) & set(gate.roles):
        return person
    raise NotYourGate(gate=gate.id, by=person, may=describe_deciders(gate))


def describe_deciders(gate: Gate) -> str:
    """Return who may decide, as text for people."""
    parts = []
    if gate.assignees:
        parts.append(", ".join(gate.assignees))
    if gate.roles:
        parts.append(f"anybody with the role {', '.join(gate.roles)}")
    text = " or ".join(parts) or "anybody"
    if gate.terms.exclude:
        text += f", but not {', '.join(gate.terms.exclude)}"
    return text


def people(gate: Gate) -> set[str] | None:
    """Return all people who may decide; None if not all of them are known by name."""
    if gate.roles or not gate.assignees:
        return None
    return set(gate.assignees) - set(gate.terms.exclude)


def missing(gate: Gate, entries: Iterable[GateEntry]) -> int:
    """Return how many more people must agree with the leading choice."""
    counts = Counter(vote.choice for vote in votes(entries))
    return gate.terms.quorum - max(counts.values(), default=0)


def check_quorum(gate: Gate, entries: Iterable[GateEntry] = ()) -> None:
    """Raise QuorumImpossible if fewer people may decide, or have decided, than the quorum needs."""
    known = people(gate)
    if known is None:
        return
    able = len(known | {str(vote.person) for vote in votes(entries)})
    if able < gate.terms.quorum:
        raise QuorumImpossible(
            option="quorum",
            value=gate.terms.quorum,
            people=able,
            why=f"only {describe_deciders(gate)} may decide",
        )


def assignments(gate: Gate, entries: Sequence[GateEntry]) -> list[GateAssignment]:
    """Return the inboxes in which the gate appears, and the people who are left out, sorted.

    Excluded people are left out, and so are people who have delegated the decision, unless they
    are assignees again."""
    included = {GateAssignment(PERSON, name) for name in gate.assignees} | {
        GateAssignment(ROLE, name) for name in gate.roles
    }
    left_out = (set(gate.terms.exclude) | away(entries)) - (
        set(gate.assignees) - set(gate.terms.exclude)
    )
    excluded = {GateAssignment(EXCLUDED, name) for name in left_out}
    resolvers = {GateAssignment(RESOLVER, gate.terms.kind)} if gate.terms.kind else set()
    return sorted((included or {GateAssignment(ANYONE)}) | excluded | resolvers)


# Deciding


def decide(
    gate: Gate, entries: Sequence[GateEntry], decision: GateDecision, *, now: int
) -> tuple[GateEntry, GateVerdict | None]:
    """Return the entry that a decision adds, and the verdict if the gate closes with it.

    Raises GateClosed, NotYourGate, AlreadyDecided, GateChanged, UnknownChoice or WrongAnswer; then
    nothing is to be written."""
    refuse_if_closed(gate, entries, now)
    person = decision.by or ""
    if not decision.is_final:
        person = may_decide(gate, entries, decision.by, decision.roles)
    _refuse_second_vote(gate, entries, person)
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
    if decision.is_final:
        status = GateStatus.REJECTED if rejects(gate, choice) else GateStatus.APPROVED
        return entry, GateVerdict(status, choice)
    return entry, verdict(gate, [*entries, entry])


def _in_order(gate: Gate, selections: Iterable[str]) -> tuple[str, ...]:
    wanted = set(selections)
    return tuple(option.value for option in gate.terms.options if option.value in wanted)


def refuse_if_closed(gate: Gate, entries: Iterable[GateEntry], now: int) -> None:
    """Raise GateClosed, with the outcome of the gate, unless it is open and before its deadline."""
    if gate.status == GateStatus.OPEN and (gate.deadline is None or now < gate.deadline):
        return
    if gate.status == GateStatus.OPEN:
        raise GateClosed(gate=gate.id, status=GateStatus.EXPIRED.value, at=gate.deadline)
    by = [str(vote.person) for vote in votes(entries) if vote.choice == gate.choice]
    if gate.status == GateStatus.WITHDRAWN:
        by = [
            entry.person for entry in entries if entry.kind == GateAction.WITHDRAWN and entry.person
        ]
    facts = {
        "choice": gate.choice,
        "by": ", ".join(by) or None,
        "reason": gate.reason,
        "at": gate.closed_at,
    }
    raise GateClosed(
        gate=gate.id,
        status=gate.status,
        **{name: value for name, value in facts.items() if value is not None},
    )


def verdict(gate: Gate, entries: Sequence[GateEntry]) -> GateVerdict | None:
    """Return the verdict of a gate by its votes; None if it stays open."""
    counts = Counter(str(vote.choice) for vote in votes(entries))
    for choice, count in counts.items():
        if count >= gate.terms.quorum:
            return GateVerdict(
                GateStatus.REJECTED if rejects(gate, choice) else GateStatus.APPROVED, choice
            )
    known = people(gate)
    if known is None:
        return None
    left = len(known - away(entries) - {str(vote.person) for vote in votes(entries)})
    best = max((count for choice, count in counts.items() if not rejects(gate, choice)), default=0)
    if best + left >= gate.terms.quorum:
        return None
    return GateVerdict(
        GateStatus.REJECTED,
        _option_meaning(gate, REJECT) or REJECT,
        "no other choice can reach the quorum any more",
    )


def expired(gate: Gate) -> GateVerdict:
    """Return the verdict of a gate whose deadline has passed."""
    chosen = gate.terms.on_timeout if gate.terms.on_timeout in gate.choices else None
    return GateVerdict(GateStatus.EXPIRED, chosen, "its time is over")


def withdrawal(reason: str) -> GateVerdict:
    """Return the verdict of a gate that is no longer needed."""
    return GateVerdict(GateStatus.WITHDRAWN, None, reason)


# Time


def next_at(gate: Gate) -> int | None:
    """Return when the next reminder, the next escalation or the deadline is due."""
    instants = [next_reminder(gate), next_escalation(gate), gate.deadline]
    return min((instant for instant in instants if instant is not None), default=None)


def next_reminder(gate: Gate) -> int | None:
    """Return when the next reminder is due. Reminders that were due while no worker ran are not
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
    """Return when the next escalation is due."""
    remaining = gate.terms.escalate[gate.escalated :]
    if not remaining:
        return None
    return gate.opened_at + remaining[0].after


def reminded(gate: Gate, now: int) -> Gate:
    """Return the gate after a reminder."""
    return msgspec.structs.replace(gate, reminded=gate.reminded + 1, reminded_at=now)


def escalated(gate: Gate) -> Gate:
    """Return the gate after its next escalation."""
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
    """Return the gate after *person* has delegated the decision to *to*. Raises GateClosed,
    NotYourGate, AlreadyDecided."""
    refuse_if_closed(gate, entries, now)
    may_decide(gate, entries, person, roles)
    _refuse_second_vote(gate, entries, person)
    _refuse_second_vote(gate, entries, to)
    if to in gate.terms.exclude:
        raise NotYourGate(gate=gate.id, by=to, why="they are excluded from this decision")
    if to in gate.assignees or to == person:
        raise NotYourGate(gate=gate.id, by=to, why="they may decide anyway")
    if not gate.assignees and not gate.roles:
        return gate
    others = tuple(name for name in gate.assignees if name != person)
    return msgspec.structs.replace(gate, assignees=_added(others, (to,)))


def _refuse_second_vote(gate: Gate, entries: Iterable[GateEntry], person: str) -> None:
    """Raise AlreadyDecided if the person has decided already."""
    vote = next((vote for vote in votes(entries) if vote.person == person), None)
    if vote is not None:
        raise AlreadyDecided(gate=gate.id, by=person, choice=vote.choice, at=vote.at)


def _added(names: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
    """Return the names and the further ones, in order and without repetition."""
    return tuple(dict.fromkeys((*names, *more)))
