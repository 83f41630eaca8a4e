# Generated from connect/schedules.py by tools/generate_blocking.py: do not edit.
"""``engine.schedules``: the rules that start runs at given times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from holdfast.connect.calls import Calls
from holdfast.connect.components import Components
from holdfast.core.duration import Duration
from holdfast.core.schedules.model import Schedule
from holdfast.core.unset import UNSET, without_unset
from holdfast.core.validation import checked_flag
from holdfast.service.instants import Moment
from holdfast.service.requests import Request
from holdfast.views import schedules as views
from holdfast.views.schedules import ScheduleView, TickView
from holdfast.views.why import BlockerView, blocker_of


class Schedules:
    """The schedules of an ``Engine``."""

    def __init__(self, calls: Calls) -> None:
        self._calls: Calls = calls

    def set(
        self,
        name: str,
        workflow: Any = None,
        *,
        cron: str | None = UNSET,
        interval: Duration | None = UNSET,
        dates: Iterable[datetime | str] | None = UNSET,
        repeat: str | None = UNSET,
        zone: str = UNSET,
        args: Sequence[Any] | None = UNSET,
        kwargs: Mapping[str, Any] | None = UNSET,
        overlap: str = UNSET,
        queue_limit: int = UNSET,
        misfire: str = UNSET,
        catch_up: int = UNSET,
        grace: Duration = UNSET,
        jitter: Duration | None = UNSET,
        paused: bool | str | None = UNSET,
        lane: str | None = UNSET,
        priority: int = UNSET,
        deadline: Duration | None = UNSET,
        tags: Mapping[str, str] | None = UNSET,
        capabilities: str | Iterable[str] | None = UNSET,
        version: str | int | None = UNSET,
        by: str | None = None,
    ) -> ScheduleView:
        """Create a schedule, which starts runs of a workflow by a rule, or change the schedule of
        that name. Settings of an existing schedule that are not passed stay as they are, and so
        does its workflow if that is None. A workflow that is passed brings its own lane, version
        and capabilities, unless they are passed, too.

        One of *cron*, *interval*, *dates* and *repeat* sets the times, in the time zone *zone*;
        *jitter* delays each tick by a random time. *overlap* says what happens to a tick while an
        earlier run is live, with *queue_limit* queued ticks at most. *misfire*, *catch_up* and
        *grace* say what happens to ticks that no worker served in time. A *paused* schedule starts
        no runs. *args* and *kwargs* are passed to the workflow; *lane*, *priority*, *deadline*,
        *tags*, *capabilities* and *version* are options of ``start``. With *by*, the person or
        program that asks, the change is recorded in ``engine.audit``. Raises BadSchedule,
        BadOption, UnknownWorkflow.
        """
        options = without_unset(
            {
                "cron": cron,
                "interval": interval,
                "dates": dates,
                "repeat": repeat,
                "zone": zone,
                "args": args,
                "kwargs": kwargs,
                "overlap": overlap,
                "queue_limit": queue_limit,
                "misfire": misfire,
                "catch_up": catch_up,
                "grace": grace,
                "jitter": jitter,
                "paused": paused,
                "lane": lane,
                "priority": priority,
                "deadline": deadline,
                "tags": tags,
                "capabilities": capabilities,
                "version": version,
            }
        )

        def set_schedule(parts: Components) -> ScheduleView:
            if workflow is not None:
                parts.know(workflow)
            return views.of(parts.merge(lambda: make_request(parts)))

        def make_request(parts: Components) -> Request[Schedule]:
            request = parts.schedules.set(name, workflow, options)
            return parts.audit.record(request, by, "schedules.set", name, settings=list(options))

        return self._calls.call(set_schedule)

    def get(self, name: str) -> ScheduleView:
        """Return a schedule. Raises ScheduleNotFound."""
        return self._calls.call(lambda parts: views.of(parts.schedules.get(name)))

    def list(self, *, after: str | None = None, limit: int = 100) -> list[ScheduleView]:
        """Return a page of the schedules, by name: the first *limit*, or those after the name
        *after*. Raises BadOption."""

        def read(parts: Components) -> list[ScheduleView]:
            return [views.of(schedule) for schedule in parts.schedules.find(after, limit)]

        return self._calls.call(read)

    def pause(
        self, name: str, reason: str = "paused by request", *, by: str | None = None
    ) -> ScheduleView:
        """Pause a schedule: it starts no runs until it is resumed. Raises ScheduleNotFound."""
        schedule = self._calls.commit(
            lambda parts: parts.audit.record(
                parts.schedules.pause(name, reason), by, "schedules.pause", name, reason=reason
            )
        )
        return views.of(schedule)

    def resume(self, name: str, *, by: str | None = None) -> ScheduleView:
        """Resume a schedule from its next tick on. Ticks during the pause are not made up for; use
        ``backfill`` for them. Raises ScheduleNotFound."""
        schedule = self._calls.commit(
            lambda parts: parts.audit.record(
                parts.schedules.resume(name), by, "schedules.resume", name
            )
        )
        return views.of(schedule)

    def remove(self, name: str, *, by: str | None = None) -> None:
        """Delete a schedule; the runs that it started stay. Raises ScheduleNotFound."""
        self._calls.commit(
            lambda parts: parts.audit.record(
                parts.schedules.remove(name), by, "schedules.remove", name
            )
        )

    def trigger(self, name: str, *, id: str | None = None, by: str | None = None) -> TickView:
        """Start a run of a schedule now, as at a tick. The run of the tick is None if it is queued
        behind another run. With *id*, the run has this id, a repeated call starts no other run, and
        the tick is never queued. Raises ScheduleNotFound, BadOption, RunExists if the id belongs to
        another run, and ScheduleBusy if a tick would be skipped."""
        tick = self._calls.commit(
            lambda parts: parts.audit.record(
                parts.schedules.trigger(name, id), by, "schedules.trigger", name
            )
        )
        return views.tick_of(tick)

    def backfill(
        self,
        name: str,
        since: Moment,
        until: Moment,
        *,
        dry_run: bool = False,
        by: str | None = None,
    ) -> Sequence[TickView]:
        """Start a run for each tick from *since* (inclusive) to *until* (exclusive) that has none,
        and return all ticks of the period, each with its run. With *dry_run*, start nothing: the
        ticks to be started are returned without a run. Raises ScheduleNotFound, BadSchedule."""
        dry_run = checked_flag("dry_run", dry_run)

        def start(parts: Components) -> list[TickView]:
            ticks, request = parts.schedules.backfill(name, since, until)
            request = parts.audit.record(
                request, by, "schedules.backfill", name, since=str(since), until=str(until)
            )
            started = {} if dry_run else {tick.at: tick for tick in parts.commit(request)}
            return [views.tick_of(started.get(tick.at, tick)) for tick in ticks]

        return self._calls.call(start)

    def next(self, name: str, count: int = 10) -> Sequence[datetime]:
        """Return the next *count* ticks of a schedule, as times in its zone. Raises
        ScheduleNotFound."""
        return self._calls.call(lambda parts: parts.schedules.next_ticks(name, count))

    def why(self, name: str) -> Sequence[BlockerView]:
        """Return the blockers that keep a schedule from starting its next run. Raises
        ScheduleNotFound."""
        return self._calls.call(
            lambda parts: [blocker_of(blocker) for blocker in parts.schedules.why(name)]
        )
