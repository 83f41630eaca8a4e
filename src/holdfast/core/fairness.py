"""Fair shares of a lane: start-time fair queueing. Pure.

Each share has a virtual time, which moves on by a step with each run that it starts, and by less
the more it weighs. A run is ranked by the virtual time of its share, but never before that of the
lane: who was idle has saved up nothing. So the smallest rank goes first, as ever, and shares take
turns; a burst of one waits behind its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.core.text import is_storable, plain_text
from holdfast.errors import BadOption

STEP = 1_000_000
"""By how much the virtual time of a share of weight 1 moves on with each run."""


def begin(lane_vtime: int | None, vtime: int | None, *, busy: bool, now: int) -> int:
    """Say at which virtual time the next run of a share begins. When nothing is ready the lane
    begins anew, now."""
    return max(lane_vtime or 0, vtime or 0) if busy else now


def after(start: int, weight: float) -> int:
    """Say where the virtual time of a share stands after one more run."""
    return start + max(int(STEP / weight), 1)


def weight_of(weights: str | None, share: str) -> float:
    """Return what a share weighs."""
    found: dict[str, float] = msgspec.json.decode(weights) if weights else {}
    return float(found.get(share, 1))


def checked_weights(weights: Mapping[str, Any] | None) -> str | None:
    """Return weights as they are stored. Raises BadOption."""
    if weights is None:
        return None
    if not isinstance(weights, Mapping):
        raise BadOption(
            option="weights", value=weights, why='name shares and numbers, such as {"gold": 3}'
        )
    for share, weight in weights.items():
        number = (
            isinstance(weight, int | float)
            and not isinstance(weight, bool)
            and 0.001 <= weight <= 1000
        )
        if not isinstance(share, str) or not share or not number or not is_storable(share):
            raise BadOption(
                option="weights",
                value={share: weight},
                why="a weight is a number from 0.001 to 1000",
            )
    plain = {
        plain_text(share): float(weight) if isinstance(weight, float) else int(weight)
        for share, weight in weights.items()
    }
    return msgspec.json.encode(plain).decode() if plain else None
