"""What can be done to schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from holdfast.core.schedules.model import Schedule


class SetSchedule(msgspec.Struct):
    """Create a schedule, or make one of that name be like this. Whatever was done about its ticks
    stands; while its rule and zone stay as they are, so does its next tick. Answers whether it was
    created or changed. Raises BadSchedule when it would never tick, or when a call wants to change
    what a decorator in the code has made."""

    schedule: Schedule


class PauseSchedule(msgspec.Struct):
    """Let a schedule start nothing. Answers None. Raises ScheduleNotFound."""

    namespace: str
    name: str
    reason: str


class ResumeSchedule(msgspec.Struct):
    """Let a schedule go on with its next tick; those that came meanwhile are not made up for.
    Answers None. Raises ScheduleNotFound."""

    namespace: str
    name: str


class RemoveSchedule(msgspec.Struct):
    """Forget a schedule; the runs that it started stay. Answers None. Raises ScheduleNotFound, and
    BadSchedule when a decorator in the code would bring it back."""

    namespace: str
    name: str


class FireSchedules(msgspec.Struct):
    """See to the ticks that are due: start their runs, or let them wait, or skip them, and set
    the next tick, for each schedule in one transaction. Answers the ids of the runs that were
    started."""

    new_id: Callable[[], str]
    limit: int = 50


class TriggerSchedule(msgspec.Struct):
    """Start a run of a schedule now, as if it ticked, even when it is paused. Answers a Tick; its
    run is None when it must wait for another to end. Raises ScheduleNotFound, and ScheduleBusy
    where a tick would be skipped."""

    namespace: str
    name: str
    run_id: str


class BackfillSchedule(msgspec.Struct):
    """Start a run for each of these ticks that has none, whatever else of the schedule is at work.
    Answers list[Tick]. Raises ScheduleNotFound."""

    namespace: str
    name: str
    ticks: Sequence[int]
    ids: Sequence[str]
