"""Operations on explicit leases (of tasks and remote workers), and an operator's on any lease."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from holdfast.core.budgets.model import Breach
from holdfast.core.events import Event
from holdfast.core.payload import Payload
from holdfast.core.runs import ChildRecord, RunRecord
from holdfast.core.status import Status
from holdfast.core.waits import Signal
from holdfast.store.database import Operation
from holdfast.store.effects import Effect
from holdfast.store.runs.operations import Advance


class ClaimFacts(NamedTuple):
    """The facts of a leased run on which a judge decides."""

    history: list[Event]
    """The events since its last wait and, before that, the failed attempts."""
    signals: Callable[[], list[Signal]]
    """Reads its unconsumed signals."""
    children: Callable[[str], list[ChildRecord]]
    """Reads the children of a step."""
    breach: Breach | None
    """The limit of one of its budgets that is used up; None if all have room."""


Judge = Callable[["LeasedTask", ClaimFacts], Advance | None]
"""Decide from a leased run and its facts what to write together with the claim: the outcome of its
wait, or that it keeps waiting. None writes nothing."""


class ClaimLeases(Operation):
    """Lease ready runs like Claim, for a holder that is not a Python worker, and arm the timeouts
    of the attempts. With ``run_id``, lease exactly this run if it is claimable, regardless of the
    limits of its lane.

    Answers:
        list[LeasedTask]  empty also if the session has ended
    """

    session_id: str
    routes: Sequence[tuple[int, str]]
    limit: int
    run_id: str | None = None
    judge: Judge | None = None
    """Called for each leased run that has a history, or a budget that is used up. It must not
    raise, and may be called again."""
    key: str | None = None
    """The name that a remote worker gave this claim: the leases are recorded under it, so that a
    repeated claim gets them again."""


class LeasedTask(msgspec.Struct):
    """A run that was leased, the number of its last event, and the policy that was agreed at its
    start."""

    run: RunRecord
    seq: int
    policy: bytes | None


class TaskCompletion(msgspec.Struct):
    """A leased run that completes: its generation, its result, and ``seq``, the number of its last
    event. ``data`` names its holder, ``started_at`` is the time of its lease."""

    run_id: str
    generation: int
    seq: int
    result: bytes
    data: bytes | None = None
    started_at: int | None = None


class CompleteLeases(Operation):
    """Complete leased runs, each like an Advance would. Only for runs without a parent, a schedule
    or a graph to notify; each run occurs once.

    Answers:
        list[bool]  for each run whether its lease was valid; otherwise it is unchanged
    """

    done: Sequence[TaskCompletion]


class RenewLeases(Operation, kw_only=True):
    """Extend a session that has not expired, and with it all its leases. With ``run_id``, only if
    the session holds this run under this generation.

    Answers:
        int   the instant until which the session lasts
        None  the session has expired, or does not hold the run
    """

    session_id: str
    lifetime: int
    run_id: str | None = None
    generation: int = 0


class SetAttemptDeadline(Effect):
    """Let ExpireAttempts check the run at an instant: a wait of a run that is parked without a
    holder ends then."""

    at: int


class ExpireAttempts(Operation):
    """End attempts that have exceeded their timeout: each is retried or fails as its policy says.
    Runs that are parked past their time are woken or ended. ``dice`` is the random number, at
    least 0 and below 1, for the jitter of retries.

    Answers:
        int  how many attempts and parked runs were processed
    """

    dice: float
    limit: int = 200


class RevokeLease(Operation, kw_only=True):
    """Take a run from its holder; it becomes claimable again.

    Answers:
        bool         False if the run has no holder, or another one than ``session_id``
    Raises:
        RunNotFound  there is no run of this id in the namespace
        RunFinished  the run has ended
    """

    run_id: str
    namespace: str
    reason: str
    session_id: str | None = None
    by: str | None = None


class SetPriority(Operation, kw_only=True):
    """Change the priority of a run that has not ended.

    Answers:
        int          the old priority
    Raises:
        RunNotFound  there is no run of this id in the namespace
        RunFinished  the run has ended
    """

    run_id: str
    namespace: str
    priority: int
    by: str | None = None


class OverrideRun(Operation, kw_only=True):
    """End a run with the outcome that an operator gives, whether or not it has a holder.

    Answers:
        Status       the new status
    Raises:
        RunNotFound  there is no run of this id in the namespace
        RunFinished  the run has ended
    """

    run_id: str
    namespace: str
    status: Status
    reason: str
    result: bytes | None = None
    error: bytes | None = None
    payloads: Sequence[Payload] = ()
    by: str | None = None
