"""Waiting for many runs that were started together: what has ended is read together, and nothing is
told that is not so."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import AsyncEngine, step, workflow
from holdfast.engine.runtime import ended_runs, notifier
from holdfast.engine.runtime.notifier import Pauses, ResultReady
from holdfast.errors import RunFailed
from holdfast.testing import internals
from tests.engine.waiting import wait_until

tries: dict[int, int] = {}


@step
async def tried(n: int) -> int:
    tries[n] = tries.get(n, 0) + 1
    if n % 7 == 3 and tries[n] == 1:
        raise ValueError(n)
    return n


release = threading.Event()


@step
def until_released() -> str:
    assert release.wait(60)
    return "released"


@workflow
async def waiting_for_release() -> str:
    return await until_released()


@workflow
async def asked_for_together(n: int) -> int:
    return await tried(n)


@pytest.fixture(autouse=True)
def fresh():
    tries.clear()
    release.clear()


@pytest.fixture
def reads(engine, monkeypatch):
    """How many runs were read each time that some were read together."""
    found: list[int] = []
    store = internals(engine).store
    read = store.runs.by_id
    monkeypatch.setattr(store.runs, "by_id", lambda ids: (found.append(len(ids)), read(ids))[1])
    return found


def outcome(run):
    try:
        return run.result(timeout=60)
    except RunFailed:
        return "failed"


def test_results_of_many_are_read_together(engine, reads):
    runs = engine.start_many(asked_for_together, range(60))
    last = outcome(runs[-2])
    found = [outcome(run) for run in runs]

    assert last == 58
    assert found == ["failed" if n % 7 == 3 else n for n in range(60)]
    assert 1 <= len(reads) < 60
    assert [outcome(run) for run in runs] == found


def test_pages_are_small(engine, reads, monkeypatch):
    monkeypatch.setattr(ended_runs, "PAGE", 4)

    assert [outcome(run) for run in engine.start_many(asked_for_together, range(100, 120))].count(
        "failed"
    ) == 3
    assert max(reads) <= 4


def test_a_run_that_was_replayed_meanwhile_is_read_again(engine, monkeypatch):
    monkeypatch.setattr(ended_runs, "FRESH", 60.0)
    waits = internals(engine).ended_runs
    failing, *others = engine.start_many(asked_for_together, [3, 4, 5])
    wait_until(engine, lambda: len(waits._ended) == 3)
    assert [outcome(run) for run in others] == [4, 5]
    assert failing.id in waits._read
    engine.replay(failing.id, from_step="tried")

    assert failing.result(timeout=60) == 3


def test_an_end_that_is_reported_after_it_was_returned_is_not_read_ahead(engine, monkeypatch):
    monkeypatch.setattr(ended_runs, "FRESH", 60.0)
    waits = internals(engine).ended_runs
    reported = []
    monkeypatch.setattr(waits, "is_held", lambda run_id: False)
    internals(engine).notifier.on_commit.remove(waits.committed)
    internals(engine).notifier.on_commit.append(reported.append)
    first, second = engine.start_many(asked_for_together, [1, 2])
    wait_until(engine, lambda: first.status == second.status == "completed")
    assert first.result(timeout=60) == 1
    for hints in reported:
        waits.committed(hints)

    assert second.result(timeout=60) == 2
    assert first.id not in waits._read


def test_what_nobody_asks_for_is_forgotten(engine, monkeypatch):
    monkeypatch.setattr(ended_runs, "MOST", 5)
    runs = engine.start_many(asked_for_together, range(20))

    assert [outcome(run) for run in runs if run.id] == [
        "failed" if n % 7 == 3 else n for n in range(20)
    ]
    assert len(internals(engine).ended_runs._expected) <= 5


@pytest.mark.parametrize("is_held", [True, False])
def test_a_run_at_work_in_this_process_is_read_when_it_has_ended(engine, monkeypatch, is_held):
    monkeypatch.setitem(notifier.REPORTED, ResultReady, Pauses(60.0, 1.0, 60.0))
    looks = []
    client, waits = internals(engine).client, internals(engine).ended_runs
    get, fetch = client.get, waits.fetch
    monkeypatch.setattr(client, "get", lambda run_id: (looks.append(run_id), get(run_id))[1])
    monkeypatch.setattr(
        waits,
        "fetch",
        lambda run_id, read: (found := fetch(run_id, read)) and (looks.append(run_id), found)[1],
    )
    run = engine.start(waiting_for_release)
    wait_until(engine, lambda: waits.is_held(run.id))  # the worker adopts it after the commit
    if not is_held:
        monkeypatch.setattr(waits, "is_held", lambda run_id: False)
    with ThreadPoolExecutor() as pool:
        result = pool.submit(run.result, timeout=60)
        wait_until(
            engine,
            lambda: (
                internals(engine).notifier.has_listener(ResultReady(run.id)) and (is_held or looks)
            ),
        )
        seen_before_the_end = list(looks)
        release.set()

        assert result.result(timeout=60) == "released"
    assert seen_before_the_end == ([] if is_held else [run.id])


def test_the_same_without_blocking(database):
    async def main():
        async with AsyncEngine(database, shutdown_timeout=1) as engine:
            runs = await engine.start_many(asked_for_together, [1, 2, 4])
            return await asyncio.gather(*(run.result() for run in runs))

    assert asyncio.run(main()) == [1, 2, 4]
