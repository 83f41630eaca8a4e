"""Runs that start by themselves: made by a call or by a decorator, paused, triggered, made up for,
explained."""

from __future__ import annotations

import logging
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

import holdfast
from holdfast import AsyncEngine, Engine, schedule, sleep, step, workflow
from holdfast.authoring import registry
from holdfast.connect.open_store import open_store
from holdfast.core.schedules.model import GONE
from holdfast.errors import (
    BadOption,
    BadSchedule,
    NotInWorkflow,
    ScheduleBusy,
    ScheduleNotFound,
    UnknownWorkflow,
)
from holdfast.schedules import scheduled_time
from holdfast.testing import Lab
from holdfast.testing.clock import VirtualClock


@step
async def note(moment: str) -> str:
    return moment


@workflow(name="scheduled_report")
async def report(team: str = "all") -> str:
    moment = scheduled_time()
    await sleep("10m")
    assert moment == scheduled_time()
    return await note(f"{team} {moment:%Y-%m-%d %H:%M}" if moment else team)


@workflow(name="scheduled_blocking")
def blocking() -> str:
    time = holdfast.sync.schedules.scheduled_time()
    return f"{time:%Y-%m-%d %H:%M}" if time else "by hand"


@workflow(name="scheduled_long")
async def long() -> None:
    await sleep("90m")


class Place:
    """A database and a clock, and labs on them, one after another."""

    def __init__(self, database: str) -> None:
        self.database, self.clock = database, VirtualClock(datetime(2026, 3, 28, 12, tzinfo=UTC))

    def lab(self, *workflows, **options) -> Lab:
        store = open_store(self.database, clock=self.clock)
        return Lab(
            self.database,
            clock=self.clock,
            store=store,
            workflows=workflows,
            **{"schedules": True, **options},
        )


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """Engines of other tests know all workflows of the process, and must not start by themselves
    what is declared here."""
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))


@pytest.fixture
def place(database):
    return Place(database)


def keys(lab: Lab) -> list[str]:
    return sorted(run.key.split(" ")[2] for run in lab.engine.runs().page(limit=1000) if run.key)


def each_hour(lab: Lab, hours: int) -> None:
    for _ in range(hours):
        lab.advance("1h")


def test_a_workflow_starts_by_itself_and_knows_for_which_time(place):
    with place.lab(report, blocking) as lab:
        lab.engine.schedules.set(
            "nightly", report, cron="30 2 * * *", zone="Europe/Berlin", args=("north",)
        )
        lab.engine.schedules.set("other", blocking, cron="0 0 * * *")
        for _ in range(48):
            lab.advance("1h")

        results = sorted(
            str(lab.engine.run(run.id).result(timeout=60)) for run in lab.engine.runs()
        )
        assert results == [
            "2026-03-29 00:00",
            "2026-03-30 00:00",
            "north 2026-03-29 01:00",
            "north 2026-03-30 00:30",
        ]
        assert lab.engine.database.check() == []


def test_a_run_that_no_schedule_started_has_no_scheduled_time(place):
    with place.lab(report, blocking) as lab:
        assert lab.run_to_end(report, "south") == "south"
        assert lab.run_to_end(blocking) == "by hand"
    with pytest.raises(NotInWorkflow):
        scheduled_time()


def test_a_key_like_that_of_a_tick_makes_no_scheduled_run(place):
    with place.lab(blocking) as lab:
        run = lab.start(blocking, key="schedule nightly 2026-03-29T00:00:00Z")
        assert lab.finish(run) == "by hand"
        assert (run.record.schedule, run.record.tick_at) == (None, None)
        assert "nightly" not in str(lab.engine.why(run.id))


def test_a_tick_that_nobody_was_there_for_is_made_up_for_at_once(place):
    with place.lab(blocking) as lab:
        lab.engine.schedules.set(
            "hourly", blocking, cron="0 * * * *", misfire="all", overlap="allow", catch_up=3
        )
    place.clock.advance("10h")
    with place.lab(blocking) as lab:
        lab.settle()
        assert keys(lab) == [f"2026-03-28T{hour}:00:00Z" for hour in (20, 21, 22)]
        assert lab.engine.schedules.get("hourly").note.startswith(
            "missed 2026-03-28 13:00:00 UTC to 2026-03-28 19:00:00 UTC"
        )


