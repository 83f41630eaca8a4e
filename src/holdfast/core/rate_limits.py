"""Rate limits by a sliding window: in any span of `per` at most `limit` begin, wherever the span
begins.

What has begun is numbered. So how many began within the window is the last number less the last one
that has left it, and one more may begin as soon as the one leaves that came `limit` before it.
"""

from __future__ import annotations

import re

import msgspec

from holdfast.core import duration
from holdfast.errors import BadDuration, BadOption

_RATE = r"\s*([0-9]{1,12})\s*/\s*(\S.*?)\s*"


class RateLimit(msgspec.Struct, frozen=True):
    """At most *limit* in any *per* microseconds. Raises BadOption."""

    limit: int
    per: int

    def __post_init__(self) -> None:
        for name, value in (("limit", self.limit), ("per", self.per)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise BadOption(
                    option=f"rate {name}",
                    value=value,
                    why="it must be a whole number of at least 1",
                )


def parse_rate(text: str, option: str = "rate") -> RateLimit:
    """Read "10/s", "100/m", "5/1h" or "3/10s". Raises BadOption, which names the *option*."""
    found = re.fullmatch(_RATE, text) if isinstance(text, str) else None
    if found is None:
        raise BadOption(option=option, value=text, why="write it like 10/s, 100/m or 3/10s")
    limit, per = found.groups()
    try:
        return RateLimit(int(limit), duration.parse("1" + per if per.isalpha() else per))
    except (BadDuration, BadOption) as error:
        raise BadOption(option=option, value=text, why=str(error.facts["why"])) from None


def show(rate: RateLimit) -> str:
    """Write *rate* so that `parse_rate` reads the same rate again."""
    unit, size = next((unit, size) for unit, size in duration.UNITS.items() if rate.per % size == 0)
    count = rate.per // size
    return f"{rate.limit}/{'' if count == 1 else count}{unit}"


class Window(msgspec.Struct, frozen=True):
    """What began of late: the number of the last one and its time, and the last number that has
    left the window."""

    total: int = 0
    base: int = 0
    last_at: int = 0

    def room(self, limit: int) -> int:
        """Say how many more may begin."""
        return max(limit - (self.total - self.base), 0)

    def at(self, now: int) -> int:
        """Say at what time what begins now is noted: never before what began already, whatever
        clocks say."""
        return max(now, self.last_at)


def is_within(per: int, instant: int | None, now: int) -> bool:
    """Say whether what began then is still within the window."""
    return instant is not None and instant > now - per
