"""What the hot path costs in statements, transactions and Python calls: it does not depend on the
machine, so a change that makes it longer is seen. `test_cost_postgres.py` counts round trips."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast import AsyncEngine, Engine, step, wait_signal, workflow
from holdfast.store.postgres import clock, notifier
from holdfast.testing import internals


@step
async def cheap(n: int) -> int:
    return n


@workflow
async def counted(steps: int) -> int:
    for n in range(steps):
        await cheap(n)
    return steps


@workflow(name="counted_signal")
async def awaiting() -> int:
    return await wait_signal("go")


@pytest.fixture
def statements(tmp_path):
    """Return a function that runs the workflow of *n* steps and tells what was said to the database
    meanwhile."""
    with Engine(tmp_path / "cost.db", poll="1h", session_ttl="1h", driver="sqlite3") as engine:
        engine.start(counted, 1).result(timeout=20)
        said: list[str] = []
        internals(engine).store.database._db.raw.set_trace_callback(said.append)

        def once(n: int) -> list[str]:
            said.clear()
            engine.start(counted, n).result(timeout=60)
            return [
                statement.split()[0]
                for statement in said
                if not statement.startswith("PRAGMA data_version")
            ]

        def run(n: int) -> list[str]:
            """Of three times, the one in which the worker did the least besides."""
            return min((once(n) for _ in range(3)), key=len)

        yield run
        internals(engine).store.database._db.raw.set_trace_callback(None)


START = ["BEGIN", "SELECT", "INSERT", "COMMIT"]
STEP = ["INSERT"]  # which begins and commits by itself
LAST_STEP_AND_END = ["BEGIN", "UPDATE", "INSERT", "INSERT", "COMMIT"]


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_run_is_one_transaction_per_step_and_one_more(statements, steps):
    assert statements(steps) == START + STEP * (steps - 1) + LAST_STEP_AND_END


def test_step_three_hundred_costs_what_step_three_does(statements):
    assert len(statements(300)) == len(START) + 299 * len(STEP) + len(LAST_STEP_AND_END)


PACKAGE = os.path.dirname(holdfast.__file__)

MOST_CALLS = {
    "sqlite": {"start": 206, "step": 86, "loop": 108, "signal": 94, "end": 226, "run": 580},
    "postgres": {"start": 246, "step": 106, "loop": 126, "signal": 112, "end": 250, "run": 650},
}
"""How many functions of the package are called per single start, per step of a sequence (of an
``AsyncEngine``: on its *loop*), per signal, and per run among many, from its start to its *end*: a
*run* has five steps. They are a little more than today, because the turns of the loop vary."""

QUIET: dict[str, Any] = dict.fromkeys(
    ("poll", "session_ttl", "poll_interval", "idle_poll_interval"), "1h"
)
"""Settings with which a worker does nothing besides."""


@pytest.fixture
def most(database, monkeypatch):
    """Return the limits of this database, on which nothing happens by itself."""
    monkeypatch.setattr(clock, "EVERY", 3_600_000_000)
    monkeypatch.setattr(notifier, "LOOK_EVERY", 3600.0)
    return MOST_CALLS["postgres" if database.startswith("postgres") else "sqlite"]


@pytest.fixture
def calls():
    """Count the calls of functions of the package, in this thread and in those that begin."""
    counted: Counter[str] = Counter()

    def profile(frame, event, _) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            counted[frame.f_code.co_qualname] += 1

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield counted
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def per_unit(calls: Counter[str], work: Callable[[int], object], few: int, many: int) -> float:
    """Return the calls that one more unit of work costs: of several times, the least."""

    def least(count: int) -> int:
        totals = []
        for _ in range(3):
            calls.clear()
            work(count)
            totals.append(calls.total())
        return min(totals)

    work(few)
    return (least(many) - least(few)) / (many - few)


def test_a_step_in_sequence_is_a_limited_number_of_calls(database, calls, most):
    with Engine(database, **QUIET) as engine:

        def run(steps: int) -> None:
            engine.start(counted, steps).result(timeout=60)

        assert per_unit(calls, run, 30, 90) <= most["step"]


def test_a_step_on_the_programs_loop_is_a_limited_number_of_calls(database, calls, most):
    async def main() -> float:
        async with AsyncEngine(database, **QUIET) as engine:
            totals = {}
            for steps in (30, 90, 30, 90, 30, 90):
                calls.clear()
                await (await engine.start(counted, steps)).result(timeout=60)
                totals[steps] = min(totals.get(steps, calls.total()), calls.total())
            return (totals[90] - totals[30]) / 60

    assert asyncio.run(main()) <= most["loop"]


@pytest.mark.parametrize(("steps", "limit"), [(0, "end"), (5, "run")])
def test_a_run_among_many_is_a_limited_number_of_calls(database, calls, most, steps, limit):
    with Engine(database, **QUIET) as engine:

        def run(count: int) -> None:
            for each in engine.start_many(counted, [steps] * count):
                each.result(timeout=60)

        assert per_unit(calls, run, 40, 100) <= most[limit]


def test_a_start_and_a_signal_are_a_limited_number_of_calls(database, calls, most):
    engine = Engine(database)  # without a worker: only what the caller does is counted
    ids: list[str] = []

    def start(count: int) -> None:
        ids.extend(engine.start("costed_task", 1).id for _ in range(count))

    def signal(count: int) -> None:
        for _ in range(count):
            engine.signal(ids[0], "go", 1)

    costs = {"start": per_unit(calls, start, 5, 15), "signal": per_unit(calls, signal, 5, 15)}
    engine.close()

    assert {name: cost for name, cost in costs.items() if cost > most[name]} == {}


SIGNAL = ["BEGIN", "SELECT", "INSERT", "UPDATE", "INSERT", "COMMIT"]
WHAT_IT_LEADS_TO = ["BEGIN", "UPDATE", "INSERT", "INSERT", "UPDATE", "COMMIT"]


def test_a_signal_is_one_transaction_and_what_it_leads_to_is_the_next(tmp_path):
    with Engine(tmp_path / "signal.db", driver="sqlite3", **QUIET) as engine:
        told: list[list[str]] = []
        for _ in range(3):
            said: list[str] = []
            run = engine.start(awaiting)
            run.wait_until("waiting", timeout=20)
            internals(engine).store.database._db.raw.set_trace_callback(said.append)
            engine.signal(run.id, "go", 7)
            assert run.result(timeout=20) == 7
            internals(engine).store.database._db.raw.set_trace_callback(None)
            told.append([statement.split()[0] for statement in said])

    assert min(told, key=len) == SIGNAL + WHAT_IT_LEADS_TO
