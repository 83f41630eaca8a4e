"""Requests about schedules: set, pause, trigger and backfill them, and read them.

Everything is checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

import msgspec

from holdfast.core import duration
from holdfast.core.duration import as_datetime
from holdfast.core.schedules import plan, rules
from holdfast.core.schedules.model import (
    CALL,
    CODE,
    GONE,
    MISFIRES,
    MODEL,
    OVERLAPS,
    Misfire,
    Overlap,
    Schedule,
    ScheduleDeclaration,
    Tick,
)
from holdfast.core.schedules.plan import MOST_TICKS
from holdfast.core.text import is_one_of
from holdfast.core.validation import (
    checked_count,
    checked_many,
    checked_run_id,
    checked_tags,
    checked_text,
    priority_of,
)
from holdfast.core.why.workers import offer_of
from holdfast.engine.runtime.ids import new_id
from holdfast.errors import BadDuration, BadOption, BadSchedule, ScheduleNotFound, UnknownWorkflow
from holdfast.service.instants import Moment, moment
from holdfast.service.requests import Request, identity
from holdfast.service.runs import RunService
from holdfast.service.starts import StartService
from holdfast.store.schedules.operations import (
    BackfillSchedule,
    PauseSchedule,
    RemoveSchedule,
    ResumeSchedule,
    SetSchedule,
    TriggerSchedule,
)

LONGEST_NAME = 100
CHECKED_TICKS = 10
"""Ticks whose distances are compared with the jitter of a schedule."""

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


_KEPT = (
    "priority",
    "tags",
    "deadline",
    "overlap",
    "queue_limit",
    "misfire",
    "catch_up",
    "grace",
    "jitter",
    "paused",
)
"""The fields of a stored schedule that stay as they are if no option of that name changes them."""

_OF_THE_WORKFLOW = ("version", "lane", "capabilities")
"""The fields that stay as they are if neither an option nor a workflow is given."""


class ScheduleService:
    """Builds the operations on schedules, and reads schedules."""

    def __init__(self, client: RunService) -> None:
        self._client = client
        self._store = client.store
        self._starts = StartService(client)

    # Creating

    def set(
        self, name: Any, workflow: Any, options: Mapping[str, Any], *, origin: str = CALL
    ) -> Request[Schedule]:
        """Create a schedule, or change the given options of it. The answer is the schedule. Raises
        BadSchedule, BadOption, UnknownWorkflow."""
        self._check_name(name)
        stored = self._store.schedules.get(self._client.namespace, name)
        schedule = self._merged(stored, name, workflow, options, origin=origin)
        op = SetSchedule(
            schedule,
            sets_pause="paused" in options,
            merges=True,
            expected=stored,
            definition=self._starts.kept_definition(workflow, options),
        )
        return Request(op, lambda answer: self.get(schedule.name))

    def _merged(
        self,
        old: Schedule | None,
        name: str,
        workflow: Any,
        options: Mapping[str, Any],
        *,
        origin: str,
    ) -> Schedule:
        """Return the schedule of these options; options that are not given are those of the stored
        schedule *old*, if there is one."""
        if old is None:
            if workflow is None:
                raise ScheduleNotFound(schedule=name, why="a new schedule needs a workflow")
            return self.checked_schedule(name, workflow, options, origin=origin)
        unchanged = [name for name in _KEPT if name not in options]
        if workflow is None:
            workflow = old.workflow
            unchanged += [name for name in _OF_THE_WORKFLOW if name not in options]
        new = self.checked_schedule(name, workflow, options, origin=origin, stored=old)
        merged = msgspec.structs.replace(new, **{name: getattr(old, name) for name in unchanged})
        self._check_ticks(merged)
        return merged

    def of_model(self, process: str, declarations: Sequence[ScheduleDeclaration]) -> list[Schedule]:
        """Return the schedules of the timer start events of a model, without the ones whose times
        have passed. Raises BadSchedule, BadOption."""
        now = self._store.now()
        schedules = [
            self._schedule(each.name, process, each.options, origin=MODEL) for each in declarations
        ]
        return [
            schedule
            for schedule in schedules
            if plan.next_ticks(msgspec.structs.replace(schedule, anchor=now), now, 1)
        ]

    def checked_schedule(
        self,
        name: Any,
        workflow: Any,
        options: Mapping[str, Any],
        *,
        origin: str,
        stored: Schedule | None = None,
    ) -> Schedule:
        """Return the checked schedule of these options. Without options for its rule or its
        arguments, those of the *stored* schedule are used. Raises BadSchedule, BadOption,
        UnknownWorkflow."""
        if stored is None or workflow != stored.workflow:
            self._check_known(workflow)
        schedule = self._schedule(name, workflow, options, origin=origin, stored=stored)
        self._check_ticks(schedule)
        return schedule

    def _schedule(
        self,
        name: Any,
        workflow: Any,
        options: Mapping[str, Any],
        *,
        origin: str,
        stored: Schedule | None = None,
    ) -> Schedule:
        """Return the schedule of these options. Raises BadSchedule, BadOption."""
        unknown = sorted(set(options) - OPTIONS)
        if unknown:
            raise BadOption(option=unknown[0], known=", ".join(sorted(OPTIONS)))
        self._check_name(name)
        zone = options.get("zone", "UTC" if stored is None else stored.zone)
        if not isinstance(zone, str):
            raise BadSchedule(
                schedule=name, zone=zone, why="give the name of a zone such as Europe/Berlin"
            )
        rule = self._rule(name, options, zone, stored)
        workflow = self._starts.resolved(workflow, options)
        route = self._starts.route(workflow, options)
        data = self._input(workflow, options, stored)
        paused = _pause_reason(options.get("paused"))
        return Schedule(
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
            overlap=_one_of(name, "overlap", options.get("overlap", Overlap.SKIP), OVERLAPS),
            queue_limit=_number(name, "queue_limit", options.get("queue_limit", 100)),
            misfire=_one_of(name, "misfire", options.get("misfire", Misfire.ONCE), MISFIRES),
            catch_up=_number(name, "catch_up", options.get("catch_up", 100)),
            grace=_length(name, "grace", options.get("grace", "1m")),
            jitter=_length(name, "jitter", options.get("jitter")),
            origin=origin,
            paused=paused,
        )

    def _rule(
        self, name: str, options: Mapping[str, Any], zone: str, stored: Schedule | None
    ) -> str:
        """Return the rule of these options, or the stored one. Raises BadSchedule."""
        if stored is not None and not any(kind in options for kind in rules.KINDS):
            return stored.rule
        try:
            return rules.rule_text(options, zone)
        except BadSchedule as error:
            raise BadSchedule(schedule=name, **error.facts) from None

    def _input(self, workflow: Any, options: Mapping[str, Any], stored: Schedule | None) -> bytes:
        """Return the encoded arguments of these options, or the stored ones of the same workflow.
        Raises BadOption."""
        name = str(workflow) if isinstance(workflow, str) else getattr(workflow, "name", None)
        named = "args" in options or "kwargs" in options
        if stored is not None and stored.workflow == name and not named:
            return stored.input
        kwargs = {} if options.get("kwargs") is None else options["kwargs"]
        args = () if options.get("args") is None else options["args"]
        if not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs):
            raise BadOption(
                option="kwargs", value=kwargs, why='give names and values, such as {"limit": 5}'
            )
        return self._starts.encode_input(workflow, tuple(checked_many("args", args)), dict(kwargs))

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
        """Raise UnknownWorkflow if no process, model, run or worker here knows this name: then it
        is a misspelling."""
        if not isinstance(workflow, str) or workflow in self._client.definitions():
            return
        if self._client.deployed(self._client.namespace, workflow) is not None:
            return
        if any(route.workflow == workflow for route in self._store.runs.routes().values()):
            return
        if any(
            workflow in (offer_of(session).workflows or ())
            for session in self._store.sessions.all()
        ):
            return
        raise UnknownWorkflow(workflow=workflow)

    def _check_ticks(self, schedule: Schedule) -> None:
        """Raise BadSchedule if a new schedule never ticks, or if its jitter is longer than the time
        between ticks."""
        now = self._store.now()
        fresh = msgspec.structs.replace(schedule, anchor=now)
        ticks = plan.next_ticks(fresh, now, CHECKED_TICKS)
        if not ticks and self._store.schedules.get(schedule.namespace, schedule.name) is None:
            raise BadSchedule(
                schedule=schedule.name,
                rule=rules.describe_rule(schedule.rule),
                why="the schedule never ticks from now on",
            )
        shortest = min((after - before for before, after in pairwise(ticks)), default=None)
        if shortest is not None and schedule.jitter > shortest:
            why = f"the jitter is longer than the time between two ticks, {duration.show(shortest)}"
            raise BadSchedule(
                schedule=schedule.name, jitter=duration.show(schedule.jitter), why=why
            )

    def declared(
        self, definitions: Mapping[str, Any]
    ) -> tuple[list[Schedule], list[Schedule], list[str]]:
        """Return the schedules that the decorators of these workflows declare, the stored schedules
        that no decorator declares any more, and a message for each declaration that is wrong."""
        declared: dict[str, Schedule] = {}
        wrong: list[str] = []
        for definition in definitions.values():
            for declaration in definition.schedules:
                name = declaration.name
                try:
                    if name in declared:
                        raise BadSchedule(schedule=name, why="two decorators use this name")
                    declared[name] = self.checked_schedule(
                        name, definition, declaration.options, origin=CODE
                    )
                except (BadSchedule, BadOption) as error:
                    wrong.append(str(error))
        stored = [
            schedule
            for schedule in self._store.schedules.all()
            if schedule.namespace == self._client.namespace and schedule.origin == CODE
        ]
        gone = [
            schedule
            for schedule in stored
            if schedule.workflow in definitions
            and schedule.name not in declared
            and schedule.paused is None
        ]
        return list(declared.values()), gone, wrong

    # Changing

    def remove(self, name: str) -> Request[None]:
        """Delete a schedule. Raises ScheduleNotFound."""
        return Request(
            RemoveSchedule(self._client.namespace, self.get(name).name), lambda answer: None
        )

    def pause(self, name: str, reason: str) -> Request[Schedule]:
        """Pause a schedule. The answer is the schedule. Raises ScheduleNotFound, BadOption."""
        if not isinstance(reason, str) or not reason or reason == GONE:
            raise BadOption(option="reason", value=reason, why="give the reason as a text")
        return Request(
            PauseSchedule(self._client.namespace, self.get(name).name, reason),
            lambda answer: self.get(name),
        )

    def resume(self, name: str) -> Request[Schedule]:
        """Resume a paused schedule. The answer is the schedule. Raises ScheduleNotFound."""
        return Request(
            ResumeSchedule(self._client.namespace, self.get(name).name),
            lambda answer: self.get(name),
        )

    def trigger(self, name: str, run_id: Any = None) -> Request[Tick]:
        """Start a run of a schedule now. The answer is a Tick. Raises ScheduleNotFound,
        BadOption."""
        chosen = checked_run_id(run_id)
        op = TriggerSchedule(
            self._client.namespace, self.get(name).name, chosen or new_id(), chosen is not None
        )
        return Request(op, identity)

    def backfill(
        self, name: str, since: Moment, until: Moment
    ) -> tuple[list[Tick], Request[list[Tick]]]:
        """Start the runs of past ticks that have none.

        Return all ticks of the period, each with its run, and the request for the ticks that have
        no run; its answer is a list of Tick. Raises ScheduleNotFound, BadSchedule."""
        schedule = self.get(name)
        now = self._store.now()
        begin = _instant(schedule, since, now)
        end = _instant(schedule, until, now)
        if end > now:
            raise BadSchedule(
                schedule=name,
                until=_iso(end),
                why="until lies in the future: only past ticks can be backfilled",
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
                f"there are more than {MOST_TICKS} ticks between since and until: backfill shorter"
                " periods"
            )
            raise BadSchedule(schedule=name, since=_iso(begin), until=_iso(end), why=why)
        known = self._store.schedules.runs_of_ticks(schedule, ticks)
        missing = [tick.at for tick in known if tick.run is None]
        op = BackfillSchedule(schedule.namespace, name, missing, [new_id() for _ in missing])
        return known, Request(op, identity)

    # Reading

    def get(self, name: str) -> Schedule:
        """Return a schedule. Raises ScheduleNotFound."""
        if not isinstance(name, str):
            raise ScheduleNotFound(schedule=name)
        schedule = self._store.schedules.get(self._client.namespace, name)
        if schedule is None:
            raise ScheduleNotFound(schedule=name)
        return schedule

    def find(self, after: str | None, limit: int) -> list[Schedule]:
        """Return a page of the schedules of this namespace, by name: those after the name *after*.
        Raises BadOption."""
        first = checked_text("after", after) or ""
        return self._store.schedules.page(
            self._client.namespace, first, checked_count("limit", limit)
        )

    def next_ticks(self, name: str, count: int) -> list[datetime]:
        """Return the next *count* ticks, as times in the schedule's zone. Raises ScheduleNotFound,
        BadOption."""
        from holdfast.core.schedules.time_zones import zone_of

        schedule = self.get(name)
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_TICKS:
            raise BadOption(
                option="count", value=count, why=f"give a number from 0 to {MOST_TICKS}"
            )
        if schedule.next_at is None:
            return []
        after = max(schedule.next_at - 1, self._store.now())
        return [
            as_datetime(at).astimezone(zone_of(schedule.zone))
            for at in plan.next_ticks(schedule, after, count)
        ]

    def why(self, name: str) -> list[Any]:
        """Return the blockers that keep a schedule from starting its next run. Raises
        ScheduleNotFound."""
        from holdfast.core.why.schedules import explain_schedule

        schedule = self.get(name)
        return explain_schedule(
            schedule, self._store.schedules.live_runs(schedule), self._store.now()
        )


def _pause_reason(paused: Any) -> str | None:
    if paused is not None and not isinstance(paused, bool | str):
        raise BadOption(option="paused", value=paused, why="give True, False or the reason")
    if not paused:
        return None
    return paused if isinstance(paused, str) else "paused from the start"


def _instant(schedule: Schedule, when: Moment, now: int) -> int:
    if isinstance(when, datetime):
        return rules.moment(when, schedule.zone)
    try:
        return moment(when, now, sign=-1)
    except BadDuration as error:
        raise BadSchedule(schedule=schedule.name, moment=when, why=str(error)) from None


def _iso(instant: int) -> str:
    return as_datetime(instant).isoformat()


def _length(name: str, option: str, value: Any) -> int:
    try:
        if value is None:
            return 0
        return duration.parse(value)
    except BadDuration as error:
        raise BadSchedule(
            schedule=name, **{option: value}, why=str(error.facts.get("why", error))
        ) from None


def _one_of(name: str, option: str, value: Any, known: Sequence[str]) -> str:
    if not is_one_of(value, known):
        raise BadSchedule(schedule=name, **{option: value}, why=f"choose one of {', '.join(known)}")
    return str(value)


def _number(name: str, option: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_TICKS:
        raise BadSchedule(
            schedule=name, **{option: value}, why=f"give a number from 1 to {MOST_TICKS}"
        )
    return value
