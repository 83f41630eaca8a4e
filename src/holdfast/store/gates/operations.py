"""Operations on gates, and the filter that lists them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core.gates.model import Gate
from holdfast.core.gates.rules import GateDecision
from holdfast.store.database import Operation
from holdfast.store.effects import Effect


class GateChange(msgspec.Struct, kw_only=True):
    """A change that the holder of a run makes to one of its gates in an Advance: ``reminded``,
    ``escalated`` (more people may decide) or ``withdrawn``. A gate that has been closed meanwhile
    stays as it is."""

    kind: str
    gate_id: str
    reason: str = ""


class DecideGate(Operation):
    """Record the decision of one person. If that closes the gate, its run is woken.

    Answers:
        Gate            the gate after the decision
    Raises:
        GateNotFound    there is no such gate of this run
        GateClosed      the gate is closed
        NotYourGate     the person may not decide
        AlreadyDecided  the person has decided
        GateChanged     the data of the gate have changed since the person read them
        UnknownChoice   the choice is not an option of the gate
        WrongAnswer     the answer does not fit the fields of the gate
    """

    run_id: str
    gate_id: str
    decision: GateDecision


class DelegateGate(Operation):
    """Let another person decide in place of a person who may.

    Answers:
        Gate            the gate after the change
    Raises:
        GateNotFound    there is no such gate of this run
        GateClosed      the gate is closed
        NotYourGate     the person may not decide
        AlreadyDecided  the person has decided
    """

    run_id: str
    gate_id: str
    by: str
    to: str
    roles: tuple[str, ...] = ()
    reason: str | None = None


class ReassignGate(Operation):
    """Replace the people and roles that may decide.

    Answers:
        Gate              the gate after the change
    Raises:
        GateNotFound      there is no such gate of this run
        GateClosed        the gate is closed
        QuorumImpossible  the new assignees cannot reach the quorum
    """

    run_id: str
    gate_id: str
    assignees: tuple[str, ...]
    roles: tuple[str, ...]
    by: str | None = None
    reason: str | None = None


class UpdateGate(Operation):
    """Change the data that are to be decided on. All decisions made so far lapse, unless the data
    are the same.

    Answers:
        Gate          the gate after the change
    Raises:
        GateNotFound  there is no such gate of this run
        GateClosed    the gate is closed
    """

    run_id: str
    gate_id: str
    data: bytes
    by: str | None = None
    reason: str | None = None


class WithdrawGate(Operation):
    """Close a gate without a decision.

    Answers:
        Gate          the gate after the change
    Raises:
        GateNotFound  there is no such gate of this run
        GateClosed    the gate is closed
    """

    run_id: str
    gate_id: str
    by: str | None = None
    reason: str | None = None


class ExpireGates(Operation):
    """Close the open gates of a run that are past their deadline.

    Answers:
        int  how many gates were closed
    """

    run_id: str


class GateFilter(msgspec.Struct, kw_only=True):
    """Which gates to list, oldest first.

    *person* and *roles* select the gates that a person, or a person with one of these roles, may
    decide and has not decided yet. *late* is the current time: it selects open gates that are past
    their deadline, or that have been reminded of or escalated. *after* is the id of the last gate
    of the previous page.
    """

    statuses: Sequence[str] = ()
    person: str | None = None
    roles: Sequence[str] = ()
    run_id: str | None = None
    workflow: str | None = None
    namespace: str | None = None
    late: int | None = None
    after: str | None = None
    limit: int = 100


class ChangeGate(Effect):
    """Open a new gate of the run, or change one of its gates."""

    change: Gate | GateChange
