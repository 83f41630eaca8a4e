"""Check the instants of a row against the clock, for `db check`.

The time of a write lies in the past, and a due time lies within the span that its own row, or the
engine, allows. An instant in the year 9000 is a valid number, and yet a row with it stalls
silently: a lane admits nothing, a session never expires, a schedule never ticks. `db check` reports
such rows. Nothing else relies on these checks, because the clock may be wrong as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from holdfast.core import duration
from holdfast.core.budgets.rules import next_reset
from holdfast.core.operations import TAKEOVER
from holdfast.core.schedules import rules
from holdfast.core.subscriptions import LONGEST_PAUSE
from holdfast.core.tokens import LONGEST_GRACE
from holdfast.errors import HoldfastError, RowDamaged
from holdfast.store.runs.copy_operations import STAGE_TTL
from holdfast.store.schema import schema
from holdfast.store.soundness import UNREADABLE, damaged, place_of

WRITTEN_AT: Mapping[str, tuple[str, ...]] = {
    "event": ("at",),
    "run": ("created_at",),
    "session": ("beat_at",),
}
"""The columns after whose newest instant the clock of a store starts: they are written with the
current time."""

CENTURY = 100 * 365 * 86_400_000_000
"""How far ahead of the clock a past instant can be, in microseconds: the clock of a machine without
a battery starts in 1970, and is then behind everything that the machine has written before."""

DECADE = 3650 * 86_400_000_000

SLACK = 86_400_000_000
"""By how much the clocks of processes may differ: a day, in microseconds."""


def newest(values: Iterable[object], now: int) -> int:
    """Return the latest instant among values that were written in the past, or 0. An instant a
    century ahead is damaged and ignored: a clock that followed it would make every timer of the
    database due."""
    return max(
        (value for value in values if isinstance(value, int) and 0 <= value <= now + CENTURY),
        default=0,
    )


def wrong_instants(table: str, row: Mapping[str, Any], now: int) -> Iterator[RowDamaged]:
    """Yield RowDamaged for each instant of a row that is a valid number, but cannot be right."""
    for name in WRITTEN_AT.get(table, ()):
        if _is_instant(row[name]) and row[name] > now + CENTURY:
            yield damaged(
                table,
                place_of(schema()[table], row),
                name,
                f"{row[name]} is more than a century ahead",
            )
    rule = _DUE.get(table)
    if rule is not None:
        for name, why in rule(row, now):
            yield damaged(table, place_of(schema()[table], row), name, why)


def _is_instant(value: object) -> bool:
    return isinstance(value, int) and 0 <= value <= duration.LAST_INSTANT


Wrong = Iterator[tuple[str, str]]
"""The columns that are wrong, each with the reason."""


def _within(
    name: str, reach: Callable[[Mapping[str, Any]], object]
) -> Callable[[Mapping[str, Any], int], Wrong]:
    """Return a rule: the instant of column *name* is at most ``reach(row)`` microseconds ahead."""

    def judge(row: Mapping[str, Any], now: int) -> Wrong:
        value = row[name]
        limit = reach(row)
        most = limit if isinstance(limit, int) else 0
        if _is_instant(value) and value > now + most + SLACK:
            yield name, f"{value} is more than {duration.show(most)} ahead, which is the maximum"

    return judge


def _lifetime(row: Mapping[str, Any]) -> object:
    """Return for how long a session lives after a heartbeat: its worker records it. The lifetime of
    a remote worker is not recorded."""
    try:
        return msgspec.json.decode(row["serves"]).get("session_ttl", CENTURY)
    except UNREADABLE:
        return CENTURY


def _resets(row: Mapping[str, Any], now: int) -> Wrong:
    """Check when a budget is reset: at the first instant of its calendar, or earlier if the reset
    is overdue."""
    if not _is_instant(row["reset_at"]) or row["reset_at"] <= now + SLACK:
        return
    try:
        due = next_reset(row["resets"], row["zone"], now, now)
    except (*UNREADABLE, HoldfastError):
        return
    if due is None or row["reset_at"] > due + SLACK:
        yield "reset_at", f"{row['reset_at']} is later than the next reset, which is due at {due}"


def _ticks(row: Mapping[str, Any], now: int) -> Wrong:
    """Check when a schedule ticks: the next tick must not skip a tick of its rule."""
    next_at = row["next_at"]
    wake_at = row["wake_at"]
    is_near = _is_instant(next_at) and next_at <= now + SLACK
    due = None if is_near or row["paused"] is not None else _tick_after(row, now + SLACK)
    if due is not None and next_at is None:
        yield "next_at", f"the value is missing, although the schedule ticks at {due}"
    elif due is not None and _is_instant(next_at) and next_at > due:
        yield "next_at", f"{next_at} is not the next tick: the schedule ticks at {due}"
    jitter = row["jitter"] if isinstance(row["jitter"], int) else 0
    tick = next_at if _is_instant(next_at) else 0
    if _is_instant(wake_at) and wake_at > max(now, tick) + jitter + SLACK:
        yield "wake_at", f"{wake_at} is later than the next tick"


def _tick_after(row: Mapping[str, Any], instant: int) -> int | None:
    """Return the first tick of a schedule after an instant; None if there is none, or its row has
    other damage."""
    try:
        return rules.read(row["rule"], row["zone"], row["anchor"]).after(instant)
    except (*UNREADABLE, HoldfastError):
        return None


_DUE: Mapping[str, Callable[[Mapping[str, Any], int], Wrong]] = {
    "session": _within("expires_at", _lifetime),
    "key": _within("expires_at", lambda row: LONGEST_GRACE),
    "lane": _within("free_at", lambda row: row["rate_per"]),
    "subscription": _within("next_at", lambda row: LONGEST_PAUSE),
    "maintenance_lock": _within("until", lambda row: DECADE),
    "operation": _within("due_at", lambda row: TAKEOVER),
    "graph_stage": _within("due_at", lambda row: STAGE_TTL),
    "budget": _resets,
    "schedule": _ticks,
}
"""The rules for instants that lie ahead, by table. An undamaged instant is late by a day
at most."""
