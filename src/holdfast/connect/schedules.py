"""The calls of an engine on schedules, the rules that start runs at given times."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from holdfast.connect.calls import AsyncCalls, Calls
from holdfast.core.schedules.model import Schedule, Tick
from holdfast.core.validation import checked_flag
from holdfast.service.runs import Moment

if TYPE_CHECKING:
    from holdfast.core.why.model import Blocker


class ScheduleCalls(Calls):
    """The calls of ``Engine`` on schedules."""

    def schedule(self, name: str, workflow: Any, **options: Any) -> Schedule:
        """Create a schedule, which starts runs of a workflow by a rule, or replace the schedule of
        that name.

        One of cron, interval, dates and repeat sets the times; zone, overlap, queue_limit, misfire,
        catch_up, grace, jitter and paused modify them. args and kwargs are passed to the workflow;
        lane, priority, deadline, tags, capabilities and version are options of ``start``. Raises
        BadSchedule, UnknownWorkflow.
        """
        self._parts.know(workflow)
        schedule: Schedule = self._do(self._parts.schedules.set(name, workflow, options))
        return schedule

    def unschedule(self, name: str) -> None:
        """Delete a schedule; the runs that it started stay. Raises ScheduleNotFound."""
        self._do(self._parts.schedules.remove(name))

    def schedules(self) -> list[Schedule]:
        """Return all schedules, by name."""
        return self._parts.schedules.all()

    def find_schedule(self, name: str) -> Schedule:
        """Return a schedule. Raises ScheduleNotFound."""
        return self._parts.schedules.get(name)

    def pause_schedule(self, name: str, reason: str = "paused by request") -> Schedule:
        """Pause a schedule: it starts no runs until it is resumed. Raises ScheduleNotFound."""
        schedule: Schedule = self._do(self._parts.schedules.pause(name, reason))
        return schedule

    def resume_schedule(self, name: str) -> Schedule:
        """Resume a schedule from its next tick on. Ticks during the pause are not made up for; use
        ``backfill`` for them. Raises ScheduleNotFound."""
        schedule: Schedule = self._do(self._parts.schedules.resume(name))
        return schedule

    def trigger(self, name: str) -> Tick:
        """Start a run of a schedule now, as at a tick. The run of the Tick is None if it is queued
        behind another run. Raises ScheduleNotFound, and ScheduleBusy if a tick would be skipped."""
        tick: Tick = self._do(self._parts.schedules.trigger(name))
        return tick

    def backfill(
        self, name: str, since: Moment, until: Moment, *, preview: bool = False
    ) -> list[Tick]:
        """Start a run for each tick from *since* (inclusive) to *until* (exclusive) that has none,
        and return all ticks of the period, each with its run. With *preview*, start nothing: the
        ticks to be started are returned without a run. Raises ScheduleNotFound, BadSchedule."""
        preview = checked_flag("preview", preview)
        ticks, request = self._parts.schedules.backfill(name, since, until)
        return ticks if preview else merged(ticks, self._do(request))

    def next_ticks(self, name: str, count: int = 10) -> list[datetime]:
        """Return the next *count* ticks of a schedule, as times in its zone. Raises
        ScheduleNotFound."""
        return self._parts.schedules.next_ticks(name, count)

    def why_schedule(self, name: str) -> list[Blocker]:
        """Return the blockers that keep a schedule from starting its next run. Raises
        ScheduleNotFound."""
        blockers: list[Blocker] = self._parts.schedules.why(name)
        return blockers


class AsyncScheduleCalls(AsyncCalls):
    """The calls of ``AsyncEngine`` on schedules."""

    async def schedule(self, name: str, workflow: Any, **options: Any) -> Schedule:
        """Create or replace a schedule. Options and errors are those of ``Engine.schedule``."""
        engine = await self._opened()
        return await self._aside(engine.schedule, name, workflow, **options)

    async def unschedule(self, name: str) -> None:
        """Delete a schedule; the runs that it started stay. Raises ScheduleNotFound."""
        await self._call(ScheduleCalls.unschedule, name)

    async def schedules(self) -> list[Schedule]:
        """Return all schedules, by name."""
        return await self._call(ScheduleCalls.schedules)

    async def find_schedule(self, name: str) -> Schedule:
        """Return a schedule. Raises ScheduleNotFound."""
        return await self._call(ScheduleCalls.find_schedule, name)

    async def pause_schedule(self, name: str, reason: str = "paused by request") -> Schedule:
        """Pause a schedule: it starts no runs until it is resumed. Raises ScheduleNotFound."""
        return await self._call(ScheduleCalls.pause_schedule, name, reason)

    async def resume_schedule(self, name: str) -> Schedule:
        """Resume a schedule from its next tick on. Raises ScheduleNotFound."""
        return await self._call(ScheduleCalls.resume_schedule, name)

    async def trigger(self, name: str) -> Tick:
        """Start a run of a schedule now, as ``Engine.trigger`` does. Raises ScheduleNotFound,
        ScheduleBusy."""
        return await self._call(ScheduleCalls.trigger, name)

    async def backfill(
        self, name: str, since: Moment, until: Moment, *, preview: bool = False
    ) -> list[Tick]:
        """Start a run for each tick of a period that has none, as ``Engine.backfill`` does."""
        return await self._call(ScheduleCalls.backfill, name, since, until, preview=preview)

    async def next_ticks(self, name: str, count: int = 10) -> list[datetime]:
        """Return the next *count* ticks of a schedule, as times in its zone. Raises
        ScheduleNotFound."""
        return await self._call(ScheduleCalls.next_ticks, name, count)

    async def why_schedule(self, name: str) -> list[Blocker]:
        """Return the blockers that keep a schedule from starting its next run. Raises
        ScheduleNotFound."""
        return await self._call(ScheduleCalls.why_schedule, name)


def merged(ticks: list[Tick], started: list[Tick]) -> list[Tick]:
    """Return all ticks in order, with the started ticks in place of those without a run."""
    started_at = {tick.at: tick for tick in started}
    return [started_at.get(tick.at, tick) for tick in ticks]
