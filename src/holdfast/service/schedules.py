"""What can be asked about schedules: put together and checked here, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import msgspec

from holdfast.core import duration
from holdfast.core.schedules import plan, rules
from holdfast.core.schedules.model import CALL, CODE, GONE, MISFIRES, OVERLAPS, Schedule, Tick
from holdfast.core.schedules.plan import MOST_TICKS
from holdfast.core.text import is_one_of
from holdfast.core.validation import checked_many, checked_tags, priority_of
from holdfast.core.why.workers import offer_of
from holdfast.engine.runtime.ids import new_id
from holdfast.errors import BadDuration, BadOption, BadSchedule, ScheduleNotFound, UnknownWorkflow
from holdfast.service.runs import Moment, Request, RunService, moment
from holdfast.store.contract.schedules import (
    BackfillSchedule,
    PauseSchedule,
    RemoveSchedule,
    ResumeSchedule,
    SetSchedule,
    TriggerSchedule,
)

LONGEST_NAME = 100
LOOKED_AT = 10
"""How many ticks are looked at to see whether they are further apart than the jitter."""

OPTIONS = frozenset(
    {
        "args",
        "kwargs",
        *rules.KINDS,
        "zone",
        "overlap",
        "queue_limit",
        "misfire",
        "catch_up",
        "grace",
        "jitter",
        "paused",
        "lane",
        "priority",
        "deadline",
        "tags",
        "capabilities",
        "version",
    }
)


class ScheduleService:
    """Turns what people ask of schedules into transitions, and reads what is stored."""

    def __init__(self, client: RunService) -> None:
        self._client, self._store = client, client.store

    # Making

    def set(
        self, name: Any, workflow: Any, options: Mapping[str, Any], *, origin: str = CALL
    ) -> Request:
        """Create or change a schedule; the answer is the schedule."""
        schedule = self.wanted(name, workflow, options, origin=origin)
        op = SetSchedule(schedule)
        return Request(op, lambda answer: self.get(schedule.name))

    def wanted(
        self, name: Any, workflow: Any, options: Mapping[str, Any], *, origin: str
    ) -> Schedule:
        """Return the schedule that is asked for. Raises BadSchedule, UnknownWorkflow."""
        unknown = sorted(set(options) - OPTIONS)
        if unknown:
            raise BadOption(option=unknown[0], known=", ".join(sorted(OPTIONS)))
        self._check_name(name)
        self._check_known(workflow)
        zone = options.get("zone", "UTC")
        if not isinstance(zone, str):
            raise BadSchedule(schedule=name, zone=zone, why="it is a name such as Europe/Berlin")
        try:
            rule = rules.written(options, zone)
        except BadSchedule as error:
            raise BadSchedule(schedule=name, **error.facts) from None
        route = self._client.route(workflow, options)
        given = {} if options.get("kwargs") is None else options["kwargs"]
        args = () if options.get("args") is None else options["args"]
        if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
            raise BadOption(
                option="kwargs", value=given, why='give names and values, such as {"limit": 5}'
            )
        data = self._client.input_of(workflow, tuple(checked_many("args", args)), dict(given))
        paused = options.get("paused")
        if paused is not None and not isinstance(paused, bool | str):
            raise BadOption(option="paused", value=paused, why="it is True, False or the reason")
        schedule = Schedule(
            namespace=route.namespace,
            name=name,
            workflow=route.workflow,
            version=route.version,
            lane=route.lane,
            capabilities=route.capabilities,
            input=data,
            priority=priority_of(options.get("priority", 0)),
            tags=checked_tags(options.get("tags")),
            deadline=_length(name, "deadline", options.get("deadline")) or None,
            rule=rule,
            zone=zone,
            overlap=_one_of(name, "overlap", options.get("overlap", "skip"), OVERLAPS),
            queue_limit=_number(name, "queue_limit", options.get("queue_limit", 100)),
            misfire=_one_of(name, "misfire", options.get("misfire", "once"), MISFIRES),
            catch_up=_number(name, "catch_up", options.get("catch_up", 100)),
            grace=_length(name, "grace", options.get("grace", "1m")),
            jitter=_length(name, "jitter", options.get("jitter")),
            origin=origin,
            paused=(
                (paused if isinstance(paused, str) else "paused from the start") if paused else None
            ),
        )
        self._check_ticks(schedule)
        return schedule

    def _check_name(self, name: Any) -> None:
        if (
            not isinstance(name, str)
            or not name.strip()
            or len(name) > LONGEST_NAME
            or not name.isprintable()
        ):
            raise BadSchedule(
                schedule=name,
                why=f"its name must be a text of one line, 1 to {LONGEST_NAME} characters",
            )

    def _check_known(self, workflow: Any) -> None:
        """A workflow that nobody has ever heard of is a mistake in its name."""
        if not isinstance(workflow, str) or workflow in self._client.definitions():
            return
        if any(route.workflow == workflow for route in self._store.routes().values()):
            return
        if any(
            workflow in (offer_of(session).workflows or ()) for session in self._store.sessions()
        ):
            return
        raise UnknownWorkflow(workflow=workflow)

    def _check_ticks(self, schedule: Schedule) -> None:
        """Refuse what never ticks, and a jitter that is longer than the time between ticks."""
        now = self._store.now()
        fresh = msgspec.structs.replace(schedule, anchor=now)
        ticks = plan.next_ticks(fresh, now, LOOKED_AT)
        if not ticks and self._store.schedule(schedule.namespace, schedule.name) is None:
            raise BadSchedule(
                schedule=schedule.name,
                rule=rules.shown(schedule.rule),
                why="it never ticks from now on",
            )
        shortest = min((after - before for before, after in pairwise(ticks)), default=None)
        if shortest is not None and schedule.jitter > shortest:
            why = f"it is longer than the time between two ticks, {duration.show(shortest)}"
            raise BadSchedule(
                schedule=schedule.name, jitter=duration.show(schedule.jitter), why=why
            )

    def declared(
        self, definitions: Mapping[str, Any]
    ) -> tuple[list[Schedule], list[Schedule], list[str]]:
        """Return what the decorators of these workflows say: the schedules, those stored that none
        of them declares any more, and what is wrong with others, in words."""
        wanted: dict[str, Schedule] = {}
        wrong: list[str] = []
        for definition in definitions.values():
            for name, options in getattr(definition, "schedules", ()):
                try:
                    if name in wanted:
                        raise BadSchedule(schedule=name, why="two decorators want this name")
                    wanted[name] = self.wanted(name, definition, options, origin=CODE)
                except (BadSchedule, BadOption) as error:
                    wrong.append(str(error))
        stored = [
            one
            for one in self._store.schedules()
            if one.namespace == self._client.namespace and one.origin == CODE
        ]
        gone = [
            one
            for one in stored
            if one.workflow in definitions and one.name not in wanted and one.paused is None
        ]
        return list(wanted.values()), gone, wrong

    # Changing

    def remove(self, name: str) -> Request:
        """Forget a schedule."""
        return Request(
            RemoveSchedule(self._client.namespace, self.get(name).name), lambda answer: None
        )

    def pause(self, name: str, reason: str) -> Request:
        """Let a schedule start nothing."""
        if not isinstance(reason, str) or not reason or reason == GONE:
            raise BadOption(option="reason", value=reason, why="it is a text")
        return Request(
            PauseSchedule(self._client.namespace, self.get(name).name, reason),
            lambda answer: self.get(name),
        )

    def resume(self, name: str) -> Request:
        """Let it go on."""
        return Request(
            ResumeSchedule(self._client.namespace, self.get(name).name),
            lambda answer: self.get(name),
        )

    def trigger(self, name: str) -> Request:
        """Start a run of it now; the answer is a Tick."""
        return Request(
            TriggerSchedule(self._client.namespace, self.get(name).name, new_id()),
            lambda answer: answer,
        )

    def backfill(self, name: str, since: Moment, until: Moment) -> tuple[list[Tick], Request]:
        """Start what was not started in its time. Returns the ticks, each with the run that it has,
        and the request for those that have none; its answer is a list of Tick."""
        schedule, now = self.get(name), self._store.now()
        begin, end = _instant(schedule, since, now), _instant(schedule, until, now)
        if end > now:
            raise BadSchedule(
                schedule=name,
                until=_iso(end),
                why="it lies in the future: only what has passed can be made up for",
            )
        if begin >= end:
            raise BadSchedule(
                schedule=name,
                since=_iso(begin),
                until=_iso(end),
                why="since must come before until",
            )
        ticks = plan.ticks_between(schedule, begin, end, MOST_TICKS + 1)
        if len(ticks) > MOST_TICKS:
            why = (
                f"there are more than {MOST_TICKS} ticks between them: make up for them part by"
                " part"
            )
            raise BadSchedule(schedule=name, since=_iso(begin), until=_iso(end), why=why)
        found = self._store.runs_of_ticks(schedule, ticks)
        open_ones = [tick.at for tick in found if tick.run is None]
        op = BackfillSchedule(schedule.namespace, name, open_ones, [new_id() for _ in open_ones])
        return found, Request(op, lambda answer: answer)

    # Looking

    def get(self, name: str) -> Schedule:
        """Return a schedule. Raises ScheduleNotFound."""
        found = (
            self._store.schedule(self._client.namespace, name) if isinstance(name, str) else None
        )
        if found is None:
            raise ScheduleNotFound(schedule=name)
        return found

    def all(self) -> list[Schedule]:
        """Return the schedules of this namespace, by name."""
        return [one for one in self._store.schedules() if one.namespace == self._client.namespace]

    def next_ticks(self, name: str, count: int) -> list[datetime]:
        """Return the next ticks, by the clock of the schedule's zone."""
        from holdfast.core.schedules.time_zones import zone_of

        schedule = self.get(name)
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_TICKS:
            raise BadOption(option="count", value=count, why=f"it is a number up to {MOST_TICKS}")
        if schedule.next_at is None:
            return []
        after = max(schedule.next_at - 1, self._store.now())
        return [
            as_datetime(at).astimezone(zone_of(schedule.zone))
            for at in plan.next_ticks(schedule, after, count)
        ]

    def why(self, name: str) -> list[Any]:
        """Say what keeps a schedule from starting its next run, as blockers."""
        from holdfast.core.why.schedules import explain_schedule

        schedule = self.get(name)
        return explain_schedule(schedule, self._store.live_runs(schedule), self._store.now())


