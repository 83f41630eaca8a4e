"""Retention rules: what they say goes, nothing else, a little at a time, and one worker does it for
all."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from holdfast import AsyncEngine, Engine, Fail, Graph, start, step, wait_signal, workflow
from holdfast.engine.maintenance import retention
from holdfast.errors import BadDuration, BadOption, HistoryGone, RetentionNotFound, UnknownWorkflow
from holdfast.store.retention import batches
from holdfast.store.retention.operations import TakeMaintenanceLock
from holdfast.store.runs.operations import EndSession
from holdfast.streams import emit
from holdfast.testing import internals
from holdfast.testing.clock import VirtualClock
from holdfast.views.retention import RetentionRuleView
from tests.engine.test_payloads import LARGE, noise
from tests.engine.waiting import wait_for, wait_until


@step
async def one(n: int) -> int:
    return n


@workflow(name="retention.short_lived")
async def short_lived(n: int) -> int:
    return await one(n)


@workflow(name="retention.other")
async def other(text: str) -> str:
    return text


@workflow(name="retention.unlucky")
async def unlucky() -> None:
    raise Fail("no luck")


@workflow(name="retention.patient")
async def patient() -> object:
    return await wait_signal("go")


@workflow(name="retention.family")
async def family() -> int:
    await start(patient, on_parent_end="leave")
    return 1


@workflow(name="retention.parent")
async def parent(count: int) -> int:
    for number in range(count):
        await short_lived(number)
    return count


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def engine(database, clock):
    with Engine(
        database, clock=clock, retention_interval="1h", session_ttl="36500d", poll="1h"
    ) as engine:
        yield engine
        assert engine.database.check() == []


def run_some(engine, clock, count=5, flow=short_lived, argument=None):
    """Run several, a minute apart, and return their ids, oldest first."""
    ids = []
    for number in range(count):
        run = engine.start(flow, number if argument is None else argument)
        run.result(timeout=20)
        ids.append(run.id)
        clock.advance("1m")
    return ids


def left(engine):
    return sorted(run.id for run in engine.runs().page(limit=1000))


def test_what_is_old_goes(engine, clock):
    ids = run_some(engine, clock)
    engine.retention.set("old", older_than="150s")

    assert [(one.trees, one.runs) for one in engine.retention.preview()] == [(3, 3)]
    assert left(engine) == ids
    assert engine.retention.apply() == 3
    assert left(engine) == ids[3:]


def test_a_preview_counts_the_runs_that_are_deleted(engine, clock):
    for count in (0, 1, 3):
        engine.start(parent, count).result(timeout=20)
    engine.start(family).result(timeout=20)  # kept: its child waits
    for name, last in (("open", patient), ("over", other)):
        graph = Graph(name)
        member = graph.add(parent, 2, name="ended")
        graph.add(last, *(() if last is patient else ("x",)), name="last").after(member)
        engine.graphs.start(graph, id=name)
    wait_until(engine, lambda: engine.graphs.get("over").status == "completed")
    engine.run("open::last").wait_until("waiting", timeout=20)  # keeps its graph
    clock.advance("1h")
    late = engine.start(parent, 1)
    late.result(timeout=20)
    engine.retention.set("old", older_than="30m")
    engine.retention.set("parents", workflow="retention.parent", older_than="30m")

    previews = {one.name: one for one in engine.retention.preview()}

    assert (previews["old"].trees, previews["old"].runs) == (5, 1 + 2 + 4 + 3 + 1)
    assert previews["parents"].trees == 4
    assert engine.retention.apply() == previews["old"].runs
    assert {"open::ended", "open::last", late.id} <= set(left(engine))


def test_a_preview_estimates_the_bytes_of_many_trees_from_a_sample(engine, clock, monkeypatch):
    engine.start(family).result(timeout=20)
    run_some(engine, clock, 6)
    clock.advance("1h")
    engine.retention.set("old", older_than="150s")
    (exact,) = engine.retention.preview()

    monkeypatch.setattr(batches, "SAMPLE", 3)
    (estimate,) = engine.retention.preview()

    assert (exact.trees, exact.runs) == (estimate.trees, estimate.runs) == (6, 6)
    assert exact.bytes / 2 < estimate.bytes < exact.bytes * 2


def test_the_newest_of_each_workflow_stay(engine, clock):
    ids, others = run_some(engine, clock), run_some(engine, clock, 2, other, "x")
    engine.retention.set("few", keep_last=2)

    assert engine.retention.apply() == 3
    assert left(engine) == sorted(ids[3:] + others)


def test_the_newest_stay_however_old_they_are(engine, clock):
    ids = run_some(engine, clock)
    engine.retention.set("old but few", older_than="1s", keep_last=4)
    clock.advance("1d")

    assert engine.retention.apply() == 1
    assert left(engine) == ids[1:]


def test_a_rule_is_about_its_workflow_and_its_statuses(engine, clock):
    ids = run_some(engine, clock, 2)
    failed = engine.start(unlucky)
    wait_for(engine, failed, "failed")
    others = run_some(engine, clock, 1, other, "x")
    engine.retention.set("others", workflow="retention.other", older_than=0)
    engine.retention.set("failed", status="failed", older_than=0)

    assert engine.retention.apply() == 2
    assert left(engine) == sorted(ids)
    assert others[0] not in left(engine)


def test_the_data_is_kept_below_a_size_by_deleting_the_oldest(engine, clock):
    ids = []
    for seed in range(5):
        run = engine.start(other, noise(LARGE, seed))
        run.result(timeout=30)
        ids.append(run.id)
        clock.advance("1m")
    used = internals(engine).store.retention.used_bytes()
    engine.retention.set("room", max_bytes=used - 1)
    assert engine.retention.apply() == 1
    assert left(engine) == ids[1:]

    engine.retention.set("room", max_bytes=used // 2)
    engine.retention.apply()
    assert internals(engine).store.retention.used_bytes() <= used // 2
    assert left(engine) == ids[3:]
    assert engine.retention.apply() == 0


def test_a_live_tree_is_never_touched(engine, clock):
    run = engine.start(family)
    run.result(timeout=20)
    clock.advance("1d")
    engine.retention.set("all", older_than=0)
    engine.retention.set("all events", older_than=0, target="events")

    assert (engine.retention.apply(), len(left(engine))) == (0, 2)
    child = next(one for one in engine.runs() if one.workflow == "retention.patient")
    engine.signal(child.id, "go")
    wait_for(engine, engine.run(child.id), "completed")
    clock.advance("1s")
    assert (engine.retention.apply(), left(engine)) == (2, [])


def test_a_history_goes_while_the_result_stays(engine, clock):
    (run_id,) = run_some(engine, clock, 1)
    engine.retention.set("thin", target="events", older_than="1s")

    assert engine.retention.apply() == 1
    assert engine.run(run_id).result(timeout=60) == 0
    assert [event.kind for event in engine.run(run_id).history()] == ["history_deleted"]
    with pytest.raises(HistoryGone):
        engine.replay(run_id)
    with pytest.raises(HistoryGone):
        engine.fork(run_id)
    assert engine.retention.apply() == 0


def test_rules_can_be_listed_replaced_and_removed(engine, clock):
    run_some(engine, clock, 1)
    engine.retention.set(
        "old", older_than="30d", status=["failed", "completed"], workflow="retention.short_lived"
    )
    assert engine.retention.list() == [
        RetentionRuleView(
            name="old",
            target="runs",
            workflow="retention.short_lived",
            status=["completed", "failed"],
            older_than=timedelta(days=30),
            keep_last=None,
            max_bytes=None,
        )
    ]
    engine.retention.set("old", keep_last=3)
    assert [rule.keep_last for rule in engine.retention.list()] == [3]
    engine.retention.remove("old")
    assert engine.retention.list() == []
    with pytest.raises(RetentionNotFound):
        engine.retention.remove("old")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, BadOption),
        ({"older_than": "soon"}, BadDuration),
        ({"older_than": -5}, BadDuration),
        ({"keep_last": 0}, BadOption),
        ({"keep_last": -1}, BadOption),
        ({"max_bytes": 0}, BadOption),
        ({"max_bytes": -1}, BadOption),
        ({"max_bytes": 1.5}, BadOption),
        ({"keep_last": True}, BadOption),
        ({"older_than": 1, "status": "running"}, BadOption),
        ({"older_than": 1, "status": "happy"}, BadOption),
        ({"older_than": 1, "workflow": "nobody_knows"}, UnknownWorkflow),
        ({"older_than": 1, "target": "dreams"}, BadOption),
        ({"max_bytes": 1, "target": "events"}, BadOption),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_and_not_written(engine, options, error):
    with pytest.raises(error):
        engine.retention.set("bad", **options)
    with pytest.raises(BadOption):
        engine.retention.set("", older_than=1)
    assert engine.retention.list() == []


def on_loop(engine, work):
    return asyncio.run_coroutine_threadsafe(work, engine._calls.worker_thread.loop).result(
        timeout=30
    )


def test_a_worker_does_it_when_it_is_its_turn(engine, clock):
    ids = run_some(engine, clock)
    engine.retention.set("old", older_than="150s")
    worker = internals(engine).worker

    assert on_loop(engine, retention.run_once(worker)) == 3
    assert left(engine) == ids[3:]
    clock.advance("30m")
    assert on_loop(engine, retention.run_once(worker)) == 0  # it was done, and is not due yet
    clock.advance("31m")
    assert on_loop(engine, retention.run_once(worker)) == 2


def test_a_worker_leaves_it_to_another_one_that_is_at_it_until_that_is_gone(engine, clock):
    run_some(engine, clock, 2)
    engine.retention.set("all", older_than=0)
    with Engine(
        internals(engine).store.url if "sqlite" in internals(engine).store.url else _url(engine),
        clock=clock,
    ) as second:
        theirs = internals(second).worker.session_id
        assert internals(engine).writer.call(
            TakeMaintenanceLock(retention.DUTY, theirs, retention.LEASE)
        )
        assert on_loop(engine, retention.run_once(internals(engine).worker)) == 0
        internals(engine).writer.call(EndSession(theirs, crashed=True))
        assert on_loop(engine, retention.run_once(internals(engine).worker)) == 2


def _url(engine):
    return (
        internals(engine).store.database.address.url
        if hasattr(internals(engine).store.database.address, "url")
        else internals(engine).store.url
    )


def test_workers_do_it_by_themselves(database):
    with Engine(database, retention_interval="20ms") as engine:
        engine.start(short_lived, 1).result(timeout=20)
        engine.retention.set("all", older_than=0)
        wait_until(engine, lambda: list(engine.runs()) == [])
        assert engine.database.check() == []


def test_an_async_engine_has_the_same(database):
    async def go():
        async with AsyncEngine(database) as engine:
            await (await engine.start(short_lived, 1)).result(timeout=20)
            await engine.retention.set("all", older_than=0)
            assert [rule.name for rule in await engine.retention.list()] == ["all"]
            assert (await engine.retention.preview())[0].runs == 1
            assert await engine.retention.apply() == 1
            await engine.retention.remove("all")
            assert (await engine.database.check_payloads()).payloads == 0

    asyncio.run(go())


@step
async def speak(n: int) -> int:
    for word in range(n):
        emit(word)
    return n


@workflow(name="retention.speaking")
async def speaking(n: int) -> int:
    return await speak(n)


def test_frames_go_while_the_run_its_history_and_its_result_stay(engine, clock):
    run = engine.start(speaking, 3)
    assert run.result(timeout=20) == 3
    clock.advance("1m")
    engine.retention.set("quiet", target="frames", older_than="1s")

    assert len(engine.streams.read(run.id)) == 3
    assert engine.retention.apply() == 1
    assert (
        engine.streams.read(run.id),
        run.result(timeout=60),
        len(engine.run(run.id).history()),
    ) == ([], 3, 2)
    assert engine.retention.apply() == 0
