"""Errors about schedules."""

from __future__ import annotations

from holdfast.errors.base import UsageError


class BadSchedule(UsageError):
    """This schedule makes no sense; nothing was written."""


class ScheduleNotFound(UsageError):
    """There is no such schedule: `holdfast schedules` lists what there is."""


class ScheduleBusy(UsageError):
    """A run of this schedule is still at work, and its overlap is skip: nothing was started."""
