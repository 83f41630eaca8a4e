"""Views of lanes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from holdfast.core import rate_limits, typed_json
from holdfast.core.claiming import rate_of, share_rate_of
from holdfast.core.sessions import Lane
from holdfast.views.values import optional_instant


class LaneView(msgspec.Struct, kw_only=True):
    """A named queue and its limits; None means no limit. ``rate`` is a text such as 10/s. ``state``
    is open, paused or draining; ``running`` is the number of its runs that do not wait, ``shares``
    their number by share, without runs that have none. ``ready`` is the number of its runs that
    wait for a worker, ``oldest_ready`` since when the run that is claimed next is ready."""

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
    shares: dict[str, int]
    ready: int
    oldest_ready: datetime | None


class LaneUse(NamedTuple):
    """The runs of all lanes, by lane."""

    running: Mapping[str, int]
    shares: Mapping[str, Mapping[str, int]]
    ready: Mapping[str, int]
    oldest_ready: Mapping[str, int]


def of(lane: Lane, use: LaneUse) -> LaneView:
    """Return the view of a lane."""
    weights = typed_json.decode(lane.weights, dict[str, float]) if lane.weights else {}
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
        running=use.running.get(lane.name, 0),
        shares=dict(use.shares.get(lane.name, {})),
        ready=use.ready.get(lane.name, 0),
        oldest_ready=optional_instant(use.oldest_ready.get(lane.name)),
    )


def _rate(limit: rate_limits.RateLimit | None) -> str | None:
    return None if limit is None else rate_limits.show(limit)


def _state(lane: Lane) -> str:
    if lane.paused:
        return "paused"
    return "draining" if lane.draining else "open"
