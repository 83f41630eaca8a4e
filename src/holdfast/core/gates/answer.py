"""What a gate came to, as its workflow sees it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.core.gates.model import EXPIRED, FAIL, REJECTED, WITHDRAWN, Gate, GateEntry
from holdfast.core.gates.rules import rejects, votes
from holdfast.errors import GateExpired, GateRejected, GateWithdrawn


class AnswerInfo(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What one person has decided, as it is recorded in the history."""

    by: str
    at: int
    choice: str
    feedback: str | None = None
    selections: tuple[str, ...] = ()
    value: Any = None


class GateOutcome(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How a gate closed, as it is recorded in the history."""

    gate: str
    status: str
    at: int
    choice: str | None = None
    rejects: bool = False
    reason: str | None = None
    decisions: tuple[AnswerInfo, ...] = ()


class DecidedBy:
    """What one person has decided: who, when, what, and with which words. ``value`` is the form,
    filled in."""

    __slots__ = ("at", "by", "choice", "feedback", "selections", "value")

    def __init__(self, told: AnswerInfo, value: Any) -> None:
        self.by, self.at, self.choice = (
            told.by,
            datetime.fromtimestamp(told.at / 1_000_000, UTC),
            told.choice,
        )
        self.feedback, self.selections, self.value = told.feedback, list(told.selections), value

    def __repr__(self) -> str:
        return f"<{self.choice!r} by {self.by}>"


class Answer(str):
    """The answer of a gate. It is the text of the choice, and knows who made it, when, why, and
    what was filled in.

    As a truth value it says whether people are for it: not when they have rejected it, nor when
    nobody decided in time."""

    gate: str
    """Its id."""
    status: str
    choice: str | None
    reason: str | None
    at: datetime
    decisions: list[DecidedBy]
    value: Any
    """The form, filled in."""
    _rejected: bool

    def __new__(cls, outcome: GateOutcome, decisions: Sequence[DecidedBy]) -> Answer:
        """Make the answer of what was recorded; *decisions* are all that people have decided."""
        self = super().__new__(cls, outcome.choice or "")
        self.gate, self.status, self.choice, self.reason = (
            outcome.gate,
            outcome.status,
            outcome.choice,
            outcome.reason,
        )
        self.at = datetime.fromtimestamp(outcome.at / 1_000_000, UTC)
        self.decisions = list(decisions)
        self.value = next(
            (one.value for one in reversed(self.agreed) if one.value is not None), None
        )
        self._rejected = outcome.rejects
        return self

    @property
    def agreed(self) -> list[DecidedBy]:
        """The decisions that were for what was chosen."""
        return [one for one in self.decisions if one.choice == self.choice]

    @property
    def by(self) -> str | None:
        """Who has decided last for what was chosen; nobody when time decided."""
        return self.agreed[-1].by if self.agreed and not self.expired else None

    @property
    def feedback(self) -> str | None:
        """What was said, by whoever said something last among those who agreed."""
        return next((one.feedback for one in reversed(self.agreed) if one.feedback), None)

    @property
    def selections(self) -> list[str]:
        """What all who agreed have selected."""
        agreed = self.agreed
        return (
            [one for one in agreed[0].selections if all(one in each.selections for each in agreed)]
            if agreed
            else []
        )

    @property
    def expired(self) -> bool:
        """Whether time was over before people had decided."""
        return self.status == EXPIRED

    @property
    def rejected(self) -> bool:
        """Whether what was chosen means no."""
        return self._rejected

    @property
    def approved(self) -> bool:
        """Whether people have chosen something that does not mean no."""
        return not self._rejected and not self.expired

    def __bool__(self) -> bool:
        return self.approved

    def __repr__(self) -> str:
        return f"<answer {self.choice!r} {self.status}{f' by {self.by}' if self.by else ''}>"


def outcome_of(gate: Gate, entries: Sequence[GateEntry]) -> GateOutcome:
    """Return what the workflow is told of a closed gate."""
    decisions = tuple(
        AnswerInfo(
            by=str(vote.person),
            at=vote.at,
            choice=str(vote.choice),
            feedback=vote.feedback,
            selections=vote.selections,
            value=vote.value,
        )
        for vote in votes(entries)
    )
    return GateOutcome(
        gate=gate.id,
        status=gate.status,
        at=gate.closed_at or 0,
        choice=gate.choice,
        rejects=rejects(gate, gate.choice),
        reason=gate.reason,
        decisions=decisions,
    )


def failure_of(
    gate: Gate, outcome: GateOutcome
) -> GateExpired | GateRejected | GateWithdrawn | None:
    """Return what a workflow sees instead of an answer, when there is none that it could have
    foreseen."""
    said = next((one.feedback for one in reversed(outcome.decisions) if one.feedback), None)
    facts: dict[str, object] = {"gate": gate.id, "prompt": gate.prompt}
    if gate.status == EXPIRED and gate.terms.on_timeout == FAIL and gate.choice is None:
        return GateExpired(**facts)
    if gate.status == WITHDRAWN:
        return GateWithdrawn(**facts, reason=gate.reason)
    if gate.status == REJECTED and gate.choice not in gate.choices:
        return GateRejected(**facts, **({"feedback": said} if said else {}))
    return None
