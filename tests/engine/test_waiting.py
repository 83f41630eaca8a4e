"""Sleeping, signals, timeouts: in memory when short, parked when long."""

from __future__ import annotations

import gc
import weakref

import pytest

import holdfast
from holdfast import Engine, first, sleep, step, wait_signal, workflow
from holdfast.connect import components
from holdfast.errors import BadOption, ResultTimeout, RunFinished, RunNotFound
from holdfast.testing import internals
from tests.engine.waiting import wait_for, wait_until
from tests.store import helpers


@workflow
async def long_sleeper(length: str) -> str:
    before = holdfast.now()
    await sleep(length)
    return str(holdfast.now() - before)


@workflow
async def word_listener(timeout: str | None = None) -> object:
    try:
        return await wait_signal("word", timeout=timeout)
    except TimeoutError:
        return "nothing"


def test_a_short_sleep_stays_in_memory(engine):
    run = engine.start(long_sleeper, "20ms")

    assert run.result(timeout=20) >= "0:00:00.020"
    assert run.record.generation == 1


def test_a_long_sleep_parks_and_another_process_wakes_it(database, clock):
    with Engine(database, clock=clock) as engine:
        run = engine.start(long_sleeper, "60d")
        wait_for(engine, run, "waiting")
        assert run.record.session_id is None
    clock.advance("59d")
    with Engine(database, clock=clock) as engine:
        assert engine.run(run.id).status == "waiting"
        clock.advance("2d")
        assert engine.run(run.id).result(timeout=20).startswith("61 days")


def test_a_timer_that_was_due_while_nothing_ran_fires_on_start(database, clock):
    with Engine(database, clock=clock) as engine:
        run = engine.start(long_sleeper, "1h")
        wait_for(engine, run, "waiting")
    clock.advance("1d")
    with Engine(database, clock=clock) as engine:
        assert engine.run(run.id).result(timeout=20)


def test_a_signal_may_come_before_the_wait(engine):
    run = engine.start(word_listener, delay="50ms")
    assert engine.signal(run.id, "word", {"a": 1})
    assert run.result(timeout=20) == {"a": 1}


def test_a_signal_ends_a_wait(engine):
    run = engine.start(word_listener)
    wait_for(engine, run, "waiting")
    engine.signal(run.id, "other", 0)
    engine.signal(run.id, "word", [1, 2])
    assert run.result(timeout=20) == [1, 2]


def test_a_signal_with_a_key_counts_once(engine):
    @workflow
    async def two() -> list:
        return [await wait_signal("word"), await wait_signal("word")]

    run = engine.start(two)
    assert engine.signal(run.id, "word", 1, key="a") is True
    assert engine.signal(run.id, "word", 2, key="a") is False
    assert engine.signal(run.id, "word", 3, key="b") is True
    assert run.result(timeout=20) == [1, 3]


def test_a_wait_times_out(database, clock):
    with Engine(database, clock=clock) as engine:
        run = engine.start(word_listener, "3d")
        wait_for(engine, run, "waiting")
        clock.advance("3d")
        assert run.result(timeout=20) == "nothing"


def test_a_signal_wakes_a_parked_run_that_nobody_holds(database, clock):
    with Engine(database, clock=clock) as engine:
        run = engine.start(word_listener)
        wait_for(engine, run, "waiting")
    with Engine(database) as client:
        assert client.run(run.id).record.session_id is None
        client.signal(run.id, "word", 9)
        assert client.run(run.id).result(timeout=20) == 9


def test_signals_are_typed_on_request(engine):
    @workflow
    async def typed() -> str:
        when = await wait_signal("when", type=__import__("datetime").date)
        return when.isoformat()

    run = engine.start(typed)
    engine.signal(run.id, "when", "2026-01-02")
    assert run.result(timeout=20) == "2026-01-02"


def test_signals_to_nobody_are_refused(engine):
    with pytest.raises(RunNotFound):
        engine.signal("nobody", "word")
    run = engine.start(long_sleeper, "0s")
    run.result(timeout=20)
    with pytest.raises(RunFinished):
        engine.signal(run.id, "word")
    with pytest.raises(BadOption):
        engine.signal(run.id, "")


def test_a_block_times_out_durably(database, clock):
    @step
    async def quick() -> int:
        return 1

    @workflow
    async def limited() -> str:
        try:
            async with holdfast.timeout("5d"):
                await quick()
                await wait_signal("never")
        except TimeoutError:
            return "timed out"
        return "?"

    with Engine(database, clock=clock, workflows=[limited]) as engine:
        run = engine.start(limited)
        wait_for(engine, run, "waiting")
        clock.advance("4d")
    with Engine(database, clock=clock, workflows=[limited]) as engine:
        clock.advance("1d")
        assert engine.run(run.id).result(timeout=20) == "timed out"


def test_the_first_of_several_wins_and_the_others_are_stopped(engine):
    @workflow
    async def race() -> str:
        async def word() -> str:
            return f"word {await wait_signal('word')}"

        async def time() -> str:
            await sleep("30d")
            return "time"

        return await first(word(), time())

    run = engine.start(race)
    wait_for(engine, run, "waiting")
    engine.signal(run.id, "word", 3)
    assert run.result(timeout=20) == "word 3"


