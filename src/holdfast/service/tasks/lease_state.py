"""A run that is held by an explicit lease, as far as its holder knows, and what the calls of a
holder come to."""

from __future__ import annotations

import msgspec

from holdfast.core.runs import RunRecord
from holdfast.core.status import Status
from holdfast.core.streams import rules as stream_rules
from holdfast.core.tasks import policy as task_policy
from holdfast.core.tasks.policy import LeaseProof, TaskPolicy
from holdfast.core.tasks.suspension import Suspension
from holdfast.core.waits import Signal
from holdfast.errors import HoldfastError


class Retried(msgspec.Struct, frozen=True):
    """The attempt is made again, at ``at`` (microseconds since 1970)."""

    at: int


class RunEnded(msgspec.Struct, frozen=True):
    """The run is over."""

    status: Status


class Deferred(msgspec.Struct, frozen=True):
    """The run is put off, or waits; somebody will claim it again."""

    status: Status
    until: int | None


class WaitResult(msgspec.Struct):
    """What the last wait of a run came to: ``how`` is "signals", "timeout" or "release"; ``by`` is
    who let it go."""

    how: str
    signals: list[Signal] = []
    by: str | None = None
    value: bytes = b"null"


class LeaseTerm:
    """Until when the leases of a session last, as far as its holder knows: somebody else may have
    renewed them."""

    def __init__(self, until: int) -> None:
        self.until = until


class LeaseState:
    """A run that is held by an explicit lease, as far as its holder knows."""

    def __init__(
        self, proof: LeaseProof, run: RunRecord, seq: int, policy: TaskPolicy, term: LeaseTerm
    ) -> None:
        self.proof, self.run, self.seq, self.policy, self.term = proof, run, seq, policy, term
        self.open: Suspension | None = None
        """What it was suspended for, if nobody has judged yet whether that has come."""
        self.resumed: WaitResult | None = None
        self.failures = task_policy.AttemptFailures()
        self.life = 0
        """How often the run was put back to work after it had completed."""
        self.trouble: HoldfastError | None = None
        """Why what it waited for cannot be told."""
        self._rate: stream_rules.FrameRate | None = None

    @property
    def attempt(self) -> int:
        """Which attempt this is; the first is 1."""
        return self.failures.retried + 1

    @property
    def idempotency_key(self) -> str:
        """The same for every holder and attempt, until the run is done again after it had
        completed."""
        return self.proof.run_id if self.life == 0 else f"{self.proof.run_id}~{self.life + 1}"

    def came(self, count: int, now: int, ttl: int) -> int:
        """Frames of best effort came, one after another since the last call: return how many are to
        be kept."""
        if self._rate is None:
            self._rate = stream_rules.FrameRate()
            return self._rate.came(now, ttl)
        before = self._rate.last
        return max(
            self._rate.came(before + (now - before) * number // count, ttl)
            for number in range(1, count + 1)
        )
