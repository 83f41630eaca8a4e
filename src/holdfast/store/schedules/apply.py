"""Create, change, pause and fire schedules. A tick's runs and the next tick commit together."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec

from holdfast.core import typed_json
from holdfast.core.runs import CancelCause, NewRun
from holdfast.core.schedules import plan, rules
from holdfast.core.schedules.model import CALL, CODE, GONE, MODEL, Overlap, Schedule, Tick, key_of
from holdfast.errors import (
    BadSchedule,
    LaneDraining,
    RunExists,
    RunFinished,
    RunNotFound,
    ScheduleBusy,
    ScheduleNotFound,
)
from holdfast.store.database import Row, SettingsChanged, Transaction
from holdfast.store.definitions.apply import keep_definitions
from holdfast.store.payloads.encrypt import clear_values_accepted
from holdfast.store.runs.cancel import request_cancel
from holdfast.store.runs.operations import RequestCancel, StartRuns
from holdfast.store.runs.start import start_runs
from holdfast.store.schedules.operations import (
    BackfillSchedule,
    FireSchedules,
    PauseSchedule,
    RemoveSchedule,
    ResumeSchedule,
    SetSchedule,
    TriggerSchedule,
)
from holdfast.store.soundness import damaged

log = logging.getLogger("holdfast")

_WAITS = (Overlap.QUEUE, Overlap.CANCEL)
"""The overlap policies with which a tick waits until a run ends."""

_KEPT = (
    "paused",
    "anchor",
    "next_at",
    "last_at",
    "queued",
    "started",
    "skipped",
    "note",
    "created_at",
)
"""The fields that a schedule keeps when it is saved again under its name."""


def schedule_from(row: Row) -> Schedule:
    """Return the schedule of a row. Raises RowDamaged if its rule is invalid."""
    values = dict(row)
    fault = rules.fault(values["rule"])
    if fault is not None:
        raise damaged(
            "schedule", {"namespace": values["namespace"], "name": values["name"]}, "rule", fault
        )
    values["capabilities"] = (
        tuple(values["capabilities"].split(",")) if values["capabilities"] else ()
    )
    values["tags"] = typed_json.decode(values["tags"], dict[str, str])
    values["queued"] = typed_json.decode(values["queued"] or "[]", list[int])
    values["input"] = bytes(values["input"])
    return Schedule(**values)


def _save(tx: Transaction, schedule: Schedule, *, replaces: bool = True) -> bool:
    """Write a schedule. Return False if there is one, and this write does not replace it."""
    values: dict[str, Any] = msgspec.structs.asdict(schedule)
    values["capabilities"] = ",".join(sorted(schedule.capabilities))
    values["tags"] = msgspec.json.encode(schedule.tags, order="sorted").decode()
    values["queued"] = msgspec.json.encode(schedule.queued).decode() if schedule.queued else None
    return bool(tx.change("save_schedule", **values, replaces=int(replaces)))


def _load(tx: Transaction, namespace: str, name: str) -> Schedule:
    rows = tx.rows("load_schedule", namespace=namespace, name=name)
    if not rows:
        raise ScheduleNotFound(schedule=name, namespace=namespace)
    return schedule_from(rows[0])


# Making and changing


def set_schedule(tx: Transaction, op: SetSchedule) -> str | SettingsChanged:
    """Create a schedule, or change it and keep its record of ticks.

    Return ``created``, ``changed`` or ``unchanged``, or SettingsChanged.
    """
    rows = tx.rows("load_schedule", namespace=op.schedule.namespace, name=op.schedule.name)
    old = schedule_from(rows[0]) if rows else None
    if op.merges and _definition(old) != _definition(op.expected):
        return SettingsChanged()
    if op.definition is not None:
        keep_definitions(tx, [op.definition])
    new = _fresh(tx, op.schedule) if old is None else _changed(tx, old, op)
    new.wake_at = _wake(tx, new)
    if new == old:
        return "unchanged"
    if not _save(tx, new, replaces=old is not None or not op.merges):
        return SettingsChanged()  # another process has just created the schedule
    tx.hints.ready = True
    return "created" if old is None else "changed"


def _definition(schedule: Schedule | None) -> dict[str, Any] | None:
    """Return the fields of a schedule that a caller sets; None for None."""
    if schedule is None:
        return None
    fields: dict[str, Any] = msgspec.structs.asdict(schedule)
    return {name: value for name, value in fields.items() if name not in (*_KEPT, "wake_at")}


def _fresh(tx: Transaction, wanted: Schedule) -> Schedule:
    new = msgspec.structs.replace(wanted, anchor=tx.now, created_at=tx.now)
    return _from_now_on(tx, new)


def _from_now_on(tx: Transaction, schedule: Schedule) -> Schedule:
    schedule.next_at = plan.rule_of(schedule).after(tx.now)
    if schedule.next_at is None:
        raise BadSchedule(
            schedule=schedule.name, rule=schedule.rule, why="the rule never ticks after now"
        )
    return schedule


def _changed(tx: Transaction, old: Schedule, op: SetSchedule) -> Schedule:
    wanted = op.schedule
    if old.origin == CODE and wanted.origin == CALL:
        why = "a decorator in the code defines it: change the decorator, or use another name"
        raise BadSchedule(schedule=old.name, why=why)
    if (old.origin == MODEL) != (wanted.origin == MODEL):
        why = "a model and a schedule of your own have the same name: use another one"
        raise BadSchedule(schedule=old.name, why=why)
    new = msgspec.structs.replace(wanted, **{name: getattr(old, name) for name in _KEPT})
    if op.sets_pause or old.paused == GONE or old.paused is None:
        new.paused = wanted.paused
    if new.overlap not in _WAITS:
        new.queued = []
    # Ticks of the old rule mean nothing by the new one.
    if (old.rule, old.zone) != (new.rule, new.zone):
        new.anchor = tx.now
        new.queued = []
        return _from_now_on(tx, new)
    return (
        _from_now_on(tx, new)
        if old.paused is not None and new.paused is None and old.next_at is not None
        else new
    )


def pause_schedule(tx: Transaction, op: PauseSchedule) -> None:
    """Pause a schedule: it starts no runs."""
    schedule = _load(tx, op.namespace, op.name)
    schedule.paused = op.reason
    schedule.wake_at = None
    _save(tx, schedule)


def resume_schedule(tx: Transaction, op: ResumeSchedule) -> None:
    """Resume a paused schedule with its next tick after now."""
    schedule = _load(tx, op.namespace, op.name)
    if schedule.paused is None:
        return
    schedule.paused = None
    schedule.next_at = None if schedule.next_at is None else plan.rule_of(schedule).after(tx.now)
    schedule.wake_at = _wake(tx, schedule)
    _save(tx, schedule)
    tx.hints.ready = True


def remove_schedule(tx: Transaction, op: RemoveSchedule) -> None:
    """Delete a schedule. Raises BadSchedule if a decorator defines it."""
    schedule = _load(tx, op.namespace, op.name)
    if schedule.origin == CODE and schedule.paused != GONE:
        why = (
            "a decorator in the code would create it again: remove the decorator, or pause the"
            " schedule"
        )
        raise BadSchedule(schedule=op.name, why=why)
    if schedule.origin == MODEL:
        why = "a start event of a model defines it: pause the schedule, or deprecate the model"
        raise BadSchedule(schedule=op.name, why=why)
    tx.change("delete_schedule", namespace=op.namespace, name=op.name)


def _wake(tx: Transaction, schedule: Schedule) -> int | None:
    """Return when to process the schedule: now if a queued tick can start, else at its next
    tick."""
    if schedule.paused is None and schedule.queued and not _live(tx, schedule):
        return tx.now
    return plan.wake_at(schedule)


# Ticking


def fire_schedules(tx: Transaction, op: FireSchedules) -> list[str]:
    """Process all ticks that are due. Return the ids of the runs that were started."""
    started: list[str] = []
    for row in tx.rows("due_schedules", now=tx.now, limit=op.limit):
        schedule = schedule_from(row)
        try:
            plan.rule_of(schedule)
        except BadSchedule as error:
            # This machine does not know the time zone: skip the schedule, fire the others.
            _report(schedule.namespace, schedule.name, str(error))
            continue
        started += _fire(tx, schedule, op)
        schedule.wake_at = plan.wake_at(schedule)
        _save(tx, schedule)
    return started


@cache
def _report(namespace: str, name: str, why: str) -> None:
    """Log, once per process, that a schedule does not tick here."""
    log.warning("schedule %s of namespace %s does not tick: %s", name, namespace, why)


def _fire(tx: Transaction, schedule: Schedule, op: FireSchedules) -> list[str]:
    due = plan.due(schedule, tx.now)
    # Whatever becomes of the due ticks: the next one must not be due at once again.
    schedule.next_at = plan.first_not_due(schedule, tx.now)
    if due.missed is not None:
        first, last = due.missed
        span = _moment(first) if first == last else f"{_moment(first)} to {_moment(last)}"
        schedule.note = f"missed {span}: no worker was running (misfire is {schedule.misfire})"
    if schedule.overlap == Overlap.ALLOW:
        return [
            run
            for tick in due.ticks
            if (run := _start(tx, schedule, tick, op.new_id())) is not None
        ]
    live = _live(tx, schedule)
    if schedule.overlap in _WAITS:
        return _fire_waiting(tx, schedule, due.ticks, live, op)
    started: list[str] = []
    for tick in due.ticks:
        run = None if live or started else _start(tx, schedule, tick, op.new_id())
        if run is not None:
            started.append(run)
        elif live or started:
            _skip(schedule, tick, f"run {(live or started)[0]} was still running")
    return started


def _fire_waiting(
    tx: Transaction, schedule: Schedule, ticks: list[int], live: list[str], op: FireSchedules
) -> list[str]:
    schedule.queued = [*schedule.queued, *ticks]
    if schedule.overlap == Overlap.CANCEL:
        for late in schedule.queued[:-1]:
            _skip(schedule, late, "the next tick came before it could begin")
        schedule.queued = schedule.queued[-1:]
        # Read again: a run that never started has ended at once, and then this tick need not wait.
        if live and ticks:
            _stop_others(tx, schedule, live)
            live = _live(tx, schedule)
    started: list[str] = []
    while schedule.queued and not live and not started:
        run = _start(tx, schedule, schedule.queued.pop(0), op.new_id())
        started += [] if run is None else [run]
    for late in schedule.queued[schedule.queue_limit :]:
        _skip(schedule, late, f"{schedule.queue_limit} ticks were waiting already")
    del schedule.queued[schedule.queue_limit :]
    return started


def _stop_others(tx: Transaction, schedule: Schedule, live: Sequence[str]) -> None:
    for run_id in live:
        try:
            reason = f"the next tick of schedule {schedule.name} came"
            request_cancel(tx, RequestCancel(run_id, reason, cause=CancelCause.SCHEDULE))
        except (RunNotFound, RunFinished):
            continue


def _live(tx: Transaction, schedule: Schedule) -> list[str]:
    """Return the live runs of a schedule. Ticks whose runs have ended are struck off first."""
    which = {"namespace": schedule.namespace, "schedule": schedule.name}
    tx.change("close_ended_ticks", **which)
    return [row["run_id"] for row in tx.rows("live_ticks", **which)]


def _skip(schedule: Schedule, tick: int, why: str) -> None:
    schedule.skipped += 1
    schedule.note = f"skipped {_moment(tick)}: {why}"


def _start(
    tx: Transaction, schedule: Schedule, tick: int, run_id: str, *, kind: str = "tick"
) -> str | None:
    """Start the run of a tick. Return None if the tick has a run already, as after a backfill, or
    is skipped because its lane drains. Raises LaneDraining for a trigger and a backfill."""
    # The key makes a tick start one run, whichever process fires it and however often.
    key = key_of(schedule.name, tick, trigger=run_id if kind == "trigger" else None)
    new = NewRun(
        id=run_id,
        route=schedule.route,
        input=schedule.input,
        priority=schedule.priority,
        key=key,
        tags=schedule.tags,
        deadline=None if schedule.deadline is None else tx.now + schedule.deadline,
        schedule=schedule.name,
        tick_at=tick,
    )
    if kind != "backfill":
        schedule.last_at = tick if schedule.last_at is None else max(tick, schedule.last_at)
    try:
        with clear_values_accepted(tx):  # the arguments of a schedule are stored in clear
            (answer,) = start_runs(tx, StartRuns([new]))
    except RunExists:  # started before with another input, which the schedule had then
        return None
    except LaneDraining:
        if kind != "tick":
            raise  # a person asked for this run
        # Skipped: an error would also keep all other schedules from firing.
        _skip(schedule, tick, f"lane {schedule.lane} is drained and accepts no new runs")
        return None
    if not answer.created:
        return None
    counts = kind != "backfill"
    solo = kind != "backfill" and schedule.overlap != Overlap.ALLOW
    tx.change(
        "insert_tick",
        run_id=run_id,
        namespace=schedule.namespace,
        schedule=schedule.name,
        at=tick,
        kind=kind,
        live=int(counts),
        solo=int(solo),
    )
    schedule.started += 1
    return run_id


def trigger_schedule(tx: Transaction, op: TriggerSchedule) -> Tick:
    """Start a run now, as if the schedule ticked. Raises ScheduleBusy, RunExists."""
    schedule = _load(tx, op.namespace, op.name)
    earlier = _triggered_before(tx, op) if op.is_chosen else None
    if earlier is not None:
        return earlier
    live = [] if schedule.overlap == Overlap.ALLOW else _live(tx, schedule)
    if live and (schedule.overlap == Overlap.SKIP or op.is_chosen):
        raise ScheduleBusy(schedule=op.name, run=live[0])
    last = schedule.last_at
    if live:
        if schedule.overlap == Overlap.QUEUE and len(schedule.queued) >= schedule.queue_limit:
            raise ScheduleBusy(schedule=op.name, run=live[0], waiting=len(schedule.queued))
        run = None
        _wait_in_line(tx, schedule, live)
    else:
        run = _start(tx, schedule, tx.now, op.run_id, kind="trigger")
    schedule.last_at = last  # a trigger does not count as a tick
    _save(tx, schedule)
    return Tick(tx.now, run, run is not None)


def _triggered_before(tx: Transaction, op: TriggerSchedule) -> Tick | None:
    """Return the tick that an equal trigger has made; None if there is none. Raises RunExists."""
    rows = tx.rows("tick", run_id=op.run_id)
    if rows and (rows[0]["namespace"], rows[0]["schedule"]) == (op.namespace, op.name):
        return Tick(rows[0]["at"], op.run_id, False)
    if tx.rows("run_identity", id=op.run_id):
        raise RunExists(run=op.run_id)
    return None


def _wait_in_line(tx: Transaction, schedule: Schedule, live: Sequence[str]) -> None:
    if schedule.overlap == Overlap.CANCEL:
        _stop_others(tx, schedule, live)
        schedule.queued = []
    schedule.queued.append(tx.now)
    if schedule.paused is None and not _live(tx, schedule):
        schedule.wake_at = tx.now
        tx.hints.ready = True


def backfill_schedule(tx: Transaction, op: BackfillSchedule) -> list[Tick]:
    """Start the runs of ticks that were not started in their time."""
    schedule = _load(tx, op.namespace, op.name)
    runs = [
        _start(tx, schedule, at, run_id, kind="backfill")
        for at, run_id in zip(op.ticks, op.ids, strict=True)
    ]
    _save(tx, schedule)
    return [Tick(at, run, run is not None) for at, run in zip(op.ticks, runs, strict=True)]


def _moment(instant: int) -> str:
    return f"{datetime.fromtimestamp(instant // 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"
