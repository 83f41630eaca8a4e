"""A schedule as it is stored, and how the runs that it starts are named."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

import msgspec

from holdfast.core.runs import Route

OVERLAPS = ("skip", "queue", "cancel", "allow")
MISFIRES = ("once", "all", "none")
CODE, CALL = "code", "call"
GONE = "its decorator is no longer in the code"
"""Why a schedule is paused that a decorator had made."""

_PREFIX = "schedule "
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Schedule(msgspec.Struct, kw_only=True):
    """A rule that starts runs in time. Times are microseconds since 1970, UTC."""

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
    """How long each run may take."""
    rule: str
    zone: str = "UTC"
    overlap: str = "skip"
    queue_limit: int = 100
    misfire: str = "once"
    catch_up: int = 100
    grace: int = 60_000_000
    jitter: int = 0
    origin: str = CALL
    paused: str | None = None
    """Why it is paused; None when it is not."""
    anchor: int = 0
    """From when intervals are counted."""
    next_at: int | None = None
    """The next tick that nothing was done about yet; None when there is none."""
    wake_at: int | None = None
    """When somebody must see to it."""
    last_at: int | None = None
    """The last tick for which a run was started."""
    queued: list[int] = []
    started: int = 0
    skipped: int = 0
    note: str | None = None
    """What became of the last tick that started no run."""
    created_at: int = 0

    @property
    def route(self) -> Route:
        """What a worker must offer to serve its runs."""
        return Route(self.namespace, self.workflow, self.version, self.lane, self.capabilities)


class Tick(msgspec.Struct):
    """One instant of a schedule, and the run that it has, if any."""

    at: int
    run: str | None = None
    created: bool = False


def key_of(name: str, at: int, *, trigger: str | None = None) -> str:
    """Return the key of the run of a tick: there is one run for it, whoever starts it and however
    often."""
    moment = (_EPOCH + timedelta(microseconds=at)).isoformat().replace("+00:00", "Z")
    return f"{_PREFIX}{name} {moment}" + (f" {trigger}" if trigger else "")


def tick_of(key: str | None) -> tuple[str, datetime] | None:
    """Return the schedule that started the run of this key, and for which instant; None if no
    schedule did."""
    if key is None or not key.startswith(_PREFIX):
        return None
    words = key[len(_PREFIX) :].split(" ")
    for last in (len(words) - 1, len(words) - 2):
        if last >= 1:
            try:
                return " ".join(words[:last]), datetime.fromisoformat(words[last])
            except ValueError:
                continue
    return None


def delay_of(schedule: Schedule, tick: int) -> int:
    """By how much a tick is late on purpose: always by the same, so that whoever looks again sees
    the same."""
    if not schedule.jitter:
        return 0
    seed = f"{schedule.namespace}\n{schedule.name}\n{tick}".encode()
    return int.from_bytes(hashlib.sha256(seed).digest()[:8], "big") % schedule.jitter
