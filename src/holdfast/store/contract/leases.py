"""What can be done with explicit leases, and to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from holdfast.core.events import Event
from holdfast.core.payload import Payload
from holdfast.core.runs import RunRecord
from holdfast.core.status import Status
from holdfast.core.waits import Signal
from holdfast.store.contract.runs import Advance

Judge = Callable[["LeasedTask", list[Event], Callable[[], list[Signal]]], Advance | None]


class ClaimLeases(msgspec.Struct):
    """Like Claim, for a program that is no Python function. Answers list[Leased]; the attempts that
    may take only so long are armed. With ``run_id`` it is this very run, if that can be claimed,
    whatever the limits of its lane."""

    session_id: str
    routes: Sequence[tuple[int, str]]
    limit: int
    run_id: str | None = None
    judge: Judge | None = None
    """Says what is written of a run that has a history, with the claim: what its wait came to, or
    that it waits on. It is told the history since the last wait, and before that how attempts
    failed. It must not raise, and may be asked again."""


class LeasedTask(msgspec.Struct):
    """A run that was leased, where its history stands, and what was agreed when it was started."""

    run: RunRecord
    seq: int
    policy: bytes | None


class TaskCompletion(msgspec.Struct):
    """A leased run that ends well: under which generation, with which result; ``seq`` is the number
    of its last line."""

    run_id: str
    generation: int
    seq: int
    result: bytes


class CompleteLeases(msgspec.Struct):
    """End leased runs well, each as an Advance would. Answers list[bool]: whose lease stood; what
    did not is left alone. It is for runs of whose end nobody else must hear (no parent, no
    schedule, no graph), each of them once."""

    done: Sequence[TaskCompletion]


class RenewLeases(msgspec.Struct, kw_only=True):
    """Keep a session that has not expired, and all that it holds; with ``run_id`` only if it
    holds this run, under this generation. Answers until when it lasts now, or None when it is
    too late."""

    session_id: str
    lifetime: int
    run_id: str | None = None
    generation: int = 0


class ExpireAttempts(msgspec.Struct):
    """Take back what has been at work for too long; it is tried again, or fails, as its policy
    says. Answers how many."""

    dice: float
    limit: int = 200


class RevokeLease(msgspec.Struct, kw_only=True):
    """Take a run from its holder; it can be claimed again. Answers True, or False when nobody holds
    it, or somebody else than ``session_id``. Raises RunNotFound, RunFinished."""

    run_id: str
    namespace: str
    reason: str
    session_id: str | None = None


class SetPriority(msgspec.Struct, kw_only=True):
    """Change the priority of a live run. Answers the old one. Raises RunNotFound, RunFinished."""

    run_id: str
    namespace: str
    priority: int


class OverrideRun(msgspec.Struct, kw_only=True):
    """End a live run as an operator says, whoever holds it. Answers its status. Raises RunNotFound,
    RunFinished."""

    run_id: str
    namespace: str
    status: Status
    reason: str
    result: bytes | None = None
    error: bytes | None = None
    payloads: Sequence[Payload] = ()


LeaseTransition = (
    ClaimLeases
    | RenewLeases
    | CompleteLeases
    | ExpireAttempts
    | RevokeLease
    | SetPriority
    | OverrideRun
)


class LeaseReader(Protocol):
    """What can be asked about leases."""

    def next_attempt_end(self) -> int | None:
        """When the next attempt will have taken too long."""
