"""Records of gates: the question, the people who may decide, and the log of actions on the gate."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.core import typed_json

APPROVE = "approve"
REJECT = "reject"


class GateStatus(StrEnum):
    """Whether a gate is open, and how it was closed."""

    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


STATUSES = tuple(status.value for status in GateStatus)

FAIL = "fail"
"""``on_timeout``: the workflow sees an error when the gate expires."""

CONTINUE = "continue"
"""``on_timeout``: the workflow goes on without a choice when the gate expires. Any other value is
the choice that the gate makes then."""

ANY_FORM = {"type": "object"}
"""The form of a gate that takes any fields, or none."""

ANONYMOUS = "anonymous"
"""The name under which an unnamed person decides, on a gate that anyone may decide alone."""


class GateAction(StrEnum):
    """The kinds of actions on a gate, in the past tense."""

    DECIDED = "decided"
    DELEGATED = "delegated"
    REASSIGNED = "reassigned"
    UPDATED = "updated"
    REMINDED = "reminded"
    ESCALATED = "escalated"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


GATE_ACTIONS = frozenset(action.value for action in GateAction)
"""The kinds of actions on a gate, as a set."""


class Option(msgspec.Struct, frozen=True, omit_defaults=True):
    """One choice of a gate. ``means`` is "approve", "reject" or None."""

    value: str
    label: str | None = None
    means: str | None = None


class Escalation(msgspec.Struct, frozen=True, omit_defaults=True):
    """The people and roles that may decide as well once a gate has been open for ``after``
    microseconds."""

    after: int
    assignees: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()


class GateTerms(msgspec.Struct, frozen=True, omit_defaults=True):
    """The terms of a gate, fixed when it is opened. Times are microseconds since the opening."""

    options: tuple[Option, ...] = ()
    quorum: int = 1
    exclude: tuple[str, ...] = ()
    on_timeout: str = FAIL
    remind: tuple[int, ...] = ()
    remind_every: int | None = None
    escalate: tuple[Escalation, ...] = ()
    form: dict[str, Any] | None = None
    """The JSON Schema of the form that people fill in."""
    kind: str = ""
    """The type of the gate, by which a resolver finds it; empty if only people decide."""
    least: int = 1
    """How many options an approval selects at least; with 0, "approve" needs none."""
    mode: str = ""
    """How a resolver counts approvals."""
    identity: str | None = None
    """On whose behalf a resolver looks."""


class Gate(msgspec.Struct, kw_only=True):
    """A decision asked of people. Times are microseconds since 1970, UTC."""

    id: str
    run_id: str
    step: str
    prompt: str
    status: str = GateStatus.OPEN
    terms: GateTerms = GateTerms()
    assignees: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    data: bytes | None = None
    hash: str | None = None
    opened_at: int = 0
    deadline: int | None = None
    reminded: int = 0
    reminded_at: int | None = None
    escalated: int = 0
    closed_at: int | None = None
    choice: str | None = None
    reason: str | None = None

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that may be chosen: the options, or approve and reject if there are none."""
        return tuple(option.value for option in self.terms.options) or (APPROVE, REJECT)


class GateEntry(msgspec.Struct, kw_only=True):
    """One action on a gate. A decision has lapsed, and no longer counts, if the data of the gate
    changed after it."""

    kind: str
    at: int
    person: str | None = None
    choice: str | None = None
    feedback: str | None = None
    selections: tuple[str, ...] = ()
    value: Any = None
    names: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    reason: str | None = None
    hash: str | None = None
    lapsed: bool = False


class GateAssignment(msgspec.Struct, frozen=True, order=True):
    """An entry of the inbox of an open gate: a person, a role or anyone who may decide; or a person
    who is excluded although a role, or anyone, may decide."""

    kind: str
    name: str = ""


PERSON = "person"
ROLE = "role"
ANYONE = "anyone"
EXCLUDED = "excluded"
RESOLVER = "resolver"
"""An assignment of an open gate to the resolvers of its type."""


def hash_of(data: bytes | None) -> str | None:
    """Return the hash of the data of a gate; it does not depend on the order of keys."""
    if data is None:
        return None
    return hashlib.sha256(
        msgspec.json.encode(msgspec.json.decode(data), order="sorted")
    ).hexdigest()


class EntryDetail(msgspec.Struct, omit_defaults=True):
    """The part of a gate entry that is stored as JSON, besides its columns."""

    choice: str | None = None
    feedback: str | None = None
    selections: tuple[str, ...] = ()
    value: Any = None
    names: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    reason: str | None = None
    hash: str | None = None


def entry_detail(entry: GateEntry) -> bytes:
    """Return the JSON that is stored for an entry besides its columns."""
    return msgspec.json.encode(
        EntryDetail(**{name: getattr(entry, name) for name in EntryDetail.__struct_fields__})
    )


def entry_of(row: Mapping[str, Any]) -> GateEntry:
    """Return the entry that a row holds."""
    detail = typed_json.decode(bytes(row["detail"]), EntryDetail)
    return GateEntry(
        kind=row["kind"],
        at=row["at"],
        person=row["person"],
        lapsed=bool(row["lapsed"]),
        **msgspec.structs.asdict(detail),
    )
