"""Answer: the outcome of a gate as its workflow sees it, and the record of it in the history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.core.gates.model import FAIL, Gate, GateEntry, GateStatus
from holdfast.core.gates.rules import rejects, votes
from holdfast.errors import GateExpired, GateRejected, GateWithdrawn


class AnswerInfo(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The decision of one person, as it is recorded in the history."""

    by: str
    at: int
    choice: str
    feedback: str | None = None
    selections: tuple[str, ...] = ()
    value: Any = None


class GateOutcome(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The outcome of a gate, as it is recorded in the history."""

    gate: str
    status: str
    at: int
    choice: str | None = None
    rejects: bool = False
    reason: str | None = None
    decisions: tuple[AnswerInfo, ...] = ()


class DecidedBy:
    """The decision of one person: who, when, which choice, feedback and selections. ``value`` is
    the filled-in form."""

    __slots__ = ("at", "by", "choice", "feedback", "selections", "value")

    def __init__(self, info: AnswerInfo, value: Any) -> None:
        self.by: str = info.by
        self.at: datetime = datetime.fromtimestamp(info.at / 1_000_000, UTC)
        self.choice: str = info.choice
        self.feedback: str | None = info.feedback
        self.selections: list[str] = list(info.selections)
        self.value: Any = value

    def __repr__(self) -> str:
        return f"<{self.choice!r} by {self.by}>"


class Answer(str):
    """The answer of a gate: a string with the text of the choice, and attributes with who decided,
    when, why, and with which form.

    It is true if the gate was approved, false if it was rejected or expired."""

    gate: str
    """The id of the gate."""
    status: str
    choice: str | None
    reason: str | None
    at: datetime
    decisions: list[DecidedBy]
    value: Any
    """The filled-in form of the last decision that agreed and has one."""
    _rejected: bool

    def __new__(cls, outcome: GateOutcome, decisions: Sequence[DecidedBy]) -> Answer:
        """Create the answer from the recorded outcome; *decisions* are its decisions, decoded."""
        self = super().__new__(cls, outcome.choice or "")
        self.gate = outcome.gate
        self.status = outcome.status
        self.choice = outcome.choice
        self.reason = outcome.reason
        self.at = datetime.fromtimestamp(outcome.at / 1_000_000, UTC)
        self.decisions = list(decisions)
        self.value = next(
            (decision.value for decision in reversed(self.agreed) if decision.value is not None),
            None,
        )
        self._rejected = outcome.rejects
        return self

    @property
    def agreed(self) -> list[DecidedBy]:
        """The decisions for the choice that won."""
        return [decision for decision in self.decisions if decision.choice == self.choice]

    @property
    def by(self) -> str | None:
        """The person who decided last for the choice that won; None if the gate expired."""
        if self.agreed and not self.expired:
            return self.agreed[-1].by
        return None

    @property
    def feedback(self) -> str | None:
        """The last feedback among the decisions that agreed."""
        feedbacks = (decision.feedback for decision in reversed(self.agreed))
        return next((feedback for feedback in feedbacks if feedback), None)

    @property
    def selections(self) -> list[str]:
        """The selections that all decisions that agreed have in common."""
        agreed = self.agreed
        if not agreed:
            return []
        return [
            selection
            for selection in agreed[0].selections
            if all(selection in decision.selections for decision in agreed)
        ]

    @property
    def expired(self) -> bool:
        """Whether the gate expired before people had decided."""
        return self.status == GateStatus.EXPIRED

    @property
    def rejected(self) -> bool:
        """Whether the choice means a rejection."""
        return self._rejected

    @property
    def approved(self) -> bool:
        """Whether people have made a choice that does not mean a rejection."""
        return not self._rejected and not self.expired

    def __bool__(self) -> bool:
        return self.approved

    def __repr__(self) -> str:
        by = f" by {self.by}" if self.by else ""
        return f"<answer {self.choice!r} {self.status}{by}>"


def outcome_of(gate: Gate, entries: Sequence[GateEntry]) -> GateOutcome:
    """Return the outcome of a closed gate, for the history of its run."""
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
    """Return the error that the workflow sees instead of an answer, or None.

    It is an error if the gate expired with ``on_timeout="fail"``, if it was withdrawn, or if it was
    rejected and rejection is not among its choices."""
    feedbacks = (decision.feedback for decision in reversed(outcome.decisions))
    feedback = next((text for text in feedbacks if text), None)
    facts: dict[str, object] = {"gate": gate.id, "prompt": gate.prompt}
    if gate.status == GateStatus.EXPIRED and gate.terms.on_timeout == FAIL and gate.choice is None:
        return GateExpired(**facts)
    if gate.status == GateStatus.WITHDRAWN:
        return GateWithdrawn(**facts, reason=gate.reason)
    if gate.status == GateStatus.REJECTED and gate.choice not in gate.choices:
        if feedback:
            facts["feedback"] = feedback
        return GateRejected(**facts)
    return None
