"""Values as lines of text for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from holdfast.core.runs import ErrorInfo
from holdfast.core.why import model as why
from holdfast.errors.base import cause_first, raised_at
from holdfast.views.values import as_json, micros

TIMES = "\N{MULTIPLICATION SIGN}"
"""The sign before the number of calls that one line stands for."""


class Tree:
    """A line of text with the trees that are drawn below it."""

    def __init__(self, text: str, style: str = "", below: Sequence[Tree] = ()) -> None:
        self.text: str = text
        self.style: str = style
        self.below: list[Tree] = list(below)


def short(text: str | None, longest: int = 60) -> str:
    """Return a text as one line of at most *longest* characters."""
    line = " ".join((text or "").split())
    return line if len(line) <= longest else line[: longest - 3] + "..."


def payload(value: Any, longest: int = 60) -> str:
    """Return a value as one line of JSON of at most *longest* characters."""
    return short(as_json(value).decode("utf-8", "replace"), longest)


def error_line(error: ErrorInfo | None, longest: int = 100) -> str:
    """Return an error as one line of at most *longest* characters, its root cause first; empty for
    None."""
    if error is None:
        return ""
    described = {"type": error.type, "message": error.message, "cause": error.cause}
    return short(cause_first(described, raised_at(error.facts)), longest)


def seconds(time: datetime | None) -> str:
    """Format a time for people, in UTC, to the second; empty for None."""
    return "" if time is None else why.moment(micros(time))


def until(time: datetime, now: datetime) -> str:
    """Format a time and its distance from *now*."""
    return why.until(micros(time), micros(now))


def away(time: datetime, now: datetime) -> str:
    """Format the distance of a time from *now*, as in ``in 5s`` or ``5s ago``."""
    return why.away(micros(time), micros(now))


def brief(length: timedelta) -> str:
    """Format a duration for people."""
    return why.brief(length // timedelta(microseconds=1))


def size(count: int) -> str:
    """Format a number of bytes for people."""
    amount = float(count)
    unit = "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def json_line(value: Any) -> str:
    """Return a value as JSON on one line; empty for None."""
    return "" if value is None else msgspec.json.format(as_json(value), indent=0).decode()
