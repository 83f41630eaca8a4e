"""Plan the due ticks of a schedule: which of them start a run, and when to check again. Pure."""

from __future__ import annotations

import msgspec

from holdfast.core.schedules.model import Misfire, Schedule, delay_of
from holdfast.core.schedules.rules import TickRule, read

MOST_TICKS = 1000
"""The maximum number of ticks that a schedule catches up with, and that can be queued."""

MOST_LATE = 1000
"""The maximum number of ticks, delayed by their jitter, that are checked. A jitter is not longer
than the time between two ticks, so that at most one or two ticks are delayed at any time, unless
the row of the schedule is damaged."""


class DueTicks(msgspec.Struct):
    """The due ticks that start a run, in order; ``missed`` is the first and the last of the due
    ticks that are dropped."""

    ticks: list[int] = []
    missed: tuple[int, int] | None = None


def rule_of(schedule: Schedule) -> TickRule:
    """Return the rule by which the schedule ticks."""
    return read(schedule.rule, schedule.zone, schedule.anchor)


def due(schedule: Schedule, now: int) -> DueTicks:
    """Return the ticks that are due at *now* and start a run by the schedule's misfire policy.

    However many ticks were missed, at most ``catch_up`` of them are computed."""
    first = schedule.next_at
    if first is None or first + delay_of(schedule, first) > now:
        return DueTicks()
    last = _last_due(schedule, first, now)
    if schedule.misfire == Misfire.ALL:
        ticks = _newest(schedule, first, last)
    elif (
        schedule.misfire == Misfire.NONE and last + delay_of(schedule, last) + schedule.grace < now
    ):
        return DueTicks([], (first, last))
    else:
        ticks = [last]
    if ticks[0] == first:
        return DueTicks(ticks)
    return DueTicks(ticks, (first, rule_of(schedule).upto(ticks[0] - 1) or first))


def _last_due(schedule: Schedule, first: int, now: int) -> int:
    """Return the last tick that is due at *now*, including its jitter; at least *first*."""
    rule = rule_of(schedule)
    last = rule.upto(now)
    for _ in range(MOST_LATE):
        if last is None or last <= first or last + delay_of(schedule, last) <= now:
            if last is None:
                return first
            return max(last, first)
        last = rule.upto(last - 1)
    return first


def _newest(schedule: Schedule, first: int, last: int) -> list[int]:
    """Return the ticks from *first* to *last*, in order; of too many, the latest."""
    rule = rule_of(schedule)
    newest_first = [last]
    while len(newest_first) < min(schedule.catch_up, MOST_TICKS) and newest_first[-1] > first:
        before = rule.upto(newest_first[-1] - 1)
        if before is None or before < first:
            break
        newest_first.append(before)
    return newest_first[::-1]


def first_not_due(schedule: Schedule, now: int) -> int | None:
    """Return the first tick that is not due at *now*: the next tick once all due ticks are
    processed."""
    first = schedule.next_at
    if first is None or first + delay_of(schedule, first) > now:
        return first
    return rule_of(schedule).after(_last_due(schedule, first, now))


def wake_at(schedule: Schedule) -> int | None:
    """Return the time at which a worker must process the next tick; None if the schedule is paused
    or has no more ticks."""
    if schedule.paused is not None or schedule.next_at is None:
        return None
    return schedule.next_at + delay_of(schedule, schedule.next_at)


def next_ticks(schedule: Schedule, after: int, count: int) -> list[int]:
    """Return the next *count* ticks after an instant, or fewer if there are no more."""
    return _walk(rule_of(schedule), after, None, count)


def ticks_between(schedule: Schedule, since: int, until: int, most: int) -> list[int]:
    """Return the ticks from *since* on and before *until*, at most *most* of them."""
    return _walk(rule_of(schedule), since - 1, until, most)


def _walk(rule: TickRule, after: int, until: int | None, count: int) -> list[int]:
    ticks: list[int] = []
    tick = rule.after(after)
    while tick is not None and len(ticks) < count and (until is None or tick < until):
        ticks.append(tick)
        tick = rule.after(tick)
    return ticks
