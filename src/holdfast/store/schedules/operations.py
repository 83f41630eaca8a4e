"""Operations on schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.core.definitions import StoredDefinition
from holdfast.core.schedules.model import Schedule
from holdfast.store.database import Operation


class SetSchedule(Operation):
    """Create a schedule, or replace the definition of an existing one. Its past and queued ticks
    stay; the next tick stays while rule and zone do. Unless ``sets_pause``, a pause stays that a
    person has asked for.

    Answers:
        str              ``created``, ``changed`` or ``unchanged``
        SettingsChanged  ``merges`` is set and the schedule is no longer as ``expected``
    Raises:
        BadSchedule      the rule has no further tick, or a decorator in the code defines the
                         schedule, which a call must not change
    """

    schedule: Schedule
    sets_pause: bool = False
    merges: bool = False
    expected: Schedule | None = None
    """The schedule as the caller has read it; None if there was none."""
    definition: StoredDefinition | None = None
    """The definition that its runs keep; None if that is code, or is stored already."""


class PauseSchedule(Operation):
    """Pause a schedule: it starts no runs.

    Answers:
        None
    Raises:
        ScheduleNotFound  there is no such schedule
    """

    namespace: str
    name: str
    reason: str


class ResumeSchedule(Operation):
    """Resume a schedule with its next tick; ticks during the pause are not made up for.

    Answers:
        None
    Raises:
        ScheduleNotFound  there is no such schedule
    """

    namespace: str
    name: str


class RemoveSchedule(Operation):
    """Delete a schedule; the runs that it started stay.

    Answers:
        None
    Raises:
        ScheduleNotFound  there is no such schedule
        BadSchedule       a decorator in the code defines the schedule and would create it again
    """

    namespace: str
    name: str


class FireSchedules(Operation):
    """Process the ticks that are due, of at most ``limit`` schedules: start their runs, queue or
    skip them, and set the next tick, all in one transaction.

    Answers:
        list[str]  the ids of the runs that were started
    """

    new_id: Callable[[], str]
    limit: int = 50


class TriggerSchedule(Operation):
    """Start a run of a schedule now, as a tick would, even if the schedule is paused.

    Answers:
        Tick              its run is None if it must wait for the end of another run
    Raises:
        ScheduleNotFound  there is no such schedule
        ScheduleBusy      a run of the schedule is live, and the tick would be skipped or, with a
                          chosen id, queued: a queued tick has no id by which it is recognised
        RunExists         the chosen id belongs to a run that this schedule has not started
    """

    namespace: str
    name: str
    run_id: str
    is_chosen: bool = False
    """Whether the caller has chosen the id: then a repeated trigger starts no other run."""


class BackfillSchedule(Operation):
    """Start a run for each of these ticks that has none, regardless of other live runs of the
    schedule. ``ids`` are the ids of the runs, one per tick.

    Answers:
        list[Tick]        one per tick
    Raises:
        ScheduleNotFound  there is no such schedule
    """

    namespace: str
    name: str
    ticks: Sequence[int]
    ids: Sequence[str]
