"""The stored records of worker sessions and lanes."""

from __future__ import annotations

from typing import Any

import msgspec


class Session(msgspec.Struct, kw_only=True):
    """The session of a worker process, which holds leases as long as it sends heartbeats."""

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
        """The offer of the worker: workflows, lanes, capabilities, namespace, concurrency, and
        whether it claims runs."""
        offer: dict[str, Any] = msgspec.json.decode(self.serves)
        return offer


class Lane(msgspec.Struct, kw_only=True):
    """A named queue and its limits."""

    name: str
    concurrency: int | None = None
    rate_limit: int | None = None
    rate_per: int | None = None
    free_at: int = 0
    """The time from which its rate admits another run; in the past, or 0, if it does so now."""
    paused: bool = False
    per_share: int | None = None
    share_rate_limit: int | None = None
    share_rate_per: int | None = None
    weights: str | None = None
    draining: bool = False

    @property
    def by_share(self) -> bool:
        """Whether the lane limits the concurrency or the rate of each share."""
        return self.per_share is not None or self.share_rate_limit is not None
