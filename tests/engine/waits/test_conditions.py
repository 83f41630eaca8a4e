"""Waits with conditions: met by signals, side by side, with payloads of any type."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import AsyncEngine, Engine, gather, workflow
from holdfast.errors import BadOption, TooManySignals
from holdfast.waits import count, create_wait, wait_for
from tests.engine.waits.workflows import (
    callback,
    handed_out,
    late_callback,
    order_desk,
    order_desk_plain,
    parked,
)


@pytest.mark.parametrize("desk", [order_desk, order_desk_plain], ids=["async", "plain"])
def test_a_run_goes_on_when_all_that_it_waits_for_has_come_and_sees_what_that_was(engine, desk):
    run = parked(engine, desk)
    run.signal("vote", 1, source="ann")
    run.signal("vote", 2, source="ann")
    run.signal("paid", {"amount": 3}, source="bank")
    assert run.status == "waiting"
    run.signal("vote", 3, source="bob")

    assert run.result(timeout=20) == [
        "signals",
        [[1, "vote", 1, "ann"], [3, "paid", {"amount": 3}, "bank"], [4, "vote", 3, "bob"]],
    ]
    assert engine.waits.list(run.id)[0].state == "closed"


def test_signals_may_come_before_the_wait(database, clock):
    with Engine(database, clock=clock) as engine:
        run = engine.start(order_desk, delay="1h")
        for name, source in (("paid", None), ("shipped", None)):
            run.signal(name, source=source)
        clock.advance("1h")
        assert run.result(timeout=20)[0] == "signals"


def test_a_wait_survives_the_end_of_its_process(database, clock):
    with Engine(database, clock=clock) as engine:
        run = parked(engine, order_desk)
        run.signal("paid")
    clock.advance("2d")
    with Engine(database, clock=clock) as engine:
        engine.signal(run.id, "shipped")
        assert engine.run(run.id).result(timeout=20)[0] == "signals"


def test_several_waits_are_met_together(engine):
    @workflow
    async def quorum() -> list[str]:
        waits = [await create_wait(name) for name in ("ann", "bob", "cy")]
        waited = await wait_for(count(2, *waits, distinct="waits"))
        return [signal.name for signal in waited.signals]

    run = parked(engine, quorum)
    for name, effect in (("cy", "kept"), ("cy", "duplicate"), ("ann", "satisfied")):
        assert engine.waits.deliver(*handed_out(engine, run, name)).effect == effect
    assert run.result(timeout=20) == ["cy", "ann"]


def test_a_run_takes_only_so_many_signals(database):
    with Engine(database, max_signals=2) as engine:
        run = engine.start(late_callback)
        wait_id, token = handed_out(engine, run)
        engine.waits.deliver(wait_id, token)
        run.signal("other")
        with pytest.raises(TooManySignals, match="limit=2"):
            engine.waits.deliver(wait_id, token)
        with pytest.raises(TooManySignals):
            run.signal("go")
        run.cancel(force=True)
    with pytest.raises(BadOption):
        Engine(database, max_signals=0)


def test_two_waits_side_by_side_share_nothing(engine):
    @workflow
    async def both() -> list[list[int]]:
        pair = await gather(wait_for(count(2, "vote")), wait_for(count(2, "vote")))
        return [[signal.id for signal in found.signals] for found in pair]

    run = parked(engine, both)
    for _ in range(4):
        run.signal("vote")
    assert run.result(timeout=20) == [[1, 2], [3, 4]]


def test_payloads_are_read_by_type(engine):
    @workflow
    async def typed() -> str:
        import datetime

        return (await wait_for("when", type=datetime.date)).payload.isoformat()

    run = engine.start(typed)
    run.signal("when", "2026-01-02")
    assert run.result(timeout=20) == "2026-01-02"


def test_a_signal_from_a_run_says_from_which(engine):
    @workflow
    async def poll() -> list[str]:
        waited = await wait_for(count(2, "vote", distinct="sources"))
        return [str(signal.source) for signal in waited.signals]

    @workflow
    async def speaker(to: str) -> None:
        from holdfast.authoring.python.api_async import AsyncChildHandle

        await AsyncChildHandle(poll, "x", to).signal("vote")

    run = parked(engine, poll)
    speakers = [engine.start(speaker, run.id) for _ in range(2)]
    assert sorted(run.result(timeout=20)) == sorted(one.id for one in speakers)


async def until_it_waits(run):
    while await run.status() != "waiting":
        pass


def test_the_same_for_asyncio(database):
    async def main() -> None:
        async with AsyncEngine(database) as engine:
            run = await engine.start(callback)
            await until_it_waits(run)
            wait_id = next(wait.id for wait in await engine.waits.list(run.id) if wait.id)
            answer = await engine.waits.deliver(
                wait_id, await engine.waits.token(wait_id), payload=1
            )
            assert (answer.signal, answer.effect) == (1, "satisfied")
            assert (await run.result())[1] == 1
            run = await engine.start(callback)
            await until_it_waits(run)
            await engine.waits.release(run.id, by="ann")
            assert await run.result() == ["release", None, "ann"]

    asyncio.run(main())
