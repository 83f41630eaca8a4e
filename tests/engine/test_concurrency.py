"""A worker keeps to its concurrency, however runs become leased to it."""

from __future__ import annotations

import asyncio
import threading

import pytest

import holdfast
from holdfast import Engine, Graph, step, wait_signal, workflow
from holdfast.engine.runtime.capacity import Capacity
from holdfast.store.runs.operations import Claim
from holdfast.testing import internals
from tests.engine.waiting import wait_until

LIMIT = 4
RUNS = 30


class Meter:
    """Count how many are inside at once, and the most that ever were."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0
        self.passed = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)

    def __exit__(self, *exc) -> None:
        with self._lock:
            self.inside -= 1
            self.passed += 1


meter = Meter()
doors = threading.Event()


@pytest.fixture(autouse=True)
def fresh_meter(monkeypatch):
    monkeypatch.setitem(globals(), "meter", Meter())
    doors.clear()


@pytest.fixture
def small(database):
    with Engine(database, shutdown_timeout=1, concurrency=LIMIT) as engine:
        yield engine
        assert engine.database.check() == []


async def turns(count: int = 20) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(count):
        turn = loop.create_future()
        loop.call_soon(turn.set_result, None)
        await turn


@workflow
async def metered(n: int = 0) -> int:
    return await weigh(n)


@step
async def weigh(n: int) -> int:
    with meter:
        await turns()
    return n


@workflow
def metered_thread(n: int) -> int:
    return weigh_thread(n)


@step
def weigh_thread(n: int) -> int:
    with meter:
        assert doors.wait(60)
    return n


@workflow
async def mapping() -> int:
    return len(await holdfast.map(metered, range(RUNS)))


@workflow
async def gathering() -> int:
    children = [await holdfast.start(metered, n) for n in range(RUNS)]
    return len(await holdfast.gather(*(child.result() for child in children)))


@workflow
async def hearing_metered(n: int) -> int:
    await wait_signal("go")
    return await weigh(n)


def test_many_started_at_once_do_not_exceed_it(small):
    runs = small.start_many(metered, range(RUNS))

    assert [run.result(timeout=30) for run in runs] == list(range(RUNS))
    assert 1 <= meter.most <= LIMIT


def test_runs_started_by_several_threads_do_not_exceed_it(small):
    def start() -> None:
        for n in range(RUNS // 3):
            small.start(metered, n)

    threads = [threading.Thread(target=start) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    wait_until(small, lambda: meter.passed == RUNS)
    assert 1 <= meter.most <= LIMIT


def test_blocking_workflows_do_not_exceed_the_threads(database):
    with Engine(database, shutdown_timeout=1, threads=3) as engine:
        runs = engine.start_many(metered_thread, range(RUNS))
        assert [run.status for run in runs].count("running") == 3
        doors.set()

        assert [run.result(timeout=30) for run in runs] == list(range(RUNS))
    assert 1 <= meter.most <= 3


@pytest.mark.parametrize("parent", [mapping, gathering])
def test_children_do_not_exceed_it(small, parent):
    assert small.start(parent).result(timeout=30) == RUNS
    assert 1 <= meter.most <= LIMIT


def test_members_of_a_graph_do_not_exceed_it(small):
    graph = Graph()
    first = graph.add(metered, 0, name="first")
    for n in range(RUNS):
        middle = graph.add(metered, n, name=f"middle{n}").after(first)
        graph.add(metered, n, name=f"last{n}").after(middle)
        graph.add(metered, n, name=f"root{n}")

    small.graphs.start(graph).result(timeout=30)

    assert 1 <= meter.most <= LIMIT


def test_runs_that_wake_together_do_not_exceed_it(small):
    runs = small.start_many(hearing_metered, range(RUNS))
    wait_until(small, lambda: all(run.status == "waiting" for run in runs))

    for run in runs:
        run.signal("go")

    assert [run.result(timeout=30) for run in runs] == list(range(RUNS))
    assert 1 <= meter.most <= LIMIT


def test_a_place_that_a_claim_may_lease_is_not_taken_by_a_run_that_wakes():
    capacity = Capacity(
        2, 2, {"held": object(), "waiting": (waiting := object())}, dict, lambda: None
    )
    capacity.rests(waiting)
    claim = Claim("session", [], 5)

    assert capacity.before([claim]) and claim.limit == 1
    assert not capacity.take_place(waiting)

    capacity.after([claim], [[]])
    assert capacity.take_place(waiting)
    assert not capacity.is_exceeded()


def test_runs_that_wait_let_others_in_at_once(database):
    with Engine(database, shutdown_timeout=1, concurrency=LIMIT, poll=600) as engine:
        runs = engine.start_many(hearing_metered, range(RUNS))

        wait_until(engine, lambda: all(run.status == "waiting" for run in runs))


def test_a_run_whose_starter_is_gone_is_found(database):
    with Engine(database, shutdown_timeout=1, concurrency=1, session_ttl=3) as engine:
        runs, request = internals(engine).starts.start(
            metered, (7,), {}, {}, internals(engine).lease
        )
        (started,) = internals(engine).writer.call(request.op)
        assert started.leased
        assert internals(engine).worker.capacity.room() == 0  # it is found after a second or two

        assert engine.run(runs[0].id).result(timeout=30) == 7

        assert engine.start(metered, 8).result(timeout=30) == 8


def test_a_refused_start_leaves_its_place_free(small):
    small.start(metered, 1, id="taken").result(timeout=30)
    for _ in range(3 * LIMIT):
        with pytest.raises(holdfast.errors.RunExists):
            small.start(metered, 2, id="taken")

    assert small.start(metered, 3).result(timeout=30) == 3
    wait_until(small, lambda: internals(small).worker.capacity.room() == LIMIT)
    assert internals(small).worker.capacity._arriving == {}
