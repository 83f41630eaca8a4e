"""Parse and format durations. Inside Holdfast a duration is always a whole number of
microseconds."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from holdfast.errors import BadDuration

Duration = str | int | float | timedelta

SECOND = 1_000_000
UNITS = {
    "w": 7 * 86_400 * SECOND,
    "d": 86_400 * SECOND,
    "h": 3_600 * SECOND,
    "m": 60 * SECOND,
    "s": SECOND,
    "ms": 1_000,
    "us": 1,
}
"""The units, largest first, in microseconds."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

LONGEST = 365_250 * UNITS["d"]
"""The longest duration that is accepted, a thousand years: a longer one is a mistake."""

LAST_INSTANT = 253_402_300_800_000_000
"""The latest instant: the end of the year 9999, in microseconds since 1970."""

_LONGEST_TEXT = 100
_NUMBER = r"[0-9]+(?:[.,][0-9]+)?|\.[0-9]+"
_SHORT = rf"\s*(?P<number>{_NUMBER})\s*(?P<unit>[^\W\d_]+)\s*"
_ISO_DATE = "".join(rf"(?:(?P<{unit}>{_NUMBER}){unit.upper()})?" for unit in "wd")
_ISO_TIME = "".join(rf"(?:(?P<{unit}>{_NUMBER}){unit.upper()})?" for unit in "hms")
_ISO = rf"P(?=.){_ISO_DATE}(?:T(?=.){_ISO_TIME})?"
_ISO_CALENDAR = r"P[^T]*[YM]"


def parse(value: Duration) -> int:
    """Return *value* in microseconds. A bare number means seconds. Raises BadDuration."""
    if isinstance(value, str):
        micros = _from_text(value)
    elif isinstance(value, timedelta):
        micros = value // timedelta(microseconds=1)
    else:
        micros = _from_seconds(value)
    if micros < 0:
        raise BadDuration(value=value, why="it is negative")
    if micros > LONGEST:
        raise BadDuration(value=value, why="it is longer than 1000 years")
    return micros


def parse_optional(value: Duration | None) -> int | None:
    """Return ``parse`` of *value*, or None for None. Raises BadDuration."""
    if value is None:
        return None
    return parse(value)


def after(now: int, length: int | None) -> int | None:
    """Return the instant that lies *length* microseconds after *now*; None without a length."""
    if length is None:
        return None
    return now + length


def show(micros: int) -> str:
    """Format microseconds for people: the largest unit and the next smaller one, truncated."""
    if micros < 0:
        return "-" + show(-micros)
    units = list(UNITS.items())
    for index, (unit, size) in enumerate(units):
        if micros >= size:
            count, rest = divmod(micros, size)
            return " ".join([f"{count}{unit}", *_next_unit(rest, units[index + 1 : index + 2])])
    return "0s"


def _next_unit(rest: int, units: list[tuple[str, int]]) -> list[str]:
    return [f"{rest // size}{unit}" for unit, size in units if rest >= size]


def _from_seconds(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadDuration(value=value, why=f"it is a {type(value).__name__}")
    if isinstance(value, int):
        return value * SECOND
    if not math.isfinite(value):
        raise BadDuration(value=value, why="it is not finite")
    return round(Decimal(value) * SECOND)  # a float product could overflow, or round twice


def _from_text(text: str) -> int:
    stripped = text.strip()
    if not stripped:
        raise BadDuration(value=text, why="it is empty")
    if len(stripped) > _LONGEST_TEXT:
        raise BadDuration(value=stripped[:20] + "...", why="the text is too long")
    if stripped.startswith("-"):
        raise BadDuration(value=text, why="it is negative")
    if stripped.startswith("P"):
        return _from_iso(stripped)
    return _from_short(stripped)


def _from_iso(text: str) -> int:
    if re.match(_ISO_CALENDAR, text):
        raise BadDuration(
            value=text, why="months and years have no fixed length: use days or weeks"
        )
    match = re.fullmatch(_ISO, text)
    if match is None:
        raise BadDuration(value=text, why="it is not an ISO 8601 duration")
    return sum(_micros(number, unit) for unit, number in match.groupdict().items() if number)


def _from_short(text: str) -> int:
    """Return the microseconds of a text such as ``1h 30m``, whose units go from large to small."""
    total = 0
    position = 0
    last_size = LONGEST
    while position < len(text):
        match = re.match(_SHORT, text[position:])
        if match is None:
            raise BadDuration(value=text, why=_missing_part(text[position:]))
        unit = match["unit"].replace("µ", "u").replace("μ", "u")
        if unit not in UNITS:
            raise BadDuration(
                value=text, why=f"the unit {match['unit']!r} is unknown: use {', '.join(UNITS)}"
            )
        if UNITS[unit] >= last_size:
            raise BadDuration(value=text, why="its units must go from large to small")
        total += _micros(match["number"], unit)
        position += match.end()
        last_size = UNITS[unit]
    return total


def _missing_part(text: str) -> str:
    if re.fullmatch(_NUMBER, text.strip()):
        return "a unit is missing, as in 10s"
    return "a number and a unit are expected, as in 10s"


def _micros(number: str, unit: str) -> int:
    return round(Decimal(number.replace(",", ".")) * UNITS[unit])


def as_datetime(instant: int) -> datetime:
    """Return microseconds since 1970 as a time in UTC."""
    return _EPOCH + timedelta(microseconds=instant)
