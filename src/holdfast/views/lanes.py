"""Views of lanes."""

from __future__ import annotations

import msgspec

from holdfast.core import rate_limits
from holdfast.core.claiming import rate_of, share_rate_of
from holdfast.core.sessions import Lane


class LaneView(msgspec.Struct, kw_only=True):
    """A named queue and its limits; None means no limit. ``rate`` is a text such as 10/s. ``state``
    is open, paused or draining; ``running`` is the number of its runs that do not wait."""

    name: str
    concurrency: int | None
    rate: str | None
    per_share: int | None
    rate_per_share: str | None
    weights: dict[str, float]
    paused: bool
    draining: bool
    state: str
    running: int


def of(lane: Lane, *, running: int) -> LaneView:
    """Return the view of a lane."""
    weights = msgspec.json.decode(lane.weights, type=dict[str, float]) if lane.weights else {}
    return LaneView(
        name=lane.name,
        concurrency=lane.concurrency,
        rate=_rate(rate_of(lane)),
        per_share=lane.per_share,
        rate_per_share=_rate(share_rate_of(lane)),
        weights=weights,
        paused=lane.paused,
        draining=lane.draining,
        state=_state(lane),
        running=running,
    )


def _rate(limit: rate_limits.RateLimit | None) -> str | None:
    return None if limit is None else rate_limits.show(limit)


def _state(lane: Lane) -> str:
    if lane.paused:
        return "paused"
    return "draining" if lane.draining else "open"
