"""What happened first wins, whenever a worker gets round to looking: the order is that of instants,
not of findings."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

import holdfast
from holdfast import (
    Engine,
    compensate,
    first,
    gate,
    gather,
    sleep,
    start,
    step,
    sync,
    wait_signal,
    workflow,
)
from holdfast.errors import RunCancelled, RunExpired
from holdfast.waits import all_of, wait_for
from tests.engine.waiting import wait_for as wait_for_status
from tests.engine.waiting import wait_until

calls: list[str] = []


@pytest.fixture(autouse=True)
def fresh():
    calls.clear()


@step(name="order_note")
async def note(what: str) -> str:
    calls.append(what)
    return what


@step(name="order_ship")
def ship() -> str:
    calls.append("ship")
    return "shipped"


async def timer(length: str = "1h") -> str:
    await sleep(length)
    return "timer"


async def people() -> str:
    await gate("Ship it?")
    return "gate"


async def word(timeout: str | None = None) -> str:
    try:
        return str(await wait_signal("word", timeout=timeout))
    except TimeoutError:
        return "timeout"


async def both(timeout: str | None = None) -> str:
    waited = await wait_for(
        all_of("a", "b"), timeout=timeout, on_timeout="fail" if timeout is None else "continue"
    )
    return "timeout" if waited.timed_out else "both"


@workflow(name="order_child")
async def child() -> str:
    return str(await wait_signal("word"))


async def below() -> str:
    return str(await (await start(child, id="order-child")).result())


CONTENDERS = {"gate": people, "signal": word, "condition": both, "child": below}


@workflow(name="order_race")
async def race(contender: str, timer_first: bool) -> str:
    calls = [CONTENDERS[contender](), timer()]
    return await first(*(reversed(calls) if timer_first else calls))


def sync_timer() -> str:
    sync.sleep("1h")
    return "timer"


def sync_word() -> str:
    return str(sync.wait_signal("word"))


def sync_people() -> str:
    sync.gate("Ship it?")
    return "gate"


@workflow(name="order_race_blocking")
def race_blocking(contender: str, timer_first: bool) -> str:
    calls = [{"gate": sync_people, "signal": sync_word}[contender], sync_timer]
    return sync.first(*(reversed(calls) if timer_first else calls))


@workflow(name="order_limits")
async def limits(contender: str) -> str:
    return await {"signal": word, "condition": both}[contender]("1h")


@workflow(name="order_decided")
async def decided() -> str:
    await gate("Ship it?")
    return "decided"


@workflow(name="order_decided_blocking")
def decided_blocking() -> str:
    sync.gate("Ship it?")
    return "decided"


@workflow(name="order_ships")
async def ships() -> str:
    compensate(note, "undone")
    await gate("Ship it?")
    return await note("shipped")


@workflow(name="order_ships_blocking")
def ships_blocking() -> str:
    sync.gate("Ship it?")
    return ship()


@workflow(name="order_two_words")
async def two_words() -> list[str]:
    winner = await first(word(), wait_signal("other"))
    return [winner, await wait_signal("other")]


@workflow(name="order_retries")
async def retries() -> str:
    return await first(fails(), timer("30m"))


@step(name="order_fails", retries=1, delay="1h")
async def fails() -> str:
    calls.append("try")
    raise RuntimeError("not yet")


@workflow(name="order_handed")
async def handed() -> str:
    made = await holdfast.waits.create_wait("answer", expires="1h")
    await sleep("2h")
    waited = await wait_for(made, timeout="9d", on_timeout="continue")
    return waited.how


def act(engine: Engine, run, contender: str) -> None:
    if contender == "gate":
        engine.gates.approve(engine.gates.list(run=run.id)[0].id, by="ann")
    elif contender == "condition":
        engine.signal(run.id, "a")
        engine.signal(run.id, "b")
    else:
        engine.signal("order-child" if contender == "child" else run.id, "word", contender)


def parked(database, clock, flow, *args, **options):
    """Start a run, and return it when no worker is up any more."""
    with Engine(database, clock=clock) as engine:
        run = engine.start(flow, *args, **options)
        wait_for_status(engine, run, "waiting")
        if args and args[0] == "child":
            wait_for_status(engine, engine.run("order-child"), "waiting")
    return run


def result(database, clock, run, **options):
    with Engine(database, clock=clock, **options) as engine:
        found = engine.run(run.id).result(timeout=30)
        assert engine.database.check() == []
        return found


@contextmanager
def client(database, clock):
    engine = Engine(database, clock=clock)
    try:
        yield engine
    finally:
        engine.close()


@pytest.mark.parametrize("timer_first", [False, True])
@pytest.mark.parametrize("contender", list(CONTENDERS))
def test_what_came_before_the_timer_was_due_wins_though_no_worker_was_up(
    database, clock, contender, timer_first
):
    run = parked(database, clock, race, contender, timer_first)
    clock.advance("30m")
    with client(database, clock) as engine:
        act(engine, run, contender)
    if contender == "child":
        with Engine(database, clock=clock, workflows=[child]) as engine:
            assert engine.run("order-child").result(timeout=30) == "child"
    clock.advance("1h")

    assert result(database, clock, run) == ("both" if contender == "condition" else contender)


@pytest.mark.parametrize("timer_first", [False, True])
@pytest.mark.parametrize("contender", ["gate", "signal", "condition"])
def test_the_timer_wins_over_what_came_after_it_was_due(database, clock, contender, timer_first):
    run = parked(database, clock, race, contender, timer_first)
    clock.advance("90m")
    with client(database, clock) as engine:
        act(engine, run, contender)

    assert result(database, clock, run) == "timer"


@pytest.mark.parametrize("contender", ["gate", "signal"])
@pytest.mark.parametrize("after, winner", [("30m", None), ("60m", None), ("90m", "timer")])
def test_a_blocking_workflow_sees_the_same_order(database, clock, contender, after, winner):
    run = parked(database, clock, race_blocking, contender, True)
    clock.advance(after)
    with client(database, clock) as engine:
        act(engine, run, contender)
    clock.advance("1h")

    assert result(database, clock, run) == (winner or contender)


@pytest.mark.parametrize("contender", ["gate", "signal", "condition"])
def test_at_the_same_instant_what_was_committed_wins_over_the_timer(database, clock, contender):
    run = parked(database, clock, race, contender, True)
    clock.advance("1h")
    with client(database, clock) as engine:
        act(engine, run, contender)

    assert result(database, clock, run) == ("both" if contender == "condition" else contender)


@pytest.mark.parametrize("contender, found", [("signal", "signal"), ("condition", "both")])
@pytest.mark.parametrize("after, in_time", [("30m", True), ("60m", True), ("90m", False)])
def test_the_timeout_of_a_wait_counts_from_when_signals_came(
    database, clock, contender, found, after, in_time
):
    run = parked(database, clock, limits, contender)
    clock.advance(after)
    with client(database, clock) as engine:
        act(engine, run, contender)
    clock.advance("1h")

    assert result(database, clock, run) == (found if in_time else "timeout")


@pytest.mark.parametrize("flow", [decided, decided_blocking])
def test_a_decision_before_the_deadline_of_the_run_completes_it(database, clock, flow):
    run = parked(database, clock, flow, deadline="1h")
    clock.advance("30m")
    with client(database, clock) as engine:
        act(engine, run, "gate")
    clock.advance("1h")

    assert result(database, clock, run) == "decided"


@pytest.mark.parametrize("flow", [decided, decided_blocking])
def test_a_decision_after_the_deadline_of_the_run_is_too_late(database, clock, flow):
    run = parked(database, clock, flow, deadline="1h")
    clock.advance("90m")
    with client(database, clock) as engine:
        act(engine, run, "gate")

    with pytest.raises(RunExpired):
        result(database, clock, run)


@pytest.mark.parametrize("flow", [ships, ships_blocking])
@pytest.mark.parametrize("cancelled_first", [True, False])
def test_no_step_begins_in_a_run_that_was_asked_to_stop_meanwhile(
    database, clock, flow, cancelled_first
):
    run = parked(database, clock, flow)
    with client(database, clock) as engine:
        if cancelled_first:
            engine.cancel(run.id)
            clock.advance("1m")
        act(engine, run, "gate")
        if not cancelled_first:
            clock.advance("1m")
            engine.cancel(run.id)

    with pytest.raises(RunCancelled):
        result(database, clock, run)
    assert calls == (["undone"] if flow is ships else [])


def test_a_decision_that_ends_the_run_stands_though_it_was_cancelled_later(database, clock):
    run = parked(database, clock, decided)
    with client(database, clock) as engine:
        act(engine, run, "gate")
        clock.advance("1m")
        engine.cancel(run.id)

    assert result(database, clock, run) == "decided"


def test_a_signal_that_lost_a_race_is_there_for_the_next_wait(database, clock):
    run = parked(database, clock, two_words)
    with client(database, clock) as engine:
        engine.signal(run.id, "word", "first")
        clock.advance("1s")
        engine.signal(run.id, "other", "second")

    assert result(database, clock, run) == ["first", "second"]


def test_signals_that_were_there_before_a_race_are_taken_one_by_one(database, clock):
    with client(database, clock) as engine:
        run = engine.start(two_words)
        engine.signal(run.id, "word", "first")
        engine.signal(run.id, "other", "second")

    assert result(database, clock, run) == ["first", "second"]


def test_a_timer_wins_over_the_next_attempt_of_a_step_though_both_are_due(database, clock):
    run = parked(database, clock, retries)
    clock.advance("2h")

    assert result(database, clock, run) == "timer"
    assert calls == ["try"]


def test_a_wait_that_expired_before_it_was_waited_for_is_given_up(database, clock):
    run = parked(database, clock, handed)
    clock.advance("2h")

    assert result(database, clock, run) == "timeout"


@workflow(name="order_wide")
async def wide(count: int) -> int:
    found = await gather(
        *(wait_signal("word", timeout="1h") for _ in range(count)), return_exceptions=True
    )
    return sum(not isinstance(one, TimeoutError) for one in found)


def test_of_many_waits_only_those_that_a_signal_reached_in_time_have_one(database, clock):
    run = parked(database, clock, wide, 20)
    with client(database, clock) as engine:
        for _ in range(7):
            engine.signal(run.id, "word")
        clock.advance("2h")
        for _ in range(5):
            engine.signal(run.id, "word")

    assert result(database, clock, run) == 7


@pytest.mark.parametrize("contender", ["gate", "signal", "condition"])
@pytest.mark.parametrize("before, winner", [("30m", None), ("90m", "timer")])
def test_a_worker_that_was_stopped_meanwhile_sees_the_same_order(
    database, clock, contender, before, winner
):
    stopped, go_on = threading.Event(), threading.Event()

    def stand_still() -> None:
        stopped.set()
        go_on.wait(60)

    with (
        Engine(database, clock=clock, idle_timeout="9d") as engine,
        client(database, clock) as other,
    ):
        run = engine.start(race, contender, True)
        wait_for_status(engine, run, "waiting")
        wait_until(engine, lambda: run.record.session_id is not None)
        engine._calls.worker_thread.loop.call_soon_threadsafe(stand_still)
        assert stopped.wait(30)
        clock.advance(before)
        act(other, run, contender)
        clock.advance("1h")
        go_on.set()

        assert run.result(timeout=30) == (
            winner or ("both" if contender == "condition" else contender)
        )
