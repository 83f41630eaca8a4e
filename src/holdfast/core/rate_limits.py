"""Sliding-window rate limits: at most `limit` admissions in any span of `per` microseconds.

Admissions are numbered. The count within the window is therefore the last number minus the last
number that has left the window, and the next admission is possible as soon as the admission that
came `limit` before it leaves the window.
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
    """Return the rate that a text such as "10/s", "100/m", "5/1h" or "3/10s" stands for.

    Raises BadOption, which names the *option*."""
    match = re.fullmatch(_RATE, text) if isinstance(text, str) else None
    if match is None:
        raise BadOption(option=option, value=text, why="write it like 10/s, 100/m or 3/10s")
    limit, per = match.groups()
    try:
        return RateLimit(int(limit), duration.parse("1" + per if per.isalpha() else per))
    except (BadDuration, BadOption) as error:
        raise BadOption(option=option, value=text, why=str(error.facts["why"])) from None


def show(rate: RateLimit) -> str:
    """Return *rate* as a text that `parse_rate` reads as the same rate."""
    unit, size = next((unit, size) for unit, size in duration.UNITS.items() if rate.per % size == 0)
    count = rate.per // size
    return f"{rate.limit}/{'' if count == 1 else count}{unit}"


class Window(msgspec.Struct, frozen=True):
    """The recent admissions: ``total`` is the number of the last one, ``last_at`` its time, and
    ``base`` the last number that has left the window."""

    total: int = 0
    base: int = 0
    last_at: int = 0

    def room(self, limit: int) -> int:
        """Return how many more admissions are possible now."""
        return max(limit - (self.total - self.base), 0)

    def at(self, now: int) -> int:
        """Return the time to record for an admission at *now*: never before the last one, even if
        the clock went back."""
        return max(now, self.last_at)


def is_within(per: int, instant: int | None, now: int) -> bool:
    """Return whether an admission at *instant* is still within the window of *per* microseconds."""
    return instant is not None and instant > now - per