def test_blocking_workflows_wait_too(database, clock):
    @workflow
    def blocking() -> list:
        holdfast.sync.sleep("1d")
        word = holdfast.sync.wait_signal("word")
        winner = holdfast.sync.first(
            lambda: holdfast.sync.wait_signal("never"), lambda: holdfast.sync.sleep("1h") or "time"
        )
        return [word, winner]

    with Engine(database, clock=clock, workflows=[blocking]) as engine:
        run = engine.start(blocking)
        engine.signal(run.id, "word", 5)
        wait_for(engine, run, "waiting")
    clock.advance("1d")
    with Engine(database, clock=clock, workflows=[blocking]) as engine:
        run = engine.run(run.id)
        wait_until(engine, lambda: sum(event.kind == "timer_set" for event in run.history()) == 2)
        clock.advance("1h")
        assert run.result(timeout=20) == [5, "time"]


def test_a_workflow_that_waits_for_nothing_is_stuck_and_says_so(engine):
    import asyncio

    @workflow
    async def deadlocked() -> None:
        await asyncio.Event().wait()

    run = engine.start(deadlocked)
    with pytest.raises(holdfast.HoldfastError, match="never happen"):
        run.result(timeout=20)
    assert run.status == "stuck"
    run.cancel(force=True)


def test_a_block_of_a_blocking_workflow_times_out_durably(database, clock):
    @workflow
    def limited() -> list:
        found = []
        with holdfast.sync.timeout("1h"):
            found.append(holdfast.sync.wait_signal("early"))
        try:
            with holdfast.sync.timeout("5d"):
                holdfast.sync.gather(
                    lambda: holdfast.sync.wait_signal("never"), lambda: holdfast.sync.sleep("30d")
                )
        except TimeoutError:
            found.append("timed out")
        holdfast.sync.wait_signal("late")
        return found

    with Engine(database, clock=clock, workflows=[limited]) as engine:
        run = engine.start(limited)
        run.signal("early", 1)
        wait_until(engine, lambda: sum(event.kind == "timer_set" for event in run.history()) == 3)
        clock.advance("5d")
        wait_until(engine, lambda: any(event.step == "signal late" for event in run.history()))
    with Engine(database, clock=clock, workflows=[limited]) as engine:
        engine.signal(run.id, "late")
        assert engine.run(run.id).result(timeout=20) == [1, "timed out"]


def test_whoever_waits_for_what_nobody_works_on_is_told(database, monkeypatch, caplog):
    monkeypatch.setattr(components, "UNEASY", 0.0)

    @workflow(name="nobody_works_on_it")
    async def lonely() -> None: ...

    client = Engine(database)  # without `with` it is no worker
    run = client.start(lonely)
    with pytest.raises(ResultTimeout):
        run.result(timeout="20ms")
    client.close()

    (told,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert f"run {run.id} has not ended yet: no worker is alive" in told
    assert "holdfast worker" in told


def test_a_run_that_has_ended_leaves_memory_without_the_garbage_collector(database):
    with Engine(database) as engine:
        run = engine.start(word_listener)
        wait_for(engine, run, "waiting")
        driver = weakref.ref(internals(engine).worker.executions[run.id])
        gc.disable()
        try:
            engine.signal(run.id, "word", 1)
            assert run.result(timeout=20) == 1
            helpers.wait_until(lambda: driver() is None, 20)
        finally:
            gc.enable()


# What follows from a signal


SEEN_BY_STEP: dict[str, list[str]] = {}


@step
async def look_at_own_history(database: str) -> None:
    engine = Engine(database)
    run_id = holdfast.info().run_id
    SEEN_BY_STEP[run_id] = [event.kind for event in engine.run(run_id).history()]
    engine.close()


@workflow
async def after_a_lone_signal(database: str) -> None:
    await wait_signal("go", timeout="1h")
    await look_at_own_history(database)


@workflow
async def after_signal_or_timer(database: str) -> None:
    await first(wait_signal("go"), sleep("1h"))
    await look_at_own_history(database)


@workflow
async def after_signal_with_a_wait_to_hand_out(database: str) -> None:
    await wait_signal("go")
    await holdfast.waits.create_wait("payment")
    await look_at_own_history(database)


@workflow
async def after_signal_and_a_look_at_the_clock(database: str) -> None:
    await wait_signal("go")
    holdfast.now()
    await look_at_own_history(database)


@pytest.mark.parametrize(
    ("shape", "at_once"),
    [
        (after_a_lone_signal, True),
        (after_signal_or_timer, False),
        (after_signal_with_a_wait_to_hand_out, False),
        (after_signal_and_a_look_at_the_clock, False),
    ],
    ids=lambda given: getattr(given, "name", ""),
)
def test_a_step_waits_for_the_commit_unless_a_signal_alone_leads_to_it(
    engine, database, shape, at_once
):
    run = engine.start(shape, database)
    wait_for(engine, run, "waiting")
    engine.signal(run.id, "go")
    run.result(timeout=20)

    assert ("signal_received" not in SEEN_BY_STEP[run.id]) == at_once
    kinds = [event.kind for event in engine.run(run.id).history()]
    assert kinds.index("signal_received") < kinds.index("step_completed")
