"""Explain why a schedule does not start a run, and which schedule started a run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime, timedelta

from holdfast.core.runs import RunRecord
from holdfast.core.schedules.model import Schedule
from holdfast.core.schedules.time_zones import EPOCH
from holdfast.core.why.model import Blocker, moment, until


def started_by(run: RunRecord) -> list[Blocker]:
    """Return the entry that names the schedule that started the run, if one did."""
    if run.schedule is None or run.tick_at is None:
        return []
    text = f"the schedule {run.schedule} started it for {moment(run.tick_at)}"
    return [Blocker(kind="schedule", text=text, holder=run.schedule, since=run.created_at)]


def explain_schedule(schedule: Schedule, live: Sequence[str], now: int) -> list[Blocker]:
    """Return the blockers that keep a schedule from starting its next run; the last one tells when
    it ticks next."""
    blockers = []
    name = shlex.quote(schedule.name)
    if schedule.paused is not None:
        text = f"it is paused: {schedule.paused}"
        remedy = f"holdfast schedules resume {name}"
        blockers.append(Blocker(kind="paused", text=text, remedy=remedy))
    if live and schedule.overlap != "allow":
        effect = {
            "skip": "skipped",
            "queue": "made to wait",
            "cancel": "made to wait until it is cancelled",
        }[schedule.overlap]
        text = (
            f"run {live[0]} is still at work; a tick that comes meanwhile is {effect} (overlap is"
            f" {schedule.overlap})"
        )
        blockers.append(
            Blocker(kind="overlap", text=text, holder=live[0], remedy=f"holdfast why {live[0]}")
        )
    if schedule.queued:
        text = (
            f"{len(schedule.queued)} of its ticks wait, the first is that of"
            f" {moment(schedule.queued[0])}"
        )
        blockers.append(Blocker(kind="queue", text=text, since=schedule.queued[0]))
    blockers.append(_next(schedule, now, name))
    return blockers


def _next(schedule: Schedule, now: int, name: str) -> Blocker:
    if schedule.next_at is None:
        text = "it never ticks again: all its ticks have come"
        return Blocker(
            kind="ended",
            text=text,
            since=schedule.last_at,
            remedy=f"holdfast schedules remove {name}",
        )
    if schedule.paused is not None:
        return Blocker(kind="next", text="its ticks start nothing until it is resumed")
    if schedule.next_at <= now:
        text = (
            f"its tick of {until(schedule.next_at, now)} is due: a worker processes it in a"
            " moment, if any is alive"
        )
        return Blocker(kind="next", text=text, until=schedule.next_at, remedy="holdfast workers")
    return Blocker(
        kind="next", text=f"it ticks next at {until(schedule.next_at, now)}", until=schedule.next_at
    )


def _micros(at: datetime) -> int:
    naive = at.replace(tzinfo=None) - (at.utcoffset() or timedelta())
    return (naive - EPOCH) // timedelta(microseconds=1)
