"""Schedules: runs that start by themselves."""

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
    """What ``Engine`` can do about schedules."""

    def schedule(self, name: str, workflow: Any, **options: Any) -> Schedule:
        """Start runs of a workflow by a rule from now on, or change the schedule of that name.

        One of cron, interval, dates and repeat says when; zone, overlap, queue_limit, misfire,
        catch_up, grace, jitter and paused say how; args and kwargs are the workflow's; lane,
        priority, deadline, tags, capabilities and version are those of ``start``. Raises
        BadSchedule, UnknownWorkflow."""
        self._parts.know(workflow)
        found: Schedule = self._do(self._parts.schedules.set(name, workflow, options))
        return found

    def unschedule(self, name: str) -> None:
        """Remove a schedule; the runs that it started stay. Raises ScheduleNotFound."""
        self._do(self._parts.schedules.remove(name))

    def schedules(self) -> list[Schedule]:
        """Return all schedules, by name."""
        return self._parts.schedules.all()

    def find_schedule(self, name: str) -> Schedule:
        """Return a schedule. Raises ScheduleNotFound."""
        return self._parts.schedules.get(name)

    def pause_schedule(self, name: str, reason: str = "paused by request") -> Schedule:
        """Let a schedule start nothing until it is resumed."""
        found: Schedule = self._do(self._parts.schedules.pause(name, reason))
        return found

    def resume_schedule(self, name: str) -> Schedule:
        """Let a schedule go on with its next tick. Those that came meanwhile are not made up for;
        ``backfill`` does that."""
        found: Schedule = self._do(self._parts.schedules.resume(name))
        return found

    def trigger(self, name: str) -> Tick:
        """Start a run of a schedule now, as if it ticked; the run is None when it must wait for
        another to end. Raises ScheduleBusy where a tick would be skipped."""
        found: Tick = self._do(self._parts.schedules.trigger(name))
        return found

    def backfill(
        self, name: str, since: Moment, until: Moment, *, preview: bool = False
    ) -> list[Tick]:
        """Start a run for each tick from *since* on and before *until* that has none. With
        *preview*, only say which those are: ticks that have a run name it."""
        preview = checked_flag("preview", preview)
        ticks, request = self._parts.schedules.backfill(name, since, until)
        return ticks if preview else merged(ticks, self._do(request))

    def next_ticks(self, name: str, count: int = 10) -> list[datetime]:
        """Return when a schedule ticks next, by the clock of its zone."""
        return self._parts.schedules.next_ticks(name, count)

    def why_schedule(self, name: str) -> list[Blocker]:
        """Say what keeps a schedule from starting its next run, and when it ticks."""
        found: list[Blocker] = self._parts.schedules.why(name)
        return found


class AsyncScheduleCalls(AsyncCalls):
    """What ``AsyncEngine`` can do about schedules."""

    async def schedule(self, name: str, workflow: Any, **options: Any) -> Schedule:
        """Start runs of a workflow by a rule from now on. The options are those of
        ``Engine.schedule``."""
        engine = await self._opened()
        return await self._aside(engine.schedule, name, workflow, **options)

    async def unschedule(self, name: str) -> None:
        """Remove a schedule; the runs that it started stay."""
        await self._call(ScheduleCalls.unschedule, name)

    async def schedules(self) -> list[Schedule]:
        """Return all schedules, by name."""
        return await self._call(ScheduleCalls.schedules)

    async def find_schedule(self, name: str) -> Schedule:
        """Return a schedule. Raises ScheduleNotFound."""
        return await self._call(ScheduleCalls.find_schedule, name)

    async def pause_schedule(self, name: str, reason: str = "paused by request") -> Schedule:
        """Let a schedule start nothing until it is resumed."""
        return await self._call(ScheduleCalls.pause_schedule, name, reason)

    async def resume_schedule(self, name: str) -> Schedule:
        """Let a schedule go on with its next tick."""
        return await self._call(ScheduleCalls.resume_schedule, name)

    async def trigger(self, name: str) -> Tick:
        """Start a run of a schedule now, as if it ticked."""
        return await self._call(ScheduleCalls.trigger, name)

    async def backfill(
        self, name: str, since: Moment, until: Moment, *, preview: bool = False
    ) -> list[Tick]:
        """Start a run for each tick from *since* on and before *until* that has none."""
        return await self._call(ScheduleCalls.backfill, name, since, until, preview=preview)

    async def next_ticks(self, name: str, count: int = 10) -> list[datetime]:
        """Return when a schedule ticks next, by the clock of its zone."""
        return await self._call(ScheduleCalls.next_ticks, name, count)

    async def why_schedule(self, name: str) -> list[Blocker]:
        """Say what keeps a schedule from starting its next run, and when it ticks."""
        return await self._call(ScheduleCalls.why_schedule, name)


def merged(ticks: list[Tick], started: list[Tick]) -> list[Tick]:
    """Return all ticks in order, each with its run."""
    new = {tick.at: tick for tick in started}
    return [new.get(tick.at, tick) for tick in ticks]
