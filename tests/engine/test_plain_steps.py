"""Plain turns take a shorter way than others. Whatever happens between them, the history and the
results are the same."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

import holdfast
from holdfast import AsyncEngine, info, sleep, step, wait_signal, workflow
from holdfast.errors import LeaseLost, RunCancelled, StoreUnavailable
from holdfast.store.runs.operations import Advance
from holdfast.streams import emit
from holdfast.testing import internals
from tests.store.helpers import wait_until

MADE: Counter[str] = Counter()


@step(name="plain.count")
async def count(n: int) -> int:
    MADE[info().run_id] += 1
    return n


@step(name="plain.slow")
async def slow(n: int) -> int:
    turn = asyncio.get_running_loop().create_future()
    turn.get_loop().call_soon(turn.set_result, None)
    await turn
    return n


@step(name="plain.emitting")
async def emitting(n: int) -> int:
    emit({"n": n})
    return n


@step(name="plain.retried", retries=1, delay="1ms")
async def retried(n: int) -> int:
    if info().attempt == 1:
        raise RuntimeError("once more")
    return n


@step(name="plain.limited", timeout="1m", keep_args=True)
async def limited(n: int) -> int:
    return n


@step(name="plain.threaded")
def threaded(n: int) -> int:
    return n


@workflow(name="plain.child")
async def child(n: int) -> int:
    return await count(n)


async def parallel(n: int) -> int:
    first, second = await holdfast.gather(count(n), slow(n))
    return first + second - n


async def timer(n: int) -> int:
    await sleep("1ms")
    return n


async def told(n: int) -> int:
    emit({"code": n})
    return await count(n)


async def signalled(n: int) -> int:
    await wait_signal("go")
    return n


KINDS = {
    "count": count,
    "slow": slow,
    "emitting": emitting,
    "retried": retried,
    "limited": limited,
    "threaded": threaded,
    "child": child,
    "parallel": parallel,
    "timer": timer,
    "told": told,
    "signalled": signalled,
}


@workflow(name="plain.mixed")
async def mixed(kinds: list[str]) -> list[int]:
    return [await KINDS[kind](n) for n, kind in enumerate(kinds)]


def plans_of(seed: int) -> list[list[str]]:
    """Return plans in which half of the calls are plain steps."""
    rng = random.Random(seed)
    plans = []
    for _ in range(3):
        kinds = ["count"] * 12 + rng.choices(list(KINDS), k=12)
        rng.shuffle(kinds)
        plans.append(["count", "count", *kinds])
    return plans


@pytest.mark.parametrize("seed", range(2))
def test_turns_of_all_kinds_follow_plain_ones(database, seed):
    plans = plans_of(seed)
    with holdfast.Engine(database, shutdown_timeout=1) as engine:
        runs = engine.start_many(mixed, plans)
        for run, plan in zip(runs, plans, strict=True):
            for _ in range(plan.count("signalled")):
                run.signal("go")  # kept, or in the middle of a turn
        for run, plan in zip(runs, plans, strict=True):
            assert run.result(timeout=60) == list(range(len(plan)))
            numbers = [event.seq for event in run.history()]
            assert numbers == list(range(1, len(numbers) + 1))
        assert engine.database.check() == []


@pytest.mark.parametrize("seed", range(2, 4))
def test_turns_of_all_kinds_follow_plain_ones_of_a_programs_own_loop(database, seed):
    plans = plans_of(seed)

    async def main() -> None:
        async with AsyncEngine(database, shutdown_timeout=1) as engine:
            runs = await engine.start_many(mixed, plans)
            for run, plan in zip(runs, plans, strict=True):
                for _ in range(plan.count("signalled")):
                    await run.signal("go")
            for run, plan in zip(runs, plans, strict=True):
                assert await run.result(timeout=60) == list(range(len(plan)))
                numbers = [event.seq for event in await run.history()]
                assert numbers == list(range(1, len(numbers) + 1))
            assert await engine.database.check() == []

    asyncio.run(main())


@workflow(name="plain.sequence")
async def sequence(steps: int) -> int:
    for n in range(steps):
        await count(n)
    return steps


def fail_some_commits(store, monkeypatch, failures):
    """Let commits of single events fail, before or after they have taken effect."""
    apply = store.apply

    def apply_or_fail(batch):
        is_event = type(batch[0]) is Advance and batch[0].status is None
        failure = next(failures, None) if is_event else None
        if failure == "before":
            raise StoreUnavailable(reason="the store is in trouble")
        answers = apply(batch)
        if failure == "lost":
            return [LeaseLost(run=op.run_id, generation=1) for op in batch]
        return answers

    monkeypatch.setattr(store, "apply", apply_or_fail)


@pytest.mark.parametrize("face", ["blocking", "async"])
def test_a_commit_that_fails_is_repeated_and_its_step_is_not(database, face, monkeypatch):
    MADE.clear()
    failures = iter(["ok", "ok", "before", "ok", "before", "before", "ok", "ok"])

    async def main() -> str:
        async with AsyncEngine(database, shutdown_timeout=1) as engine:
            await engine.database.check()  # the database is open
            fail_some_commits(internals(engine).store, monkeypatch, failures)
            run = await engine.start(sequence, 8)
            assert await run.result(timeout=60) == 8
            assert await engine.database.check() == []
            return run.id

    def blocking() -> str:
        with holdfast.Engine(database, shutdown_timeout=1) as engine:
            fail_some_commits(internals(engine).store, monkeypatch, failures)
            run = engine.start(sequence, 8)
            assert run.result(timeout=60) == 8
            assert engine.database.check() == []
            return run.id

    run_id = asyncio.run(main()) if face == "async" else blocking()
    assert MADE[run_id] == 8
    assert next(failures, None) is None


def test_a_run_whose_lease_is_lost_between_plain_turns_begins_no_further_step(
    tmp_path, monkeypatch
):
    MADE.clear()

    async def main() -> str:
        async with AsyncEngine(tmp_path / "lost.db", shutdown_timeout=1) as engine:
            await engine.database.check()
            store = internals(engine).store
            fail_some_commits(store, monkeypatch, iter(["ok", "ok", "ok", "lost"]))
            run = await engine.start(sequence, 8)
            worker = internals(engine).worker
            await asyncio.to_thread(
                wait_until, lambda: MADE[run.id] > 0 and run.id not in worker.executions
            )
            return run.id

    assert MADE[asyncio.run(main())] == 4


def test_a_run_is_cancelled_between_two_of_its_plain_turns(database):
    MADE.clear()

    async def main() -> None:
        async with AsyncEngine(database, shutdown_timeout=1) as engine:
            run = await engine.start(sequence, 100_000)
            await asyncio.to_thread(wait_until, lambda: MADE[run.id] >= 20)
            await run.cancel("enough")
            with pytest.raises(RunCancelled):
                await run.result(timeout=60)
            completed = [event for event in await run.history() if event.kind == "step_completed"]
            assert len(completed) <= MADE[run.id] <= len(completed) + 1
            assert await engine.database.check() == []

    asyncio.run(main())
