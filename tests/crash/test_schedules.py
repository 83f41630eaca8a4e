"""Schedules and crashes: whoever dies before or after whichever commit, each tick has its run, and
none has two."""

from __future__ import annotations

import signal
import threading
from datetime import UTC, datetime

import pytest

import holdfast
from holdfast import Engine, sleep, step, workflow
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.schedules.operations import (
    BackfillSchedule,
    FireSchedules,
    PauseSchedule,
    RemoveSchedule,
    ResumeSchedule,
    SetSchedule,
    TriggerSchedule,
)
from holdfast.testing import Lab, internals
from holdfast.testing.clock import VirtualClock
from holdfast.testing.faults import AFTER, BEFORE, ZOMBIE, Fault, has_effect
from holdfast.testing.recorder import CommitRecorder
from tests.crash.stages import Act, Stage, databases, replace_one, victims
from tests.crash.test_processes import Workers, until

NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)
OURS = (
    SetSchedule,
    PauseSchedule,
    ResumeSchedule,
    RemoveSchedule,
    FireSchedules,
    TriggerSchedule,
    BackfillSchedule,
)


@step
async def work(text: str) -> str:
    return text


@workflow(name="crash_tick")
async def ticked() -> str:
    moment = holdfast.schedules.scheduled_time()
    first = await work(f"{moment:%H:%M}")
    await sleep("90m")
    return first


def made(**options) -> Act:
    return lambda lab: lab.engine.schedules.set(
        "hourly", ticked, **{"cron": "0 * * * *", **options}
    )


def at(hour: float) -> Act:
    """Let it be so many hours past noon."""
    return lambda lab: lab.clock.advance_to(
        int(NOON.timestamp() * 1_000_000) + int(hour * 3_600_000_000)
    )


def hours(*which: float) -> list[Act]:
    return [at(hour) for hour in which]


HALVES = hours(*(half / 2 for half in range(1, 9)))
MISSED = hours(6.5, 7, 7.5, 8, 8.5)

SCRIPTS: dict[str, list[Act]] = {
    "skip": [made(overlap="skip"), *HALVES],
    "queue": [made(overlap="queue", queue_limit=2), *HALVES],
    "cancel": [made(overlap="cancel"), *HALVES],
    "allow": [made(overlap="allow"), *HALVES],
    "once": [made(misfire="once", overlap="allow"), *MISSED],
    "all": [made(misfire="all", catch_up=3, overlap="queue"), *MISSED],
    "none": [made(misfire="none", overlap="allow"), *MISSED],
    "pause and resume": [
        made(overlap="allow"),
        *hours(1),
        lambda lab: lab.engine.schedules.pause("hourly", "holidays"),
        *hours(2, 3.5),
        lambda lab: lab.engine.schedules.resume("hourly"),
        *hours(4, 5, 6.5),
        lambda lab: lab.engine.schedules.remove("hourly") if lab.engine.schedules.list() else None,
        *hours(8),
    ],
    "backfill": [
        made(overlap="allow"),
        *hours(1),
        lambda lab: lab.engine.schedules.backfill("hourly", "5h", "0s"),
        *hours(2, 4),
    ],
    "another rule": [
        made(overlap="skip"),
        *hours(1, 1.5),
        made(cron="30 * * * *", overlap="skip"),
        *hours(2, 2.5, 3, 4, 4.5, 6),
    ],
}


UNHINDERED = ("allow", "once", "none", "backfill")
"""Here no tick depends on how far the runs of others are."""


def play(
    database: str, script: list[Act], plans: list[Fault]
) -> tuple[dict[str, tuple[str, bytes | None]], CommitRecorder]:
    """Return the runs by their keys, with how they ended; and what was committed."""
    stage = Stage(database, script, plans, [ticked], VirtualClock(NOON))
    with stage.played() as store:
        runs = store.runs.find(RunFilter(limit=1000))
        assert len({run.key for run in runs}) == len(runs)
        return {run.key or run.id: (run.status.value, run.result) for run in runs}, stage.ledger


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.timeout(300)
def test_each_tick_has_its_run_wherever_whoever_dies(kind, name, request, tmp_path):
    with databases(kind, request, tmp_path) as fresh:
        expected, ledger = play(fresh(), SCRIPTS[name], [])
        assert expected or name == "none"
        commits = list(enumerate(ledger.commits, start=1))
        boundaries = [
            number
            for number, commit in commits
            if has_effect(commit.batch, commit.answers)
            and any(isinstance(op, OURS) for op in commit.batch)
        ]
        assert boundaries
        for number in boundaries:
            for side in (BEFORE, AFTER, ZOMBIE) if kind == "sqlite" else (BEFORE, AFTER):
                found, _ = play(fresh(), SCRIPTS[name], [Fault(number, side)])
                if side != ZOMBIE:
                    assert found == expected, f"{side} commit {number}"
                elif (
                    name in UNHINDERED
                ):  # else it matters how far runs are, and zombies do not wait for us
                    assert found.keys() == expected.keys(), f"{side} commit {number}"


def test_a_trigger_that_was_committed_is_not_lost(tmp_path):
    def trigger(lab: Lab) -> None:
        if lab.engine.schedules.get("hourly").started == 0:
            lab.engine.schedules.trigger("hourly")

    script = [made(), trigger, *hours(0.5, 1, 1.5, 2)]
    expected, ledger = play(str(tmp_path / "a.db"), script, [])
    assert len(expected) == 2
    for number in range(1, len(ledger.commits) + 1):
        for side in (BEFORE, AFTER):
            found, _ = play(str(tmp_path / f"{number}{side}.db"), script, [Fault(number, side)])
            assert len(found) == 2, f"{side} commit {number}"


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals of POSIX")
def test_ticks_are_neither_lost_nor_doubled_when_real_workers_are_killed(kind, request, tmp_path):
    with victims(kind, request, tmp_path) as (workers, engine):
        _kill_and_count(workers, engine)


def _kill_and_count(workers: Workers, engine: Engine) -> None:
    pause = threading.Event()
    engine.schedules.set(
        "each second",
        "five_steps",
        interval="1s",
        args=(1,),
        misfire="all",
        catch_up=1000,
        overlap="allow",
    )
    made = internals(engine).schedules.get("each second")
    for _ in range(6):
        pause.wait(0.9)
        replace_one(workers)
    until(lambda: len(engine.runs().page(limit=1000)) >= 8)
    engine.schedules.pause("each second")
    until(lambda: all(run.status == "completed" for run in engine.runs().page(limit=1000)))
    ticks = sorted(run.tick_at for run in internals(engine).store.runs.find(RunFilter(limit=1000)))
    assert ticks == [made.anchor + number * 1_000_000 for number in range(1, len(ticks) + 1)]
    assert engine.schedules.get("each second").started == len(ticks)
    assert engine.database.check() == []
