"""Requests about gates: find, decide, delegate and withdraw them, and answer them by a link."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.core import tokens
from holdfast.core.codec import JsonCodec
from holdfast.core.gates import rules as gate_rules
from holdfast.core.gates.model import APPROVE, REJECT, STATUSES, Gate, GateStatus
from holdfast.core.gates.rules import GateDecision
from holdfast.core.text import is_one_of, is_storable
from holdfast.core.tokens import SigningKey, Token
from holdfast.core.validation import (
    checked_count,
    checked_flag,
    checked_one_or_many,
    checked_string,
)
from holdfast.errors import BadOption, GateNotFound, TokenRefused
from holdfast.service.instants import Moment, instant
from holdfast.service.requests import Request, identity
from holdfast.service.runs import RunService
from holdfast.store.gates.operations import (
    DecideGate,
    DelegateGate,
    GateFilter,
    ReassignGate,
    UpdateGate,
    WithdrawGate,
)
from holdfast.store.store import Store

LINK = "gate"
"""The purpose of the tokens that answer gates."""

LINK_LIVES = "7d"
"""How long a link is valid, unless the caller says otherwise."""

LONGEST_NAME = 1000
LONGEST_TEXT = 100_000
Which = str
"""The id of a gate, or of a run that has one open gate."""

Names = str | Iterable[str]


class GateService:
    """Builds the operations on gates, and reads gates."""

    def __init__(self, client: RunService) -> None:
        self._client: RunService = client
        self.store: Store = client.store
        self.codec = JsonCodec()

    # Reading

    def find(
        self,
        *,
        status: Names = GateStatus.OPEN.value,
        mine: str | None = None,
        role: Names = (),
        run: str | None = None,
        workflow: str | None = None,
        namespace: str | None = None,
        overdue: bool = False,
        after: str | None = None,
        limit: int = 100,
    ) -> list[Gate]:
        """Return the gates that match, oldest first. *mine* is the person who may decide; *after*
        is the id of the last gate of the previous page. Raises BadOption."""
        return self.store.gates.find(
            GateFilter(
                statuses=_statuses(status),
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
        """Return a gate by its id, or the only open gate of a run; if no gate of the run is open,
        its last one. Raises GateNotFound."""
        if not isinstance(which, str):
            raise GateNotFound(gate=which)
        gate = self.store.gates.get(which)
        if not self._client.may_access(which if gate is None else gate.run_id):
            raise GateNotFound(gate=which)
        if gate is not None:
            return gate
        open_now = self.store.gates.find(
            GateFilter(run_id=which, statuses=[GateStatus.OPEN.value], limit=2)
        )
        if len(open_now) == 1:
            return open_now[0]
        if open_now:
            raise GateNotFound(gate=which, why="this run has several open gates: name one of them")
        closed = self.store.gates.find(GateFilter(run_id=which, limit=10_000))
        if not closed:
            raise GateNotFound(gate=which)
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
    ) -> Request[Gate]:
        """Decide a gate as one person. *expect* is the hash of the data that the person saw. The
        answer is the Gate after the decision. Raises GateNotFound, BadOption."""
        gate = self.get(which)
        if not isinstance(choice, str):
            raise BadOption(
                option="choice", value=choice, why="give one of the choices of the gate, as a text"
            )
        value = None if form is None else self.codec.encode(form, label="the form")
        decision = GateDecision(
            choice=choice,
            by=name("by", by),
            roles=names("roles", roles),
            feedback=_text("feedback", feedback),
            selections=names("selections", selections),
            value=value,
            expect=expect,
        )
        return Request(DecideGate(gate.run_id, gate.id, decision), identity)

    def approve(self, which: Which, **options: Any) -> Request[Gate]:
        """Decide a gate with the choice that approves."""
        return self.decide(which, APPROVE, **options)

    def reject(self, which: Which, **options: Any) -> Request[Gate]:
        """Decide a gate with the choice that rejects."""
        return self.decide(which, REJECT, **options)

    # Delegating and changing

    def delegate(
        self, which: Which, to: str, *, by: str, roles: Names = (), reason: str | None = None
    ) -> Request[Gate]:
        """Let the person *to* decide in place of the person *by*."""
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
            identity,
        )

    def reassign(
        self,
        which: Which,
        *,
        assignees: Names = (),
        roles: Names = (),
        by: str | None = None,
        reason: str | None = None,
    ) -> Request[Gate]:
        """Replace the people and roles that may decide. Raises BadOption if none is named."""
        gate = self.get(which)
        people = names("assignees", assignees)
        all_roles = names("roles", roles)
        if not people and not all_roles:
            raise BadOption(
                option="assignees", why="name the people or roles that may decide from now on"
            )
        return Request(
            ReassignGate(
                gate.run_id, gate.id, people, all_roles, name("by", by), _text("reason", reason)
            ),
            identity,
        )

    def update(
        self, which: Which, data: Any, *, by: str | None = None, reason: str | None = None
    ) -> Request[Gate]:
        """Replace the data on which people decide. Decisions made so far lapse."""
        gate = self.get(which)
        encoded = self.codec.encode(data, label="data of the gate")
        return Request(
            UpdateGate(gate.run_id, gate.id, encoded, name("by", by), _text("reason", reason)),
            identity,
        )

    def withdraw(
        self, which: Which, *, by: str | None = None, reason: str | None = None
    ) -> Request[Gate]:
        """Close a gate without a decision."""
        gate = self.get(which)
        return Request(
            WithdrawGate(gate.run_id, gate.id, name("by", by), _text("reason", reason)), identity
        )

    # Links

    def link(
        self, key: SigningKey, which: Which, choice: str, *, by: str, roles: Names, expires: Moment
    ) -> Token:
        """Return a token that answers one gate with one choice, once, as one person.

        Raises now the errors that the decision would raise, and BadOption if *expires* is past."""
        gate = self.get(which)
        now = self.store.now()
        entries = self.store.gates.entries(gate.id)
        checked_roles = names("roles", roles)
        person = needed("by", by)
        decision = GateDecision(
            choice=choice, by=person, roles=checked_roles, expect=gate.hash or ""
        )
        gate_rules.decide(gate, entries, decision, now=now)
        until = instant(expires, now)
        if until <= now:
            raise BadOption(option="expires", value=expires, why="the time lies in the past")
        if gate.deadline is not None:
            until = min(until, gate.deadline)
        claims = {
            "run": gate.run_id,
            "gate": gate.id,
            "choice": choice,
            "by": person,
            "roles": checked_roles,
            "hash": gate.hash or "",
        }
        reveal = self._client.sealer.secrets.reveal
        return tokens.sign(key, LINK, claims, until=until, reveal=reveal)

    def link_claims(self, token: str) -> dict[str, Any]:
        """Return what a link says, without deciding: ``gate``, ``run``, ``choice``, ``by``. Raises
        TokenRefused, TokenExpired."""
        reveal = self._client.sealer.secrets.reveal
        return tokens.check(token, LINK, self.store.keys.all(), now=self.store.now(), reveal=reveal)

    def answer(self, token: str, feedback: str | None) -> Request[Gate]:
        """Answer a gate as its link says. The answer is the Gate. Raises TokenRefused,
        TokenExpired, and the errors of ``decide``."""
        claims = self.link_claims(token)
        decision = GateDecision(
            choice=claims["choice"],
            by=claims["by"],
            roles=tuple(claims["roles"]),
            feedback=_text("feedback", feedback),
            expect=claims["hash"],
        )
        if self.store.gates.get(claims["gate"]) is None or not self._client.may_access(
            claims["run"]
        ):
            # A gate that was pruned and a gate of another namespace look alike to the caller.
            raise TokenRefused()
        return Request(DecideGate(claims["run"], claims["gate"], decision), identity)


def name(option: str, value: str | None) -> str | None:
    """Return a name, or None for None. Raises BadOption."""
    if value is None:
        return None
    return needed(option, value)


def needed(option: str, value: object) -> str:
    """Return a name that must be given. Raises BadOption."""
    if (
        not isinstance(value, str)
        or not value.strip()
        or len(value) > LONGEST_NAME
        or not is_storable(value)
    ):
        raise BadOption(
            option=option,
            value=value,
            why=f"a name is a text of 1 to {LONGEST_NAME} characters, without NUL characters",
        )
    return value


def _statuses(status: Names) -> list[str]:
    """Return the statuses that *status* selects, none for all. Raises BadOption."""
    if is_one_of(status, ("any",)):
        return []
    words = names("status", status)
    unknown = [word for word in words if word not in (*STATUSES, "closed")]
    if unknown:
        raise BadOption(
            option="status", value=unknown[0], known=", ".join((*STATUSES, "closed", "any"))
        )
    if "closed" not in words:
        return list(words)
    return list(dict.fromkeys([*(word for word in words if word != "closed"), *STATUSES[1:]]))


def names(option: str, value: Names) -> tuple[str, ...]:
    """Return names, each once. Raises BadOption."""
    items = checked_one_or_many(option, value)
    return tuple(dict.fromkeys(needed(option, item) for item in items))


def _text(option: str, value: str | None) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > LONGEST_TEXT or not is_storable(value):
        raise BadOption(
            option=option,
            why=f"give a text of at most {LONGEST_TEXT} characters, without NUL characters",
        )
    return value
