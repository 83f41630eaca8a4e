"""Waits that are over, that lost a race, or that a replay or a fork opens again."""

from __future__ import annotations

import pytest

from holdfast import Engine, first, sleep, workflow
from holdfast.errors import RunFailed, WaitClosed
from holdfast.testing import internals
from holdfast.waits import any_of, count, create_wait, wait_for
from tests.engine.waiting import wait_for as wait_for_status
from tests.engine.waiting import wait_until
from tests.engine.waits.workflows import callback, handed_out, parked


def test_a_wait_that_is_over_cannot_be_waited_for_again(engine):
    @workflow
    async def twice() -> str:
        wait = await create_wait("callback")
        await wait_for(wait)
        try:
            await wait_for(any_of(wait, "go"))
        except WaitClosed:
            return "closed"
        return ""

    run = parked(engine, twice)
    engine.waits.deliver(*handed_out(engine, run))
    assert run.result(timeout=20) == "closed"


def test_a_wait_that_lost_a_race_can_be_waited_for_again(database, clock):
    @workflow
    async def again() -> list[object]:
        wait = await create_wait("callback")

        async def answer() -> object:
            return (await wait_for(wait)).payload

        async def nobody() -> object:
            await sleep("1h")
            return "nobody"

        return [await first(answer(), nobody()), (await wait_for(wait)).payload]

    with Engine(database, clock=clock) as engine:
        run = parked(engine, again)
        clock.advance("1h")
        wait_until(engine, lambda: len(engine.waits.list(run.id)) == 3)
        engine.waits.deliver(*handed_out(engine, run), payload=4)
        assert run.result(timeout=20) == ["nobody", 4]
        assert "wait_dropped" in [event.kind for event in run.history()]


def test_a_wait_that_a_late_signal_closed_is_open_again_when_something_earlier_won(database, clock):
    @workflow(name="takes up a wait that was closed")
    async def again() -> list[object]:
        wait = await create_wait("callback")

        async def answer() -> object:
            return (await wait_for(wait)).payload

        async def nobody() -> object:
            await sleep("1h")
            return "nobody"

        winner = await first(answer(), nobody())
        both = await wait_for(count(2, wait, distinct="signals"))
        return [winner, [signal.payload for signal in both.signals]]

    with Engine(database, clock=clock) as engine:
        run = parked(engine, again)
        wait_id, token = handed_out(engine, run)
    clock.advance("2h")
    client = Engine(
        database, clock=clock
    )  # it has no worker, so the timer is due and has not fired
    assert client.waits.deliver(wait_id, token, payload=4).effect == "satisfied"
    with pytest.raises(WaitClosed):
        client.waits.deliver(wait_id, token, payload=5)
    client.close()
    with Engine(database, clock=clock, workflows=[again]) as engine:
        wait_until(engine, lambda: internals(engine).store.waits.get(wait_id).closed_at is None)
        assert engine.waits.deliver(wait_id, token, payload=6).effect in ("kept", "satisfied")
        assert engine.run(run.id).result(timeout=20) == ["nobody", [4, 6]]


def test_a_replay_gives_a_wait_its_time_again(database, clock):
    with Engine(database, clock=clock) as engine:
        run = parked(engine, callback, None, "1h")
        wait_id, token = handed_out(engine, run)
        clock.advance("1h")
        with pytest.raises(RunFailed):
            run.result(timeout=20)
        engine.replay(run.id)
        wait_for_status(engine, run, "waiting")
        assert engine.waits.deliver(wait_id, token, payload=2).effect == "satisfied"
        assert run.result(timeout=20) == ["signals", 2, None]


def test_a_replay_from_a_wait_opens_it_again(engine):
    run = parked(engine, callback)
    wait_id, token = handed_out(engine, run)
    engine.waits.deliver(wait_id, token, payload=1)
    assert run.result(timeout=20)[1] == 1

    engine.replay(run.id, from_step="wait")
    wait_for_status(engine, run, "waiting")
    engine.waits.deliver(wait_id, token, payload=2)

    assert run.result(timeout=20)[1] == 2


def test_a_fork_waits_for_signals_of_its_own(engine):
    run = parked(engine, callback)
    fork = engine.fork(run.id, from_step="wait")
    wait_for_status(engine, fork, "waiting")
    (mine, token), (other, _) = handed_out(engine, fork), handed_out(engine, run)
    assert mine != other
    engine.waits.deliver(mine, token, payload=1)
    assert fork.result(timeout=20)[1] == 1
    assert run.status == "waiting"
