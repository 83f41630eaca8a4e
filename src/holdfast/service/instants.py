"""Convert times and durations of a caller to instants: microseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from holdfast.core import duration
from holdfast.core.duration import Duration
from holdfast.errors import BadDuration

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Moment = Duration | datetime
"""A time, or a duration from now."""


def instant(when: Moment, now: int) -> int:
    """Return a datetime as an instant, or the instant that lies a duration after *now*. The caller
    must check that it can be stored."""
    return _instant(when, now, sign=1)


def stored_instant(when: Moment | None, now: int) -> int | None:
    """Return ``instant`` of *when*, or None for None. Raises BadDuration if a row cannot hold
    it."""
    if when is None:
        return None
    at = instant(when, now)
    if not 0 <= at <= duration.LAST_INSTANT:
        raise BadDuration(value=when, why="the time lies before 1970 or after the year 9999")
    return at


def moment(when: Moment, now: int, *, sign: int) -> int:
    """Return a datetime as an instant, or the instant that lies a duration before (*sign* -1) or
    after (1) *now*.

    Times before 1970 or after the year 9999 become the first or the last instant, which lies before
    or after everything that is stored."""
    return min(max(_instant(when, now, sign=sign), 0), duration.LAST_INSTANT)


def _instant(when: Moment, now: int, *, sign: int) -> int:
    if not isinstance(when, datetime):
        return now + sign * duration.parse(when)
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return (when - _EPOCH) // _MICROSECOND
