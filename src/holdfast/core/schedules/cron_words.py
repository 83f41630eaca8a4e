"""Say a cron expression in words: ``0 9 * * 1-5`` is "on weekdays at 09:00".

Expressions that people rarely write have no words here: a wrong sentence is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from holdfast.core.schedules.cron import NAMED

_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WEEKDAYS = [1, 2, 3, 4, 5]
_WEEKENDS = [0, 6]
_MOST_TIMES = 4
"""The times of a day that are named; more of them are no longer words."""


def in_words(expression: str) -> str | None:
    """Return a valid cron expression in words; None if there are none for it."""
    fields = NAMED.get(expression.strip().lower(), expression).upper().split()
    if len(fields) == 6 and fields[0] == "0":
        fields = fields[1:]
    if len(fields) != 5:
        return None
    minute, hour, day, month, weekday = fields
    time = _time(minute, hour)
    days = _days(day, month, weekday)
    if time is None or days is None:
        return None
    if time.startswith("at "):
        return f"{days or 'every day'} {time}"
    return f"{time} {days}".rstrip()


def _time(minute: str, hour: str) -> str | None:
    """Return the times of a day."""
    minutes = _numbers(minute, 0, 59)
    hours = _numbers(hour, 0, 23)
    if minute == "*" and hour == "*":
        return "every minute"
    if (step := _step(minute)) is not None:
        return _within(f"every {step} minutes", hour, "59")
    if minutes is None:
        return None
    if hours is not None and "-" not in hour and len(minutes) * len(hours) <= _MOST_TIMES:
        return "at " + _joined([f"{h:02}:{m:02}" for h in hours for m in minutes])
    if len(minutes) > 1:
        return None
    late = f" at minute {minutes[0]}" if minutes[0] else ""
    if (step := _step(hour)) is not None:
        return f"every {step} hours{late}"
    return _within(f"every hour{late}", hour, "00")


def _within(text: str, hour: str, last_minute: str) -> str | None:
    """Return a repetition with the hours in which it takes place."""
    if hour == "*":
        return text
    hours = _numbers(hour, 0, 23)
    if hours is None or hours != list(range(hours[0], hours[-1] + 1)):
        return None
    return f"{text} from {hours[0]:02}:00 to {hours[-1]:02}:{last_minute}"


def _days(day: str, month: str, weekday: str) -> str | None:
    """Return the days of a year; empty if they are all days."""
    parts: list[str | None] = []
    if weekday != "*":
        if day != "*":
            return None
        parts.append(_weekdays(weekday))
    elif day == "L":
        parts.append("on the last day of the month")
    elif day != "*":
        numbers = _numbers(day, 1, 31)
        if numbers is None:
            return None
        noun = "day" if len(numbers) == 1 else "days"
        parts.append(f"on {noun} {_joined([str(number) for number in numbers])} of the month")
    if month != "*":
        parts.append(_months(month))
    if None in parts:
        return None
    return " ".join(part for part in parts if part)


def _months(month: str) -> str | None:
    numbers = _numbers(_numbered(month, [name[:3] for name in _MONTHS], 1), 1, 12)
    if numbers is None:
        return None
    return f"in {_joined([_MONTHS[number - 1] for number in numbers])}"


def _weekdays(weekday: str) -> str | None:
    numbers = _numbers(_numbered(weekday, [name[:3] for name in _DAYS], 0), 0, 7)
    if numbers is None:
        return None
    days = sorted({number % 7 for number in numbers})
    if days == _WEEKDAYS:
        return "on weekdays"
    if days == _WEEKENDS:
        return "on weekends"
    return f"on {_joined([_DAYS[day] for day in days])}"


def _numbered(field: str, names: Sequence[str], first: int) -> str:
    """Return a field with numbers in place of names."""
    for number, name in enumerate(names, first):
        field = field.replace(name.upper(), str(number))
    return field


def _step(field: str) -> int | None:
    """Return the n of ``*/n``, if it is at least 2."""
    match = re.fullmatch(r"\*/(\d+)", field)
    return int(match[1]) if match and int(match[1]) > 1 else None


def _numbers(field: str, least: int, most: int) -> list[int] | None:
    """Return the numbers of a list of numbers and ranges; None for any other field."""
    numbers: list[int] = []
    for part in field.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if match is None:
            return None
        numbers += range(int(match[1]), int(match[2] or match[1]) + 1)
    if not numbers or min(numbers) < least or max(numbers) > most:
        return None
    return sorted(set(numbers))


def _joined(texts: Sequence[str]) -> str:
    if len(texts) == 1:
        return texts[0]
    return f"{', '.join(texts[:-1])} and {texts[-1]}"
