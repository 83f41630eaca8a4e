"""Work that is leased to programs that are no Python functions: proofs of a lease, kinds of
failure, and what follows. Pure."""

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
    """Why an attempt failed; it decides what comes next."""

    TRANSIENT = "transient"
    """It may go well next time: tried again as the policy says."""
    TIMEOUT = "timeout"
    """It took too long: tried again as the policy says."""
    INFRASTRUCTURE = "infrastructure"
    """The machine, not the work: tried again at once, and not counted as a retry, up to the
    policy's ``reclaims``."""
    PERMANENT = "permanent"
    """Trying again is of no use: the run fails."""
    CANCELLED = "cancelled"
    """It was stopped: the run is cancelled."""


class TaskPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was agreed when a run was started, for whoever leases it. Times are microseconds."""

    retries: int = 0
    delay: int = 1_000_000
    factor: float = 2.0
    cap: int = 60_000_000
    jitter: float = 0.1
    timeout: int | None = None
    """How long an attempt may take."""
    reclaims: int = 100
    """How often a lost attempt is taken up again."""
    replays: int = 10
    """How often it may be put back to work after its end."""


_OF_RETRIES = ("retries", "delay", "factor", "cap", "jitter")


def policy_of(given: Mapping[str, Any]) -> TaskPolicy:
    """Return the policy that a user wrote. Raises BadOption, BadDuration."""
    if not isinstance(given, Mapping):
        raise BadOption(
            option="policy",
            value=given,
            why='give settings, such as {"retries": 3, "timeout": "10m"}',
        )
    unknown = set(given) - set(TaskPolicy.__struct_fields__)
    if unknown:
        raise BadOption(
            option=f"policy {sorted(unknown)[0]}", known=", ".join(TaskPolicy.__struct_fields__)
        )
    retry = policy_from(**{name: given[name] for name in _OF_RETRIES if name in given})
    timeout, caps = (
        given.get("timeout"),
        {name: given[name] for name in ("reclaims", "replays") if name in given},
    )
    for name, cap in caps.items():
        if isinstance(cap, bool) or not isinstance(cap, int) or cap < 0:
            raise BadOption(
                option=f"policy {name}", value=cap, why="it is a whole number, not negative"
            )
    limit = None if timeout is None else duration.parse(timeout)
    if limit is not None and limit <= 0:
        raise BadOption(
            option="policy timeout", value=timeout, why="it must be longer than nothing"
        )
    return TaskPolicy(**{name: getattr(retry, name) for name in _OF_RETRIES}, timeout=limit, **caps)


class AttemptFailures(msgspec.Struct):
    """How the attempts at a run have failed so far, since it was started or replayed."""

    retried: int = 0
    lost: int = 0


def failures_in(history: Sequence[Event]) -> AttemptFailures:
    """Count the failed attempts in a history."""
    found = AttemptFailures()
    for event in history:
        if event.kind == EventKind.RUN_REPLAYED:
            found = AttemptFailures()
        elif event.kind == EventKind.ATTEMPT_FAILED:
            kind = msgspec.json.decode(event.data or b"{}").get("kind")
            found.lost += kind == FailureKind.INFRASTRUCTURE
            found.retried += kind != FailureKind.INFRASTRUCTURE
        elif event.kind in (EventKind.LEASE_LOST, EventKind.LEASE_REVOKED):
            found.lost += 1
    return found


def decide(
    policy: TaskPolicy, kind: FailureKind, before: AttemptFailures, dice: float
) -> int | None:
    """Say after how many microseconds a failed attempt is made again, or None to give up."""
    if kind in (FailureKind.PERMANENT, FailureKind.CANCELLED):
        return None
    if kind is FailureKind.INFRASTRUCTURE:
        return 0 if before.lost < policy.reclaims else None
    if before.retried >= policy.retries:
        return None
    rule = RetryPolicy(policy.retries, policy.delay, policy.factor, policy.cap, policy.jitter)
    return rule.next_delay(before.retried + 1, dice)


def replays_in(history: Sequence[Event]) -> int:
    """Count how often a run was put back to work after its end."""
    return sum(event.kind == EventKind.RUN_REPLAYED for event in history)


def lives_in(history: Sequence[Event]) -> int:
    """Count how often a run was put back to work after it had completed."""
    lives, completed = 0, False
    for event in history:
        if event.kind == EventKind.RUN_REPLAYED:
            lives += completed
            completed = False
        elif event.kind == EventKind.RUN_COMPLETED:
            completed = True
    return lives


class LeaseProof(msgspec.Struct, frozen=True):
    """What shows that somebody holds a run: the run, the generation, the session. As text
    ``run.generation.session``."""

    run_id: str
    generation: int
    session_id: str

    def __str__(self) -> str:
        return f"{self.run_id}.{self.generation}.{self.session_id}"


LONGEST_GENERATION = 19
"""Digits of the largest number that a database can hold."""


def read_proof(text: object) -> LeaseProof:
    """Read a proof. Raises BadLease, which says what is missing."""
    if not isinstance(text, str):
        raise BadLease(lease=text, why="it is a text such as RUN.GENERATION.SESSION")
    parts = text.rsplit(".", 2)
    names = ("run", "generation", "session")
    missing = [name for place, name in enumerate(names) if place >= len(parts) or not parts[place]]
    if missing:
        raise BadLease(lease=text, missing=", ".join(missing))
    if not parts[1].isascii() or not parts[1].isdigit() or len(parts[1]) > LONGEST_GENERATION:
        raise BadLease(lease=text, why="the generation is a number")
    return LeaseProof(parts[0], int(parts[1]), parts[2])
