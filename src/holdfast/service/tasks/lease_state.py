"""The state of an explicit lease, as its holder knows it, and the outcomes of a holder's calls."""

from __future__ import annotations

from datetime import datetime

import msgspec

from holdfast.core.runs import RunRecord
from holdfast.core.status import Status
from holdfast.core.streams import rules as stream_rules
from holdfast.core.tasks import policy as task_policy
from holdfast.core.tasks.children import ChildrenWait
from holdfast.core.tasks.policy import LeaseProof, TaskPolicy
from holdfast.core.tasks.suspension import Suspension
from holdfast.core.waits import Signal
from holdfast.errors import HoldfastError


class Retried(msgspec.Struct, frozen=True):
    """The run is attempted again, at ``at``."""

    at: datetime


class RunEnded(msgspec.Struct, frozen=True):
    """The run has ended, with this status."""

    status: Status


class Deferred(msgspec.Struct, frozen=True):
    """The run is delayed or waits, until ``until`` if that is given; then it can be claimed
    again."""

    status: Status
    until: datetime | None


class ChildrenLeft(msgspec.Struct, frozen=True):
    """The run has not ended yet: some of its children have still to be asked to stop. Repeat the
    write."""


class Emitted(msgspec.Struct, frozen=True):
    """Frames were appended. ``seq`` is the number of the last frame within the run, ``frames`` how
    many frames the attempt has appended so far. ``version`` is the version of the summary after a
    patch, else None."""

    seq: int
    frames: int
    version: int | None = None


class WaitResult(msgspec.Struct):
    """The outcome of the last wait of a run: ``how`` is "signals", "timeout" or "release"; ``by``
    is the person who released it."""

    how: str
    signals: list[Signal] = []
    by: str | None = None
    value: bytes = b"null"


class LeaseTerm:
    """The expiry of the leases of a session, as their holder knows it: another process with the
    same session may have renewed them."""

    def __init__(self, until: int, session_id: str = "", worker: str | None = None) -> None:
        self.until = until
        self.stamp: bytes = msgspec.json.encode({"session": session_id, "worker": worker})
        """The session and its worker, which the last event of an attempt names."""


class LeaseState:
    """A run with an explicit lease, as its holder knows it."""

    def __init__(
        self, proof: LeaseProof, run: RunRecord, seq: int, policy: TaskPolicy, term: LeaseTerm
    ) -> None:
        self.proof: LeaseProof = proof
        self.run: RunRecord = run
        self.seq: int = seq
        """The number of the last event that the holder knows."""
        self.policy: TaskPolicy = policy
        self.term: LeaseTerm = term
        self.leased_at: int | None = None
        """When the holder received the lease; None if that is not known."""
        self.open: Suspension | None = None
        """The last suspension of the run, if it is not yet recorded that it is over."""
        self.resumed: WaitResult | None = None
        self.failures: task_policy.AttemptFailures = task_policy.AttemptFailures()
        self.children_wait: ChildrenWait | None = None
        """The wait for its children, if that is the last wait of the run."""
        self.has_children: bool = False
        """Whether holders have started children of the run."""
        self.life: int = 0
        """How often the run was replayed after it had completed."""
        self.resume_error: HoldfastError | None = None
        """Why the outcome of the last wait cannot be read; None if it can."""
        self.stream_generation: int | None = None
        """The generation of the stream that this attempt appends to; None if it is not known
        yet."""
        self._rate: stream_rules.FrameRate | None = None

    @property
    def attempt(self) -> int:
        """The number of this attempt; the first is 1."""
        return self.failures.retried + 1

    @property
    def idempotency_key(self) -> str:
        """A key that all holders and attempts of the run share, until the run is replayed after it
        had completed."""
        if self.life == 0:
            return self.proof.run_id
        return f"{self.proof.run_id}~{self.life + 1}"

    def frames_to_keep(self, count: int, now: int, ttl: int) -> int:
        """Return how many best-effort frames to keep, after *count* more were emitted.

        The frames are counted as if they had been emitted evenly since the last call. *now* and
        *ttl* are in microseconds."""
        if self._rate is None:
            self._rate = stream_rules.FrameRate()
            return self._rate.came(now, ttl)
        before = self._rate.last
        return max(
            self._rate.came(before + (now - before) * number // count, ttl)
            for number in range(1, count + 1)
        )
