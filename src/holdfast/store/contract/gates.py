"""What can be done to gates, and which ones can be asked for."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core.gates.model import Gate
from holdfast.core.gates.rules import GateDecision


class GateChange(msgspec.Struct, kw_only=True):
    """What the holder of a run does to one of its gates, in an Advance: people are reminded, others
    may decide too, or nobody needs it any more. One that was closed meanwhile stays as it is."""

    kind: str
    gate_id: str
    reason: str = ""


class DecideGate(msgspec.Struct):
    """Decide, as one person. Answers the Gate as it is then; when it closes, its run goes on.
    Raises GateNotFound, GateClosed, NotYourGate, AlreadyDecided, GateChanged, UnknownChoice,
    WrongAnswer."""

    run_id: str
    gate_id: str
    decision: GateDecision


class DelegateGate(msgspec.Struct):
    """Let somebody else decide instead of one who may. Answers the Gate. Raises GateNotFound,
    GateClosed, NotYourGate, AlreadyDecided."""

    run_id: str
    gate_id: str
    by: str
    to: str
    roles: tuple[str, ...] = ()
    reason: str | None = None


class ReassignGate(msgspec.Struct):
    """Name others who may decide, in place of those who could. Answers the Gate. Raises
    GateNotFound, GateClosed, QuorumImpossible."""

    run_id: str
    gate_id: str
    assignees: tuple[str, ...]
    roles: tuple[str, ...]
    by: str | None = None
    reason: str | None = None


class UpdateGate(msgspec.Struct):
    """Change what a gate is about: all decisions made so far lapse. Answers the Gate; the same data
    changes nothing. Raises GateNotFound, GateClosed."""

    run_id: str
    gate_id: str
    data: bytes
    by: str | None = None
    reason: str | None = None


class WithdrawGate(msgspec.Struct):
    """Close a gate undecided. Answers the Gate. Raises GateNotFound, GateClosed."""

    run_id: str
    gate_id: str
    by: str | None = None
    reason: str | None = None


class ExpireGates(msgspec.Struct):
    """Close what is open, of one run, and has passed its deadline. Answers how many."""

    run_id: str


class GateFilter(msgspec.Struct, kw_only=True):
    """Which gates to list, oldest first. *person* and *roles* ask for those that somebody may
    decide and has not yet; *after* is the id of the last one seen. *late* ones are past their
    deadline, or people were reminded of them, or they were escalated."""

    statuses: Sequence[str] = ()
    person: str | None = None
    roles: Sequence[str] = ()
    run_id: str | None = None
    workflow: str | None = None
    namespace: str | None = None
    late: int | None = None
    after: str | None = None
    limit: int = 100


GateMove = Gate | GateChange
"""What an Advance may say of gates: one that is opened, or what becomes of one."""
