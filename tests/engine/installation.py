"""An installation with a run of each kind, and checks that the runs continue correctly in any
store."""

from __future__ import annotations

from contextlib import closing

import pytest

import holdfast
from holdfast import Engine, Fail, compensate, sleep, step, wait_signal, workflow
from holdfast.errors import RunExists
from tests.engine.waiting import wait_for, wait_until

undone: list[str] = []


@step
async def double(n: int) -> int:
    return n * 2


async def undo(n: int) -> None:
    undone.append(f"undone {n}")


@workflow(name="moving_plain")
async def plain(n: int) -> int:
    return await double(n)


@workflow(name="moving_failing")
async def failing() -> None:
    raise Fail("out of stock")


@workflow(name="moving_sleeper")
async def sleeper() -> int:
    first = await double(1)
    await sleep("1h")
    return first + await double(2)


@workflow(name="moving_listener")
async def listener() -> list:
    return [await wait_signal("paid"), await wait_signal("paid")]


@workflow(name="moving_careful")
async def careful() -> None:
    compensate(undo, await double(4))
    await wait_signal("never")


@workflow(name="moving_fragile")
async def fragile() -> int:
    first = await double(7)
    await wait_signal("go")
    return first + await double(1)


@workflow(name="moving_fragile")
async def other_fragile(missing: dict) -> None:
    await wait_signal("go")


@workflow(name="moving_item")
async def item(n: int) -> int:
    return n if n % 2 else await wait_signal("item")


@workflow(name="moving_family")
async def family(items: list[int]) -> list[int]:
    return await holdfast.map(item, items)


WORKFLOWS = [plain, failing, sleeper, listener, careful, fragile, item, family]


def populate(url, clock):
    """Create one run of each kind, and return their ids."""
    with Engine(url, clock=clock, shutdown_timeout=1, workflows=WORKFLOWS) as engine:
        engine.lanes.set("narrow", concurrency=1, rate="5/h")
        engine.lanes.set("closed", paused=True)
        made = {
            "completed": engine.start(
                plain, 1, key="order-1", tags={"customer": "7", "area": "north"}
            ),
            "failed": engine.start(failing),
            "sleeper": engine.start(sleeper, priority=3),
            "listener": engine.start(listener),
            "careful": engine.start(careful),
            "stuck": engine.start(fragile),
            "family": engine.start(family, [1, 2, 3, 4]),
            "narrow": engine.start(plain, 5, lane="narrow"),
            "delayed": engine.start(plain, 6, delay="2h", deadline="9d"),
            "pending": engine.start(plain, 8, lane="closed"),
        }
        for name in ("completed", "narrow"):
            made[name].result(timeout=20)
        for name in ("sleeper", "listener", "careful", "stuck", "family"):
            wait_for(engine, made[name], "waiting")
        assert made["listener"].signal("paid", 1, key="first")
        assert made["listener"].signal("later", "kept", key="second")
        wait_until(
            engine,
            lambda: (
                [event.kind for event in made["listener"].history()].count("signal_received") == 1
            ),
        )
        wait_until(
            engine,
            lambda: (
                list(engine.runs(workflow="moving_item", status="completed"))
                and len(open_items(engine)) == 2
            ),
        )
    with closing(Engine(url, clock=clock)) as engine:
        engine.cancel(made["careful"].id, "ordered twice")
    make_stuck(url, clock, made["stuck"])
    return {name: run.id for name, run in made.items()}


def make_stuck(url, clock, run):
    """Make a run stuck: a worker whose code has changed executes it."""
    with Engine(url, clock=clock, workflows=[other_fragile]) as engine:
        engine.signal(run.id, "go")
        wait_for(engine, engine.run(run.id), "stuck")


def open_items(engine):
    return [run for run in engine.runs(workflow="moving_item") if run.status == "waiting"]


def go_on(url, clock, ids):
    """Continue all copied runs until they end, and check their outcomes."""
    with Engine(url, clock=clock, shutdown_timeout=1, workflows=WORKFLOWS) as engine:
        assert engine.start(plain, 1, key="order-1").id == ids["completed"]
        with pytest.raises(RunExists):
            engine.start(plain, 2, key="order-1")
        assert not engine.signal(ids["listener"], "paid", 1, key="first")
        assert not engine.signal(ids["listener"], "later", 1, key="second")
        assert engine.signal(ids["listener"], "paid", 2)
        for run in open_items(engine):
            engine.signal(run.id, "item", 10)
        engine.resume(ids["stuck"])
        engine.lanes.resume("closed")
        clock.advance("3h")

        expected = {
            "completed": 2,
            "sleeper": 6,
            "listener": [1, 2],
            "stuck": 16,
            "family": [1, 10, 3, 10],
            "narrow": 10,
            "delayed": 12,
            "pending": 16,
        }
        assert {name: engine.run(ids[name]).result(timeout=20) for name in expected} == expected
        wait_for(engine, engine.run(ids["careful"]), "cancelled")
        wait_for(engine, engine.run(ids["failed"]), "failed")
        assert engine.database.check() == []
