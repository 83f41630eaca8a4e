"""Errors about schedules."""

from __future__ import annotations

from holdfast.errors.base import UsageError


class BadSchedule(UsageError):
    """This schedule is not valid, and nothing was written: correct it as the facts say."""


class ScheduleNotFound(UsageError):
    """There is no such schedule: `holdfast schedules` lists the schedules."""


class ScheduleBusy(UsageError):
    """A run of this schedule has not ended, and its overlap is skip, so nothing was started: wait
    for the run, or cancel it."""
