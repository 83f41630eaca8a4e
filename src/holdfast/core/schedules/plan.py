"""What is to be done about a schedule now: which ticks are due, which of them start a run, and when
to look again. Pure."""

from __future__ import annotations

import msgspec

from holdfast.core.schedules.model import Schedule, delay_of
from holdfast.core.schedules.rules import TickRule, read

MOST_TICKS = 1000
"""How many ticks a schedule can catch up with, and how many can wait."""

MOST_LATE = 1000
"""How many ticks that are late on purpose are looked at. A jitter is no longer than the time
between two ticks, so that one or two are late at any time, unless its row is damaged."""


class DueTicks(msgspec.Struct):
    """The ticks for which a run is wanted, in order, and the first and last of those that came and
    are given up."""

    ticks: list[int] = []
    missed: tuple[int, int] | None = None


def rule_of(schedule: Schedule) -> TickRule:
    """Return when it ticks."""
    return read(schedule.rule, schedule.zone, schedule.anchor)


def due(schedule: Schedule, now: int) -> DueTicks:
    """Say which ticks are due and wanted. However many were missed, no more than ``catch_up`` are
    ever looked at."""
    first = schedule.next_at
    if first is None or first + delay_of(schedule, first) > now:
        return DueTicks()
    last = _last_due(schedule, first, now)
    if schedule.misfire == "all":
        ticks = _newest(schedule, first, last)
    elif schedule.misfire == "none" and last + delay_of(schedule, last) + schedule.grace < now:
        return DueTicks([], (first, last))
    else:
        ticks = [last]
    if ticks[0] == first:
        return DueTicks(ticks)
    return DueTicks(ticks, (first, rule_of(schedule).upto(ticks[0] - 1) or first))


def _last_due(schedule: Schedule, first: int, now: int) -> int:
    """Return the last tick whose time has come, with what it is late on purpose."""
    rule = rule_of(schedule)
    last = rule.upto(now)
    for _ in range(MOST_LATE):
        if last is None or last <= first or last + delay_of(schedule, last) <= now:
            return first if last is None else max(last, first)
        last = rule.upto(last - 1)
    return first


def _newest(schedule: Schedule, first: int, last: int) -> list[int]:
    rule, found = rule_of(schedule), [last]
    while len(found) < min(schedule.catch_up, MOST_TICKS) and found[-1] > first:
        before = rule.upto(found[-1] - 1)
        if before is None or before < first:
            break
        found.append(before)
    return found[::-1]


def seen_to(schedule: Schedule, now: int) -> int | None:
    """Return the first tick that is not due yet: after all that were due were seen to, it is the
    next."""
    first = schedule.next_at
    if first is None or first + delay_of(schedule, first) > now:
        return first
    return rule_of(schedule).after(_last_due(schedule, first, now))


def wake_at(schedule: Schedule) -> int | None:
    """Return when somebody must see to the next tick."""
    if schedule.paused is not None or schedule.next_at is None:
        return None
    return schedule.next_at + delay_of(schedule, schedule.next_at)


def next_ticks(schedule: Schedule, after: int, count: int) -> list[int]:
    """Return the next ticks after an instant."""
    return _walk(rule_of(schedule), after, None, count)


def ticks_between(schedule: Schedule, since: int, until: int, most: int) -> list[int]:
    """Return the ticks from *since* on and before *until*, at most *most* of them."""
    return _walk(rule_of(schedule), since - 1, until, most)


def _walk(rule: TickRule, after: int, until: int | None, count: int) -> list[int]:
    found: list[int] = []
    tick = rule.after(after)
    while tick is not None and len(found) < count and (until is None or tick < until):
        found.append(tick)
        tick = rule.after(tick)
    return found