@pytest.mark.parametrize(
    ("overlap", "started", "statuses"),
    [
        ("skip", [13, 15, 17], ["completed"] * 3),
        ("queue", [13, 14, 15, 16], ["completed", "completed", "completed", "waiting"]),
        ("cancel", [13, 14, 15, 16, 17, 18], ["cancelled"] * 5 + ["waiting"]),
        ("allow", [13, 14, 15, 16, 17, 18], ["completed"] * 5 + ["waiting"]),
    ],
)
def test_what_a_tick_does_while_the_last_run_is_at_work(place, overlap, started, statuses):
    with place.lab(long) as lab:
        lab.engine.schedules.set("hourly", long, cron="0 * * * *", overlap=overlap)
        for _ in range(13):
            lab.advance("30m")

        runs = sorted(lab.engine.runs(), key=lambda run: run.key)
        assert [run.key for run in runs] == [
            f"schedule hourly 2026-03-28T{hour}:00:00Z" for hour in started
        ]
        assert [run.status for run in runs] == statuses
        if overlap == "cancel":
            assert runs[0].cancel_reason == "the next tick of schedule hourly came"
        assert lab.engine.database.check() == []


def test_a_change_ends_a_pause_only_if_it_says_so(place):
    with place.lab(long) as lab:
        schedules = lab.engine.schedules
        schedules.set("hourly", long, interval="1h", paused="holidays")
        assert schedules.set("hourly", interval="2h").paused == "holidays"
        assert schedules.set("hourly", paused="repairs").paused == "repairs"
        assert schedules.set("hourly", paused=False).paused is None
        assert schedules.set("hourly", priority=1).paused is None


def test_a_change_is_checked_together_with_the_settings_that_stay(place):
    with place.lab(long) as lab:
        schedules = lab.engine.schedules
        schedules.set("hourly", long, interval="1h", jitter="30m")
        with pytest.raises(BadSchedule, match="the jitter is longer"):
            schedules.set("hourly", interval="10m")
        assert schedules.set("hourly", interval="10m", jitter=None).jitter == timedelta(0)


def test_a_schedule_is_paused_resumed_triggered_and_removed(place):
    with place.lab(long) as lab:
        engine = lab.engine
        engine.schedules.set("hourly", long, interval="1h")
        assert engine.schedules.pause("hourly", "holidays").paused == "holidays"
        each_hour(lab, 3)
        assert keys(lab) == []
        assert engine.schedules.trigger("hourly").run == lab.engine.runs().first().id
        lab.settle()
        with pytest.raises(ScheduleBusy):
            engine.schedules.trigger("hourly")
        assert [blocker.kind for blocker in engine.schedules.why("hourly")] == [
            "paused",
            "overlap",
            "next",
        ]
        assert engine.schedules.resume("hourly").paused is None
        for _ in range(4):
            lab.advance("30m")
        assert len(keys(lab)) == 2
        engine.schedules.remove("hourly")
        each_hour(lab, 3)
        assert (engine.schedules.list(), len(keys(lab))) == ([], 2)
        for call in (
            engine.schedules.remove,
            engine.schedules.get,
            engine.schedules.pause,
            engine.schedules.trigger,
            engine.schedules.next,
        ):
            with pytest.raises(ScheduleNotFound):
                call("hourly")


def test_a_backfill_is_shown_first_and_starts_each_tick_once(place):
    with place.lab(blocking) as lab:
        engine = lab.engine
        engine.schedules.set("daily", blocking, cron="0 9 * * *", zone="Europe/Berlin")
        since, until = datetime(2026, 3, 20), datetime(2026, 3, 24)

        shown = engine.schedules.backfill("daily", since, until, dry_run=True)
        assert [(tick.run, tick.created) for tick in shown] == [(None, False)] * 4
        assert list(engine.runs()) == []
        done = engine.schedules.backfill("daily", since, until)
        lab.settle()
        again = engine.schedules.backfill("daily", since, until)

        assert [tick.created for tick in done] == [True] * 4
        assert [(tick.at, tick.run, tick.created) for tick in again] == [
            (tick.at, tick.run, False) for tick in done
        ]
        assert keys(lab) == [f"2026-03-{day}T08:00:00Z" for day in (20, 21, 22, 23)]
        assert [run.status for run in engine.runs()] == ["completed"] * 4


