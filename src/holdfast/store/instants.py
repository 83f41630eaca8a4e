"""Which instants a row may hold, judged by the clock: when it was written lies in the past, and
what is due again is due within the time that its own row, or the engine, allows.

An instant of the year 9000 is a sound number, and yet a row that holds it stalls silently: a lane
lets nothing begin, a session never expires, a schedule never ticks. `db check` names such rows;
nothing else judges by this, for a clock may be wrong as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from holdfast.core import duration
from holdfast.core.budgets.rules import next_reset
from holdfast.core.schedules import rules
from holdfast.core.subscriptions import LONGEST_PAUSE
from holdfast.core.tokens import LONGEST_GRACE
from holdfast.errors import HoldfastError, RowDamaged
from holdfast.store.soundness import UNREADABLE, damaged, place_of, schema
from holdfast.store.transitions.graphs.sweeping import STALE

WRITTEN_AT: Mapping[str, tuple[str, ...]] = {
    "event": ("at",),
    "run": ("created_at",),
    "session": ("beat_at",),
}
"""The instants that the clock of a store begins after: they lie in the past when they are
written."""

CENTURY = 100 * 365 * 86_400_000_000
"""How far ahead of the clock an instant of the past can lie, in microseconds: the clock of a
machine without a battery begins in 1970, and is still behind what the machine has written
before."""

DECADE = 3650 * 86_400_000_000

SLACK = 86_400_000_000
"""By how much the clocks of processes may differ: a day."""


def newest(values: Iterable[object], now: int) -> int:
    """Return the latest instant among values that were written in the past, or 0. One that lies
    a century ahead is damaged: a clock that followed it would make every timer of the database
    due."""
    return max(
        (value for value in values if isinstance(value, int) and 0 <= value <= now + CENTURY),
        default=0,
    )


def wrong_instants(table: str, row: Mapping[str, Any], now: int) -> Iterator[RowDamaged]:
    """Yield what is wrong with the instants of a row, if they are numbers that an instant can
    be."""
    for name in WRITTEN_AT.get(table, ()):
        if _is_instant(row[name]) and row[name] > now + CENTURY:
            yield damaged(
                table,
                place_of(schema()[table], row),
                name,
                f"{row[name]} lies more than a century ahead",
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
    """Return a rule: the instant of a column lies no farther ahead than *reach* says of its row."""

    def judge(row: Mapping[str, Any], now: int) -> Wrong:
        value, most = row[name], reach(row)
        most = most if isinstance(most, int) else 0
        if _is_instant(value) and value > now + most + SLACK:
            yield (
                name,
                f"{value} lies farther ahead than {duration.show(most)}, the longest that it can",
            )

    return judge


def _lifetime(row: Mapping[str, Any]) -> object:
    """Return how long a session lives after a heartbeat: its worker says so. What a remote worker
    asks for is not recorded."""
    try:
        return msgspec.json.decode(row["serves"]).get("lifetime", CENTURY)
    except UNREADABLE:
        return CENTURY


def _resets(row: Mapping[str, Any], now: int) -> Wrong:
    """Judge when a budget is reset: at the first instant of its rhythm, or before, if that has
    passed unnoticed."""
    if not _is_instant(row["reset_at"]) or row["reset_at"] <= now + SLACK:
        return
    try:
        due = next_reset(row["resets"], row["zone"], now, now)
    except (*UNREADABLE, HoldfastError):
        return
    if due is None or row["reset_at"] > due + SLACK:
        yield "reset_at", f"{row['reset_at']} is not when it is reset next"


def _ticks(row: Mapping[str, Any], now: int) -> Wrong:
    """Judge when a schedule ticks: it must not pass over a tick of its rule."""
    next_at, wake_at = row["next_at"], row["wake_at"]
    is_near = _is_instant(next_at) and next_at <= now + SLACK
    due = None if is_near or row["paused"] is not None else _tick_after(row, now + SLACK)
    if due is not None and next_at is None:
        yield "next_at", f"there is none, although it ticks at {due}"
    elif due is not None and _is_instant(next_at) and next_at > due:
        yield "next_at", f"{next_at} is not its next tick: it ticks at {due}"
    jitter = row["jitter"] if isinstance(row["jitter"], int) else 0
    if (
        _is_instant(wake_at)
        and wake_at > max(now, next_at if _is_instant(next_at) else 0) + jitter + SLACK
    ):
        yield "wake_at", f"{wake_at} is later than its next tick"


def _tick_after(row: Mapping[str, Any], instant: int) -> int | None:
    """Return the first tick of a schedule after an instant; None if there is none, or its row is
    damaged in another way."""
    try:
        return rules.read(row["rule"], row["zone"], row["anchor"]).after(instant)
    except (*UNREADABLE, HoldfastError):
        return None


_DUE: Mapping[str, Callable[[Mapping[str, Any], int], Wrong]] = {
    "session": _within("expires_at", _lifetime),
    "key": _within("expires_at", lambda row: LONGEST_GRACE),
    "lane": _within("free_at", lambda row: row["rate_per"]),
    "subscription": _within("next_at", lambda row: LONGEST_PAUSE),
    "upkeep": _within("until", lambda row: DECADE),
    "graph_stage": _within("due_at", lambda row: STALE),
    "budget": _resets,
    "schedule": _ticks,
}
"""How the instants of a table are judged that lie ahead. Each is late by a day at most when it is
not damaged."""
