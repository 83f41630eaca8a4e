"""Rate limits by the generic cell rate algorithm: the whole state of a limit is one instant, `free_at`.

`free_at` is when all that was let go has been paid for, at `per / limit` each; it is 0 for a limit that was never used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from holdfast.core import duration
from holdfast.errors import BadDuration, BadOption

_RATE = re.compile(r"\s*([0-9]{1,12})\s*/\s*(\S.*?)\s*")


@dataclass(frozen=True, slots=True)
class Rate:
    """At most *limit* at once, and *limit* more in each *per* microseconds. Raises BadOption."""

    limit: int
    per: int

    def __post_init__(self) -> None:
        for name, value in (("limit", self.limit), ("per", self.per)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise BadOption(option=f"rate {name}", value=value, why="it must be a whole number of at least 1")


def parse_rate(text: str) -> Rate:
    """Read "10/s", "100/m", "5/1h" or "3/10s". Raises BadOption."""
    found = _RATE.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise BadOption(option="rate", value=text, why="write it like 10/s, 100/m or 3/10s")
    limit, per = found.groups()
    try:
        return Rate(int(limit), duration.parse("1" + per if per.isalpha() else per))
    except BadDuration as error:
        raise BadOption(option="rate", value=text, why=str(error.facts["why"])) from None


def show(rate: Rate) -> str:
    """Write *rate* so that `parse_rate` reads the same rate again."""
    unit, size = next((unit, size) for unit, size in duration.UNITS.items() if rate.per % size == 0)
    count = rate.per // size
    return f"{rate.limit}/{'' if count == 1 else count}{unit}"


def admit(rate: Rate, free_at: int, now: int, wanted: int) -> tuple[int, int]:
    """Say how many of *wanted* may go *now*, and what `free_at` is once they have gone.

    The guarantee, as long as *now* never goes back: in any span of d microseconds, both ends included, at most
    `limit + d * limit / per` go. So a burst of `limit` may go at once, any window `[t, t + per)` holds at most
    `2 * limit - 1`, and in the long run no more than `limit` go in each `per`. (At most `limit` in every window would
    need to remember each of the last `limit` instants, or to slow down steady traffic that is below the rate.)

    After a change to a faster rate pass `min(free_at, now + rate.per)`, or the old debt is paid at the old pace.
    """
    start = max(free_at, now)
    room = (now + rate.per - start) * rate.limit // rate.per
    count = max(0, min(wanted, room))
    return count, (start + _cost(rate, count) if count else free_at)


def next_at(rate: Rate, free_at: int, now: int) -> int:
    """Say when one more may go: *now*, or the first instant after it at which `admit` lets one go."""
    return max(now, free_at - rate.per + _cost(rate, 1))


def _cost(rate: Rate, count: int) -> int:
    return -(-count * rate.per // rate.limit)  # rounded up, so that rounding never lets more go
