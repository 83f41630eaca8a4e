"""Reads and writes durations. Inside Holdfast a duration is a whole number of microseconds, never
anything else."""

from __future__ import annotations

import math
import re
from datetime import timedelta
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

LONGEST = 365_250 * UNITS["d"]
"""A thousand years: whatever is longer is a mistake."""

LAST_INSTANT = 253_402_300_800_000_000
"""No instant is later: the end of the year 9999, in microseconds since 1970."""

_LONGEST_TEXT = 100
_NUMBER = r"[0-9]+(?:[.,][0-9]+)?|\.[0-9]+"
_SHORT = rf"\s*(?P<number>{_NUMBER})\s*(?P<unit>[^\W\d_]+)\s*"
_ISO_DATE = "".join(rf"(?:(?P<{unit}>{_NUMBER}){unit.upper()})?" for unit in "wd")
_ISO_TIME = "".join(rf"(?:(?P<{unit}>{_NUMBER}){unit.upper()})?" for unit in "hms")
_ISO = rf"P(?=.){_ISO_DATE}(?:T(?=.){_ISO_TIME})?"
_ISO_CALENDAR = r"P[^T]*[YM]"


def parse(value: Duration) -> int:
    """Read *value* as a number of microseconds. Raises BadDuration."""
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


def show(micros: int) -> str:
    """Write a duration for people: its largest unit and the next smaller one, the rest cut off."""
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
    return round(Decimal(value) * SECOND)  # not a float: it would overflow, or round twice


def _from_text(text: str) -> int:
    bare = text.strip()
    if not bare:
        raise BadDuration(value=text, why="it is empty")
    if len(bare) > _LONGEST_TEXT:
        raise BadDuration(value=bare[:20] + "...", why="the text is too long")
    if bare.startswith("-"):
        raise BadDuration(value=text, why="it is negative")
    return _from_iso(bare) if bare.startswith("P") else _from_short(bare)


def _from_iso(text: str) -> int:
    if re.match(_ISO_CALENDAR, text):
        raise BadDuration(
            value=text, why="months and years have no fixed length: use days or weeks"
        )
    found = re.fullmatch(_ISO, text)
    if found is None:
        raise BadDuration(value=text, why="it is not an ISO 8601 duration")
    return sum(_micros(number, unit) for unit, number in found.groupdict().items() if number)


def _from_short(text: str) -> int:
    total, at, last = 0, 0, LONGEST
    while at < len(text):
        found = re.match(_SHORT, text[at:])
        if found is None:
            raise BadDuration(value=text, why=_what_is_missing(text[at:]))
        unit = found["unit"].replace("µ", "u").replace("μ", "u")
        if unit not in UNITS:
            raise BadDuration(
                value=text, why=f"the unit {found['unit']!r} is unknown: use {', '.join(UNITS)}"
            )
        if UNITS[unit] >= last:
            raise BadDuration(value=text, why="its units must go from large to small")
        total, at, last = total + _micros(found["number"], unit), at + found.end(), UNITS[unit]
    return total


def _what_is_missing(text: str) -> str:
    lacks_unit = re.fullmatch(_NUMBER, text.strip())
    return (
        "a unit is missing, as in 10s"
        if lacks_unit
        else "a number and a unit are expected, as in 10s"
    )


def _micros(number: str, unit: str) -> int:
    return round(Decimal(number.replace(",", ".")) * UNITS[unit])
