"""What a gate is: what is asked, of whom, and what was done about it so far."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

APPROVE, REJECT = "approve", "reject"
OPEN, APPROVED, REJECTED, EXPIRED, WITHDRAWN = (
    "open",
    "approved",
    "rejected",
    "expired",
    "withdrawn",
)
STATUSES = (OPEN, APPROVED, REJECTED, EXPIRED, WITHDRAWN)

FAIL, CONTINUE = "fail", "continue"
"""What becomes of a workflow whose gate nobody decided in time, unless a choice is made for it."""

ANONYMOUS = "anonymous"
"""Who has decided when nobody said who, on a gate where that does not matter."""


class GateAction:
    """The kinds of what can be done to a gate, past tense."""

    DECIDED = "decided"
    DELEGATED = "delegated"
    REASSIGNED = "reassigned"
    UPDATED = "updated"
    REMINDED = "reminded"
    ESCALATED = "escalated"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


GATE_ACTIONS = frozenset(act for name, act in vars(GateAction).items() if not name.startswith("_"))
"""The kinds of what can be done to a gate, as a set."""


class Option(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that may be chosen. ``means`` is "approve", "reject" or nothing."""

    value: str
    label: str | None = None
    means: str | None = None


class Escalation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who may decide too, once a gate has been open for so long."""

    after: int
    assignees: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()


class GateTerms(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was agreed on when the gate was opened, and does not change. Lengths are microseconds
    since the opening."""

    options: tuple[Option, ...] = ()
    quorum: int = 1
    exclude: tuple[str, ...] = ()
    on_timeout: str = FAIL
    remind: tuple[int, ...] = ()
    remind_every: int | None = None
    escalate: tuple[Escalation, ...] = ()
    form: dict[str, Any] | None = None
    """The JSON Schema of what must be filled in."""


class Gate(msgspec.Struct, kw_only=True):
    """A decision asked of people. Times are microseconds since 1970, UTC."""

    id: str
    run_id: str
    step: str
    prompt: str
    status: str = OPEN
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
        """What may be chosen: the options, or to approve or reject when there are none."""
        return tuple(option.value for option in self.terms.options) or (APPROVE, REJECT)


class GateEntry(msgspec.Struct, kw_only=True):
    """One line of what was done to a gate. A decision that no longer counts, since what it was
    about has changed, has lapsed."""

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
    """Who finds an open gate in the inbox: a person, a role, anyone; or who does not, though others
    with that role do."""

    kind: str
    name: str = ""


PERSON, ROLE, ANYONE, EXCLUDED = "person", "role", "anyone", "excluded"


def hash_of(data: bytes | None) -> str | None:
    """Return the hash of what a gate is about: the same for the same data, whatever the order of
    its keys."""
    if data is None:
        return None
    return hashlib.sha256(
        msgspec.json.encode(msgspec.json.decode(data), order="sorted")
    ).hexdigest()


class EntryDetail(msgspec.Struct, omit_defaults=True):
    """What is stored of a line besides its columns."""

    choice: str | None = None
    feedback: str | None = None
    selections: tuple[str, ...] = ()
    value: Any = None
    names: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    reason: str | None = None
    hash: str | None = None


def entry_detail(entry: GateEntry) -> bytes:
    """Return what is stored of a line besides its columns."""
    return msgspec.json.encode(
        EntryDetail(**{name: getattr(entry, name) for name in EntryDetail.__struct_fields__})
    )


def entry_of(row: Mapping[str, Any]) -> GateEntry:
    """Return the line that a row holds."""
    told = msgspec.structs.asdict(msgspec.json.decode(bytes(row["detail"]), type=EntryDetail))
    return GateEntry(
        kind=row["kind"], at=row["at"], person=row["person"], lapsed=bool(row["lapsed"]), **told
    )
