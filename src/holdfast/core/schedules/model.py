"""The stored record of a schedule, and the keys of the runs that it starts."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.core.runs import Route


class Overlap(StrEnum):
    """What happens to a tick while a run of an earlier tick is live."""

    SKIP = "skip"
    QUEUE = "queue"
    CANCEL = "cancel"
    ALLOW = "allow"


class Misfire(StrEnum):
    """Which of the ticks that no worker served in time start a run."""

    ONCE = "once"
    ALL = "all"
    NONE = "none"


OVERLAPS = tuple(choice.value for choice in Overlap)
MISFIRES = tuple(choice.value for choice in Misfire)
CODE = "code"
"""The origin of a schedule that a decorator defines."""
CALL = "call"
"""The origin of a schedule that a call or a command created."""
MODEL = "model"
"""The origin of a schedule that a start event of a deployed model defines."""
GONE = "its decorator is no longer in the code"
"""The reason for which a schedule with origin CODE is paused."""

_PREFIX = "schedule "
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ScheduleDeclaration(msgspec.Struct, frozen=True):
    """A schedule that a definition declares. The options are the same as for ``schedules.set``."""

    name: str
    options: dict[str, Any]


class Schedule(msgspec.Struct, kw_only=True):
    """A rule that starts runs at given times. Times are microseconds since 1970, UTC."""

    namespace: str
    name: str
    workflow: str
    version: str
    lane: str
    capabilities: tuple[str, ...] = ()
    input: bytes
    priority: int = 0
    tags: dict[str, str] = {}
    deadline: int | None = None
    """The microseconds that each run may take."""
    rule: str
    zone: str = "UTC"
    overlap: str = Overlap.SKIP
    queue_limit: int = 100
    misfire: str = Misfire.ONCE
    catch_up: int = 100
    grace: int = 60_000_000
    jitter: int = 0
    origin: str = CALL
    paused: str | None = None
    """The reason for the pause; None if the schedule is not paused."""
    anchor: int = 0
    """The instant from which intervals are counted."""
    next_at: int | None = None
    """The first tick that was not processed yet; None if there are no more ticks."""
    wake_at: int | None = None
    """The time at which a worker must process the schedule."""
    last_at: int | None = None
    """The last tick for which a run was started."""
    queued: list[int] = []
    started: int = 0
    skipped: int = 0
    note: str | None = None
    """The reason why the last tick that started no run did not."""
    created_at: int = 0

    @property
    def route(self) -> Route:
        """The properties that a worker must offer to serve its runs."""
        return Route(self.namespace, self.workflow, self.version, self.lane, self.capabilities)


class Tick(msgspec.Struct):
    """One instant of a schedule, and its run, if any."""

    at: int
    run: str | None = None
    created: bool = False


def key_of(name: str, at: int, *, trigger: str | None = None) -> str:
    """Return the key of the run of a tick. It makes starting idempotent: a tick has one run, even
    if several workers start it, or one starts it repeatedly."""
    moment = (_EPOCH + timedelta(microseconds=at)).isoformat().replace("+00:00", "Z")
    key = f"{_PREFIX}{name} {moment}"
    if not trigger:
        return key
    return f"{key} {trigger}"


def delay_of(schedule: Schedule, tick: int) -> int:
    """Return the jitter of a tick, in microseconds: a hash of schedule and tick, so that every
    worker computes the same."""
    if not schedule.jitter:
        return 0
    seed = f"{schedule.namespace}\n{schedule.name}\n{tick}".encode()
    return int.from_bytes(hashlib.sha256(seed).digest()[:8], "big") % schedule.jitter
