"""Sessions of workers, and the lanes that they serve."""

from __future__ import annotations

from typing import Any

import msgspec


class Session(msgspec.Struct, kw_only=True):
    """A worker process that holds leases as long as it heartbeats."""

    id: str
    worker: str
    host: str
    pid: int
    slot: int
    started_at: int
    beat_at: int
    expires_at: int
    serves: bytes

    @property
    def offer(self) -> dict[str, Any]:
        """What it serves, as data: workflows, lanes, capabilities, namespace, concurrency, and
        whether it claims."""
        told: dict[str, Any] = msgspec.json.decode(self.serves)
        return told


class Lane(msgspec.Struct, kw_only=True):
    """A named queue and its limits."""

    name: str
    concurrency: int | None = None
    rate_limit: int | None = None
    rate_per: int | None = None
    free_at: int = 0
    """When its rate lets one more begin; past or 0 when it does now."""
    paused: bool = False
    per_share: int | None = None
    share_rate_limit: int | None = None
    share_rate_per: int | None = None
    weights: str | None = None
    draining: bool = False

    @property
    def by_share(self) -> bool:
        """Whether it limits what one share may have at work, or begin."""
        return self.per_share is not None or self.share_rate_limit is not None