def _instant(schedule: Schedule, given: Moment, now: int) -> int:
    if isinstance(given, datetime):
        return rules.moment(given, schedule.zone)
    try:
        return moment(given, now, sign=-1)
    except BadDuration as error:
        raise BadSchedule(schedule=schedule.name, moment=given, why=str(error)) from None


def as_datetime(instant: int) -> datetime:
    """Return an instant as a date and time in UTC."""
    whole, micros = divmod(
        instant, 1_000_000
    )  # not a float: the last second of the year 9999 would be rounded up
    return datetime.fromtimestamp(whole, UTC).replace(microsecond=micros)


def _iso(instant: int) -> str:
    return as_datetime(instant).isoformat()


def _length(name: str, option: str, value: Any) -> int:
    try:
        return 0 if value is None else duration.parse(value)
    except BadDuration as error:
        raise BadSchedule(
            schedule=name, **{option: value}, why=str(error.facts.get("why", error))
        ) from None


def _one_of(name: str, option: str, value: Any, known: Sequence[str]) -> str:
    if not is_one_of(value, known):
        raise BadSchedule(schedule=name, **{option: value}, why=f"there are {', '.join(known)}")
    return str(value)


def _number(name: str, option: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_TICKS:
        raise BadSchedule(
            schedule=name, **{option: value}, why=f"it is a number from 1 to {MOST_TICKS}"
        )
    return value
