"""Rank the runs of a lane's shares by start-time fair queueing (SFQ). Pure.

Each share has a virtual time, which advances with each run that it starts, by ``STEP`` divided by
the weight of the share. A run is ranked by the virtual time of its share, but never before the
virtual time of the lane: a share gains no credit while it is idle. The smallest rank is claimed
first, so shares take turns, and a burst of one share delays only that share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.core import typed_json
from holdfast.core.text import is_storable, plain_text
from holdfast.errors import BadOption

STEP = 1_000_000
"""The advance of the virtual time of a share of weight 1 with each run."""


def begin(lane_vtime: int | None, vtime: int | None, *, busy: bool, now: int) -> int:
    """Return the virtual time of the next run of a share. If the lane has no ready run (*busy* is
    false), its virtual time restarts at *now*."""
    if not busy:
        return now
    return max(lane_vtime or 0, vtime or 0)


def after(start: int, weight: float) -> int:
    """Return the virtual time of a share after one more run."""
    return start + max(int(STEP / weight), 1)


def weight_of(weights: str | None, share: str) -> float:
    """Return the weight of a share, 1 unless stored otherwise."""
    weight_by_share: dict[str, float] = msgspec.json.decode(weights) if weights else {}
    return float(weight_by_share.get(share, 1))


def merged_weights(stored: str | None, weights: Mapping[str, Any] | None) -> str | None:
    """Return weights by share in their stored form, as JSON. Shares that are not named keep the
    stored weight; None removes the weight of a share, or all weights. Raises BadOption."""
    if weights is None:
        return None
    if not isinstance(weights, Mapping):
        raise BadOption(
            option="weights", value=weights, why='name shares and numbers, such as {"gold": 3}'
        )
    for share, weight in weights.items():
        is_weight = weight is None or (
            isinstance(weight, int | float)
            and not isinstance(weight, bool)
            and 0.001 <= weight <= 1000
        )
        if not isinstance(share, str) or not share or not is_weight or not is_storable(share):
            raise BadOption(
                option="weights",
                value={share: weight},
                why="a weight is a number from 0.001 to 1000",
            )
    merged = typed_json.decode(stored, dict[str, int | float]) if stored else {}
    for share, weight in weights.items():
        name = plain_text(share)
        if weight is None:
            merged.pop(name, None)
        else:
            merged[name] = float(weight) if isinstance(weight, float) else int(weight)
    if not merged:
        return None
    return msgspec.json.encode(merged).decode()
