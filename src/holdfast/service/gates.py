"""What people do about gates: find them, decide them, hand them on, answer them by a link."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core import tokens
from holdfast.core.codec import JsonCodec
from holdfast.core.gates import rules as gate_rules
from holdfast.core.gates.model import APPROVE, OPEN, REJECT, STATUSES, Gate
from holdfast.core.gates.rules import GateDecision
from holdfast.core.stored_json import decoded
from holdfast.core.text import is_one_of, is_storable
from holdfast.core.tokens import SigningKey, Token
from holdfast.core.validation import checked_count, checked_flag, checked_many, checked_string
from holdfast.errors import BadOption, GateNotFound, TokenRefused
from holdfast.service.runs import Moment, Request, RunService, instant
from holdfast.store.contract import Store
from holdfast.store.contract.gates import (
    DecideGate,
    DelegateGate,
    GateFilter,
    ReassignGate,
    UpdateGate,
    WithdrawGate,
)

LINK = "gate"
"""The purpose of the tokens that answer gates."""

LINK_LIVES = "7d"
LONGEST_NAME, LONGEST_TEXT = 1000, 100_000
Which = Gate | str
"""A gate, its id, or the id of a run that has one open gate."""

Names = str | Iterable[str]


class GateService:
    """Turns what people ask about gates into transitions, and reads what there is."""

    def __init__(self, client: RunService) -> None:
        self._client: RunService = client
        self.store: Store = client.store
        self.codec = JsonCodec()

    # Looking

    def find(
        self,
        *,
        status: Names = OPEN,
        mine: str | None = None,
        role: Names = (),
        run: str | None = None,
        workflow: str | None = None,
        namespace: str | None = None,
        overdue: bool = False,
        after: str | None = None,
        limit: int = 100,
    ) -> list[Gate]:
        """Return the gates that match, oldest first."""
        statuses = () if is_one_of(status, ("any",)) else names("status", status)
        unknown = [one for one in statuses if one not in (*STATUSES, "closed")]
        if unknown:
            raise BadOption(
                option="status", value=unknown[0], known=", ".join((*STATUSES, "closed", "any"))
            )
        wanted = [
            one for word in statuses for one in (STATUSES[1:] if word == "closed" else [word])
        ]
        return self.store.gates(
            GateFilter(
                statuses=wanted,
                person=name("mine", mine),
                roles=names("role", role),
                run_id=checked_string("run", run),
                workflow=checked_string("workflow", workflow),
                namespace=self._client.within(checked_string("namespace", namespace)),
                late=self.store.now() if checked_flag("overdue", overdue) else None,
                after=checked_string("after", after),
                limit=checked_count("limit", limit),
            )
        )

    def get(self, which: Which) -> Gate:
        """Return a gate by its id, or the one open gate of a run, or, if none is open, its last
        one. Raises GateNotFound."""
        wanted = which.id if isinstance(which, Gate) else which
        if not isinstance(wanted, str):
            raise GateNotFound(gate=wanted)
        found = self.store.gate(wanted)
        if not self._client.is_mine(wanted if found is None else found.run_id):
            raise GateNotFound(gate=wanted)
        if found is not None:
            return found
        open_now = self.store.gates(GateFilter(run_id=wanted, statuses=[OPEN], limit=2))
        if len(open_now) == 1:
            return open_now[0]
        if open_now:
            raise GateNotFound(gate=wanted, why="this run has several open gates: name one of them")
        closed = self.store.gates(GateFilter(run_id=wanted, limit=10_000))
        if not closed:
            raise GateNotFound(gate=wanted)
        return closed[-1]

    # Deciding

    def decide(
        self,
        which: Which,
        choice: str,
        *,
        by: str | None = None,
        roles: Names = (),
        feedback: str | None = None,
        selections: Names = (),
        form: Any = None,
        expect: str | None = None,
    ) -> Request:
        """Decide, as one person; the answer is the Gate as it is then."""
        gate = self.get(which)
        if not isinstance(choice, str):
            raise BadOption(
                option="choice", value=choice, why="it is one of the texts to choose from"
            )
        value = None if form is None else self.codec.encode(form, what="the form")
        decision = GateDecision(
            choice=choice,
            by=name("by", by),
            roles=names("roles", roles),
            feedback=_text("feedback", feedback),
            selections=names("selections", selections),
            value=value,
            expect=expect,
        )
        return Request(DecideGate(gate.run_id, gate.id, decision), _same)

    def approve(self, which: Which, **options: Any) -> Request:
        """Choose what means yes."""
        return self.decide(which, APPROVE, **options)

    def reject(self, which: Which, **options: Any) -> Request:
        """Choose what means no."""
        return self.decide(which, REJECT, **options)

    # Handing on

    def delegate(
        self, which: Which, to: str, *, by: str, roles: Names = (), reason: str | None = None
    ) -> Request:
        """Let somebody else decide in one's place."""
        gate = self.get(which)
        return Request(
            DelegateGate(
                gate.run_id,
                gate.id,
                needed("by", by),
                needed("to", to),
                names("roles", roles),
                _text("reason", reason),
            ),
            _same,
        )

    def reassign(
        self,
        which: Which,
        *,
        assignees: Names = (),
        roles: Names = (),
        by: str | None = None,
        reason: str | None = None,
    ) -> Request:
        """Name others who may decide, in place of those who could."""
        gate = self.get(which)
        people, all_roles = names("assignees", assignees), names("roles", roles)
        if not people and not all_roles:
            raise BadOption(
                option="assignees", why="say who may decide from now on: name people, or roles"
            )
        return Request(
            ReassignGate(
                gate.run_id, gate.id, people, all_roles, name("by", by), _text("reason", reason)
            ),
            _same,
        )

    def update(
        self, which: Which, data: Any, *, by: str | None = None, reason: str | None = None
    ) -> Request:
        """Change what is decided on; decisions made so far lapse."""
        gate = self.get(which)
        encoded = self.codec.encode(data, what="data of the gate")
        return Request(
            UpdateGate(gate.run_id, gate.id, encoded, name("by", by), _text("reason", reason)),
            _same,
        )

    def withdraw(
        self, which: Which, *, by: str | None = None, reason: str | None = None
    ) -> Request:
        """Close a gate undecided."""
        gate = self.get(which)
        return Request(
            WithdrawGate(gate.run_id, gate.id, name("by", by), _text("reason", reason)), _same
        )

    # Links

    def link(
        self, key: SigningKey, which: Which, choice: str, *, by: str, roles: Names, expires: Moment
    ) -> Token:
        """Return a token that answers one gate in one way, once, as one person. What could not be
        decided so is refused now."""
        gate = self.get(which)
        now, entries = self.store.now(), self.store.gate_entries(gate.id)
        given = names("roles", roles)
        person = needed("by", by)
        decision = GateDecision(choice=choice, by=person, roles=given, expect=gate.hash or "")
        gate_rules.decide(gate, entries, decision, now=now)
        until = instant(expires, now)
        if until <= now:
            raise BadOption(option="expires", value=expires, why="it lies in the past")
        if gate.deadline is not None:
            until = min(until, gate.deadline)
        says = {
            "run": gate.run_id,
            "gate": gate.id,
            "choice": choice,
            "by": person,
            "roles": given,
            "hash": gate.hash or "",
        }
        return tokens.sign(key, LINK, says, until=until, reveal=self._client.sealer.secrets.reveal)

    def answer(self, token: str, feedback: str | None) -> Request:
        """Answer a gate as its link says; the answer is the Gate. Raises TokenRefused,
        TokenExpired, and what ``decide`` does."""
        reveal = self._client.sealer.secrets.reveal
        says = tokens.check(token, LINK, self.store.keys(), now=self.store.now(), reveal=reveal)
        decision = GateDecision(
            choice=says["choice"],
            by=says["by"],
            roles=tuple(says["roles"]),
            feedback=_text("feedback", feedback),
            expect=says["hash"],
        )
        if self.store.gate(says["gate"]) is None or not self._client.is_mine(says["run"]):
            # it was pruned, or is of another namespace: to whoever asks, that is as if it never was
            raise TokenRefused()
        return Request(DecideGate(says["run"], says["gate"], decision), _same)