@pytest.mark.parametrize(
    ("since", "until", "told"),
    [
        ("1d", datetime(2027, 1, 1), "in the future"),
        ("1h", "2h", "before until"),
        ("90d", "0s", "shorter periods"),
        ("soon", "0s", "a number and a unit"),
    ],
)
def test_a_backfill_that_makes_no_sense_starts_nothing(place, since, until, told):
    with place.lab(blocking) as lab:
        lab.engine.schedules.set("often", blocking, interval="1m")
        place.clock.advance("100d")
        lab.engine.schedules.pause("often")
        before = lab.engine.runs().count()
        with pytest.raises(BadSchedule, match=told):
            lab.engine.schedules.backfill("often", since, until)
        assert lab.engine.runs().count() == before


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"cron": "0 0 30 2 *"}, BadSchedule, "never comes"),
        ({"cron": "* * * * *", "interval": "1m"}, BadSchedule, "not cron and interval"),
        ({}, BadSchedule, "give one of"),
        ({"cron": "* * * * *", "zone": "Mars/Base"}, BadSchedule, "no time zone"),
        ({"cron": "* * * * *", "zone": 1}, BadSchedule, "name of a zone"),
        ({"interval": "-1m"}, BadSchedule, "negative"),
        ({"dates": [datetime(2020, 1, 1)]}, BadSchedule, "never ticks"),
        ({"interval": "1m", "overlap": "panic"}, BadSchedule, "skip, queue, cancel, allow"),
        ({"interval": "1m", "misfire": "maybe"}, BadSchedule, "once, all, none"),
        ({"interval": "1m", "jitter": "2m"}, BadSchedule, "between two ticks"),
        ({"interval": "1m", "catch_up": 10**6}, BadSchedule, "from 1 to 1000"),
        ({"interval": "1m", "queue_limit": 0}, BadSchedule, "from 1 to 1000"),
        ({"interval": "1m", "priority": "high"}, BadOption, "whole number"),
        ({"interval": "1m", "args": (1, 2, 3)}, holdfast.HoldfastError, "argument"),
        ({"interval": "1m", "often": True}, TypeError, "often"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_reason_and_nothing_is_written(
    place, options, error, told
):
    with place.lab(report) as lab:
        with pytest.raises(error, match=told):
            lab.engine.schedules.set("bad", report, **options)
        assert lab.engine.schedules.list() == []


@pytest.mark.parametrize("name", ["", " ", "x" * 101, "two\nlines", None])
def test_a_schedule_needs_a_name(place, name):
    with place.lab(report) as lab, pytest.raises(BadSchedule, match="its name must be"):
        lab.engine.schedules.set(name, report, interval="1m")


def test_an_unknown_workflow_is_refused_unless_a_worker_serves_it(place):
    with closing(Engine(place.database, clock=place.clock, workflows=[])) as other:
        with pytest.raises(UnknownWorkflow):
            other.schedules.set("hourly", "scheduled_long", interval="1h")
        with place.lab(long):
            other.schedules.set("hourly", "scheduled_long", interval="1h")
        assert [each_schedule.workflow for each_schedule in other.schedules.list()] == [
            "scheduled_long"
        ]


def test_schedules_are_listed_in_pages_of_their_namespace(place):
    with place.lab(report) as lab:
        for name in ("d", "b", "a", "c"):
            lab.engine.schedules.set(name, report, interval="1h")
        with closing(Engine(place.database, clock=place.clock, namespace="acme")) as acme:
            acme.schedules.set("b2", report, interval="1h")

            def names(engine, **page):
                return [schedule.name for schedule in engine.schedules.list(**page)]

            assert names(lab.engine, limit=2) == ["a", "b"]
            assert names(lab.engine, after="b", limit=2) == ["c", "d"]
            assert names(lab.engine, after="b1") == ["c", "d"]
            assert names(lab.engine, after="d") == []
            assert names(acme) == ["b2"]
        with pytest.raises(BadOption):
            lab.engine.schedules.list(limit=-1)


def test_the_next_ticks_are_told_by_the_clock_of_the_zone(place):
    with place.lab(report) as lab:
        lab.engine.schedules.set("nightly", report, cron="30 2 * * *", zone="Europe/Berlin")

        ticks = lab.engine.schedules.next("nightly", 3)

        assert [f"{tick:%d %H:%M %z}" for tick in ticks] == [
            "29 03:00 +0200",
            "30 02:30 +0200",
            "31 02:30 +0200",
        ]
        assert len(lab.engine.schedules.next("nightly")) == 10
        lab.engine.schedules.set("once", report, dates=[ticks[0] - timedelta(hours=1)])
        lab.advance("1d")
        assert lab.engine.schedules.next("once") == []
        assert (
            lab.engine.schedules.why("once")[-1].text
            == "it never ticks again: all its ticks have come"
        )


def test_runs_go_to_their_route_and_why_names_the_schedule(place):
    with place.lab(long) as lab:
        lab.engine.schedules.set(
            "hourly",
            long,
            interval="1h",
            lane="slow",
            priority=7,
            tags={"team": "7"},
            deadline="1h",
            version="3",
        )
        lab.advance("1h")

        (run,) = list(lab.engine.runs(tags={"team": "7"}))
        assert (run.lane, run.priority, run.version, run.deadline - run.created_at) == (
            "slow",
            7,
            "3",
            timedelta(hours=1),
        )
        why = lab.engine.why(run.id)
        assert why.blockers[-1].text == "the schedule hourly started it for 2026-03-28 13:00:00 UTC"
        assert [blocker.kind for blocker in why.blockers] == ["timer", "deadline", "schedule"]


def test_a_worker_of_one_namespace_fires_the_schedules_of_all(place):
    with closing(
        Engine(place.database, clock=place.clock, namespace="north", workflows=[long])
    ) as north:
        north.schedules.set("hourly", long, interval="1h")
        with place.lab(long, namespace="south") as lab:
            assert lab.engine.schedules.list() == []
            lab.advance("1h")
            (run,) = list(north.runs())
            assert (run.namespace, run.status) == ("north", "pending")


def test_a_worker_that_is_full_still_fires(place):
    with place.lab(long, concurrency=1, idle_timeout=0) as lab:
        engine = lab.engine
        engine.schedules.set("hourly", long, interval="1h", overlap="allow", lane="elsewhere")
        blocker = holdfast.workflow(name="scheduled_blocker")(_blocked)
        run = engine.start(blocker)
        assert lab._worker.capacity.room() <= 0 or run.status in ("running", "waiting")
        lab.clock.advance("1h")
        lab._worker.loop.call_soon_threadsafe(lab._worker.claims.ready.set)
        lab.settle()
        assert len(keys(lab)) == 1


async def _blocked() -> None:
    await holdfast.wait_signal("never")


# Declared in the code


def declared(cron: str | None, name: str | None = None):
    @workflow(name="scheduled_declared")
    async def made() -> None:
        return None

    return made if cron is None else schedule(name, cron=cron)(made)


def test_a_decorator_makes_a_schedule_when_an_engine_works(place):
    schedules = declared("0 * * * *")
    with closing(Engine(place.database, clock=place.clock, workflows=[schedules])) as idle:
        assert idle.schedules.list() == []
    with place.lab(schedules) as lab:
        (made,) = lab.engine.schedules.list()
        assert (made.name, made.origin, made.workflow) == (
            "scheduled_declared",
            "code",
            "scheduled_declared",
        )
        lab.advance("1h")
        assert keys(lab) == ["2026-03-28T13:00:00Z"]
        with pytest.raises(BadSchedule, match="decorator"):
            lab.engine.schedules.remove("scheduled_declared")
        with pytest.raises(BadSchedule, match="decorator"):
            lab.engine.schedules.set("scheduled_declared", schedules, interval="1h")


def test_another_cron_in_the_code_changes_the_schedule_and_the_same_one_loses_no_tick(place):
    with place.lab(declared("0 * * * *")):
        pass
    place.clock.advance("90m")
    with place.lab(declared("0 * * * *")) as lab:
        lab.settle()
        assert keys(lab) == ["2026-03-28T13:00:00Z"]
    with place.lab(declared("30 * * * *")) as lab:
        assert lab.engine.schedules.get("scheduled_declared").rule == {"cron": "30 * * * *"}
        lab.advance("1h")
        assert keys(lab) == ["2026-03-28T13:00:00Z", "2026-03-28T14:30:00Z"]


def test_a_schedule_whose_decorator_is_gone_is_paused_and_said_so(place, caplog):
    with place.lab(declared("0 * * * *")):
        pass
    with place.lab(long):  # it does not know the workflow, so it cannot judge
        pass
    with caplog.at_level(logging.WARNING, logger="holdfast"), place.lab(declared(None)) as lab:
        assert lab.engine.schedules.get("scheduled_declared").paused == GONE
        assert "schedule scheduled_declared is paused" in caplog.text
        each_hour(lab, 2)
        assert keys(lab) == []
    with place.lab(declared("0 * * * *")) as lab:
        assert lab.engine.schedules.get("scheduled_declared").paused is None
        assert keys(lab) == []
    with place.lab(declared(None)) as lab:
        lab.engine.schedules.remove("scheduled_declared")
        assert lab.engine.schedules.list() == []


def test_an_engine_may_leave_what_the_code_declares_alone(place):
    with place.lab(declared("0 * * * *"), schedules=False) as lab:
        assert lab.engine.schedules.list() == []


def test_a_decorator_that_makes_no_sense_is_refused_at_once():
    with pytest.raises(BadSchedule, match="never comes"):
        schedule(cron="0 0 31 2 *")
    with pytest.raises(BadSchedule, match="give one of"):
        schedule("nightly")
    with pytest.raises(BadOption, match="above @workflow"):
        schedule(cron="* * * * *")(lambda: None)


def test_a_schedule_in_the_code_that_cannot_be_used_does_not_stop_the_worker(place, caplog):
    @schedule("once", dates=[datetime(2020, 1, 1)])
    @schedule("twice", interval="1h", overlap="panic")
    @schedule("good", interval="1h")
    @workflow(name="scheduled_partly")
    async def partly() -> None:
        return None

    with caplog.at_level(logging.ERROR, logger="holdfast"), place.lab(partly) as lab:
        assert [each_schedule.name for each_schedule in lab.engine.schedules.list()] == ["good"]
        assert "never ticks" in caplog.text
        assert "skip, queue, cancel, allow" in caplog.text


@pytest.mark.parametrize("name", ["AsyncEngine"])
async def _asynchronous(database, name):
    async with AsyncEngine(database, workflows=[long], shutdown_timeout=1) as engine:
        made = await engine.schedules.set("hourly", long, interval="1h")
        assert (
            made.name,
            [each_schedule.name for each_schedule in await engine.schedules.list()],
        ) == (
            "hourly",
            ["hourly"],
        )
        tick = await engine.schedules.trigger("hourly")
        assert await (await engine.run(tick.run)).status() in ("running", "waiting", "pending")
        assert (await engine.schedules.pause("hourly", "holidays")).paused == "holidays"
        assert (await engine.schedules.resume("hourly")).paused is None
        assert len(await engine.schedules.next("hourly")) == 10
        assert (await engine.schedules.why("hourly"))[0].kind == "overlap"
        assert await engine.schedules.backfill("hourly", "1h", "0s", dry_run=True) == []
        assert await engine.schedules.backfill("hourly", "1h", "0s") == []
        assert (await engine.schedules.get("hourly")).started == 1
        await engine.schedules.remove("hourly")
        assert await engine.schedules.list() == []


def test_an_asyncio_program_has_the_same(database):
    import asyncio

    asyncio.run(_asynchronous(database, "AsyncEngine"))


def test_a_clock_that_is_put_back_starts_no_tick_twice(place):
    """The store's clock never goes back; what it showed stands in the rows."""
    with place.lab(blocking) as lab:
        lab.engine.schedules.set("hourly", blocking, interval="1h")
        lab.advance("1h")
    earlier = Place(place.database)
    with earlier.lab(blocking) as lab:
        lab.settle()
        assert len(keys(lab)) == 1
        assert lab.engine.database.check() == []
