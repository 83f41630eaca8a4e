"""Policy of leased tasks: kinds of failure, retries, and proofs of a lease. Pure.

A leased task is a run that a program claims and executes through the leases API or the command
line, instead of a Python function that a worker calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.core import duration
from holdfast.core.events import Event, EventKind
from holdfast.core.retry import RetryPolicy, policy_from
from holdfast.errors import BadLease, BadOption


class FailureKind(StrEnum):
    """The kind of failure of an attempt; it decides whether the attempt is repeated."""

    TRANSIENT = "transient"
    """The next attempt may succeed: it is retried as the policy says."""
    TIMEOUT = "timeout"
    """The attempt took too long: it is retried as the policy says."""
    INFRASTRUCTURE = "infrastructure"
    """The machine failed, not the work: it is retried immediately and not counted as a retry, up to
    the policy's ``reclaims``."""
    PERMANENT = "permanent"
    """A retry would fail again: the run fails."""
    CANCELLED = "cancelled"
    """The attempt was stopped: the run is cancelled."""


class TaskPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The policy of a leased run, fixed at its start. Times are microseconds."""

    retries: int = 0
    delay: int = 1_000_000
    factor: float = 2.0
    cap: int = 60_000_000
    jitter: float = 0.1
    timeout: int | None = None
    """How long an attempt may take."""
    reclaims: int = 100
    """How often a lost attempt is repeated."""
    replays: int = 10
    """How often the run may be replayed after its end."""


_RETRY_FIELDS = ("retries", "delay", "factor", "cap", "jitter")
"""The fields that a task policy shares with ``RetryPolicy``."""


def policy_of(settings: Mapping[str, Any]) -> TaskPolicy:
    """Return the policy with a user's settings. Raises BadOption, BadDuration."""
    if not isinstance(settings, Mapping):
        raise BadOption(
            option="policy",
            value=settings,
            why='it must be a mapping of settings, such as {"retries": 3, "timeout": "10m"}',
        )
    unknown = set(settings) - set(TaskPolicy.__struct_fields__)
    if unknown:
        raise BadOption(
            option=f"policy {sorted(unknown)[0]}", known=", ".join(TaskPolicy.__struct_fields__)
        )
    retry = policy_from(**{name: settings[name] for name in _RETRY_FIELDS if name in settings})
    caps = {name: settings[name] for name in ("reclaims", "replays") if name in settings}
    for name, cap in caps.items():
        if isinstance(cap, bool) or not isinstance(cap, int) or cap < 0:
            raise BadOption(
                option=f"policy {name}", value=cap, why="it must be a whole number, not negative"
            )
    timeout = settings.get("timeout")
    limit = duration.parse_optional(timeout)
    if limit is not None and limit <= 0:
        raise BadOption(option="policy timeout", value=timeout, why="it must be longer than zero")
    retry_fields = {name: getattr(retry, name) for name in _RETRY_FIELDS}
    return TaskPolicy(**retry_fields, timeout=limit, **caps)


class AttemptFailures(msgspec.Struct):
    """The numbers of failed attempts at a run since its start or its last replay: ``retried`` count
    against ``retries``, ``lost`` against ``reclaims``."""

    retried: int = 0
    lost: int = 0


def failures_in(history: Sequence[Event]) -> AttemptFailures:
    """Return the numbers of failed attempts in a history. A lost or revoked lease counts as a lost
    attempt."""
    failures = AttemptFailures()
    for event in history:
        if event.kind == EventKind.RUN_REPLAYED:
            failures = AttemptFailures()
        elif event.kind == EventKind.ATTEMPT_FAILED:
            kind = msgspec.json.decode(event.data or b"{}").get("kind")
            failures.lost += kind == FailureKind.INFRASTRUCTURE
            failures.retried += kind != FailureKind.INFRASTRUCTURE
        elif event.kind in (EventKind.LEASE_LOST, EventKind.LEASE_REVOKED):
            failures.lost += 1
    return failures


def decide(
    policy: TaskPolicy, kind: FailureKind, before: AttemptFailures, dice: float
) -> int | None:
    """Return the delay before the next attempt in microseconds, or None to give up. *before* counts
    the earlier failures, *dice* is the random number for the jitter."""
    if kind in (FailureKind.PERMANENT, FailureKind.CANCELLED):
        return None
    if kind is FailureKind.INFRASTRUCTURE:
        if before.lost < policy.reclaims:
            return 0
        return None
    if before.retried >= policy.retries:
        return None
    rule = RetryPolicy(policy.retries, policy.delay, policy.factor, policy.cap, policy.jitter)
    return rule.next_delay(before.retried + 1, dice)


def replays_in(history: Sequence[Event]) -> int:
    """Return how often a run was replayed."""
    return sum(event.kind == EventKind.RUN_REPLAYED for event in history)


def lives_in(history: Sequence[Event]) -> int:
    """Return how often a run was replayed after it had completed."""
    lives = 0
    completed = False
    for event in history:
        if event.kind == EventKind.RUN_REPLAYED:
            lives += completed
            completed = False
        elif event.kind == EventKind.RUN_COMPLETED:
            completed = True
    return lives


class LeaseProof(msgspec.Struct, frozen=True):
    """The proof that a program holds the lease of a run: run, generation and session. As text it is
    ``run.generation.session``."""

    run_id: str
    generation: int
    session_id: str

    def __str__(self) -> str:
        return f"{self.run_id}.{self.generation}.{self.session_id}"


LONGEST_GENERATION = 19
"""The number of digits of the largest integer of a database."""


def read_proof(text: object) -> LeaseProof:
    """Return the proof that a text holds. Raises BadLease, which names the missing parts."""
    if not isinstance(text, str):
        raise BadLease(lease=text, why="it must be text such as RUN.GENERATION.SESSION")
    parts = text.rsplit(".", 2)
    names = ("run", "generation", "session")
    missing = [name for index, name in enumerate(names) if index >= len(parts) or not parts[index]]
    if missing:
        raise BadLease(lease=text, missing=", ".join(missing))
    if not parts[1].isascii() or not parts[1].isdigit() or len(parts[1]) > LONGEST_GENERATION:
        raise BadLease(lease=text, why="the generation must be a number")
    return LeaseProof(parts[0], int(parts[1]), parts[2])