def as_data(gate: Gate, store: Store) -> dict[str, Any]:
    """Return a gate as plain data, with what was done to it. Times are microseconds since 1970."""
    entries = store.gate_entries(gate.id)
    return {
        "id": gate.id,
        "run": gate.run_id,
        "step": gate.step,
        "status": gate.status,
        "prompt": gate.prompt,
        "options": [msgspec.structs.asdict(option) for option in gate.terms.options],
        "choices": list(gate.choices),
        "assignees": list(gate.assignees),
        "roles": list(gate.roles),
        "exclude": list(gate.terms.exclude),
        "quorum": gate.terms.quorum,
        "missing": max(gate_rules.missing(gate, entries), 0) if gate.status == OPEN else 0,
        "data": None if gate.data is None else decoded(gate.data, f"the data of gate {gate.id}"),
        "hash": gate.hash,
        "form": gate.terms.form,
        "opened_at": gate.opened_at,
        "deadline": gate.deadline,
        "on_timeout": gate.terms.on_timeout,
        "reminded": gate.reminded,
        "escalated": gate.escalated,
        "closed_at": gate.closed_at,
        "choice": gate.choice,
        "reason": gate.reason,
        "entries": [_entry(msgspec.to_builtins(entry)) for entry in entries],
    }


def _entry(told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        field: value
        for field, value in told.items()
        if value not in (None, [], False) or field == "person"
    }


def _same(answer: Any) -> Any:
    return answer


def name(option: str, given: str | None) -> str | None:
    """Return a name; refuse what is none."""
    return None if given is None else needed(option, given)


def needed(option: str, given: object) -> str:
    """Return a name that must be there; refuse what is none."""
    if (
        not isinstance(given, str)
        or not given.strip()
        or len(given) > LONGEST_NAME
        or not is_storable(given)
    ):
        raise BadOption(option=option, value=given, why="it must be a name")
    return given


def names(option: str, given: Names) -> tuple[str, ...]:
    """Return names, each once; refuse what is none."""
    found: Sequence[str] = [given] if isinstance(given, str) else checked_many(option, given)
    return tuple(dict.fromkeys(needed(option, one) for one in found))


def _text(option: str, given: str | None) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str) or len(given) > LONGEST_TEXT or not is_storable(given):
        raise BadOption(
            option=option,
            why=f"it must be a text of at most {LONGEST_TEXT} characters, without NUL characters",
        )
    return given
