"""The numbers that an engine keeps about its work, and the state of its database in numbers."""

from __future__ import annotations

import sys

import pytest

from holdfast import Fail, gate, step, workflow
from holdfast.connect.gauges import gauges
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import RunRecord
from holdfast.core.status import Status
from holdfast.engine.runtime import metrics
from holdfast.engine.runtime.metrics import EngineMetrics, Histogram
from tests.engine.waiting import until, wait_until

TRIES: list[int] = []


@step(retries=1)
async def counted_step(fails: bool) -> int:
    TRIES.append(1)
    if len(TRIES) == 1:
        raise ValueError("the first try fails")
    if fails:
        raise Fail("no")
    return 1


@workflow
async def counted_run(fails: bool = False) -> int:
    return await counted_step(fails)


@workflow
async def asks_someone() -> bool:
    return bool(await gate("Go on?"))


def numbers_of(engine):
    return engine._calls.open().writer.metrics


def test_steps_and_runs_are_counted_by_outcome(engine):
    TRIES.clear()
    engine.start(counted_run).result(timeout="30s")
    engine.start(counted_run, True).wait_until("failed", timeout="30s")
    # A commit is counted after it is visible: before a later run begins.
    engine.start(asks_someone).wait_until("waiting", timeout="30s")

    numbers = numbers_of(engine)

    assert numbers.steps == {
        ("default", "counted_run", "counted_step", "retried"): 1,
        ("default", "counted_run", "counted_step", "completed"): 1,
        ("default", "counted_run", "counted_step", "failed"): 1,
    }
    assert numbers.runs_ended == {
        ("default", "counted_run", "completed"): 1,
        ("default", "counted_run", "failed"): 1,
    }
    assert sum(numbers.step_seconds["default", "counted_run", "counted_step"].counts) == 3
    assert sum(numbers.start_to_first_step.counts) == 2
    # The last commit is visible before both have counted it.
    until(lambda: sum(numbers.commit_seconds.counts) == sum(numbers.commit_size.counts) > 2)


def test_the_state_of_the_database_is_told_in_numbers(engine):
    run = engine.start(asks_someone)
    run.wait_until("waiting", timeout="30s")
    engine.lanes.set("default", concurrency=7)
    engine.budgets.set("tokens", {"tokens": 100})
    engine.schedules.set("later", asks_someone, interval="1d")
    wait_until(engine, lambda: engine.gates.list())

    state = gauges(engine._calls.open())

    assert state.runs["default", "waiting"] == 1 and state.runs["default", "pending"] == 0
    assert {status for _, status in state.runs} == {s.value for s in Status} - {
        "completed",
        "failed",
        "cancelled",
        "expired",
        "skipped",
    }
    assert state.open_gates == {"default": 1}
    assert state.workers == {"alive": 1}
    assert state.lanes["default"] == (0, 7)
    assert state.budgets == {"tokens": {"tokens": 0.0}}
    assert state.schedules_late == {("default", "later"): 0.0}
    assert state.database_size is None or state.database_size > 0


def test_the_oldest_ready_run_is_told_by_lane(idle, clock):
    idle.start(asks_someone, lane="slow", priority=5)
    clock.advance("90s")
    idle.start(asks_someone, lane="slow")

    ready = gauges(idle._calls.open()).ready_oldest

    assert ready == {("default", "slow"): pytest.approx(90, abs=1)}


def record(workflow="w", namespace="default"):
    return RunRecord(
        id="r",
        namespace=namespace,
        workflow=workflow,
        version="1",
        lane="default",
        capabilities=(),
        status=Status.RUNNING,
        priority=0,
        input=b"[]",
        generation=1,
        revision=0,
        crashes=0,
        created_at=0,
    )


def completed(step, seq=2):
    return Event(EventKind.STEP_COMPLETED, step, started_at=5, at=10, seq=seq)


def test_calls_of_one_step_are_counted_together_in_every_branch():
    numbers = EngineMetrics()

    numbers.committed(record(), [completed("pack"), completed("pack#2"), completed("line#3/pack")])

    assert numbers.steps == {("default", "w", "pack", "completed"): 3}


def test_the_number_of_names_is_limited(monkeypatch):
    monkeypatch.setattr(metrics, "MOST_WORKFLOWS", 2)
    monkeypatch.setattr(metrics, "MOST_STEPS", 3)
    numbers = EngineMetrics()

    for name in "abcd":
        numbers.committed(record(name), [completed("x"), completed("y")])
    numbers.committed(record("a", namespace="new"), [completed("x")])

    assert {key[:2] for key in numbers.steps} == {
        ("default", "a"),
        ("default", "b"),
        ("other", "other"),
    }
    assert sum(numbers.steps.values()) == 9
    assert ("default", "b", "other", "completed") in numbers.steps


def test_a_histogram_counts_each_value_once():
    histogram = Histogram((1, 2))

    for value in (0.5, 1, 1.5, 99):
        histogram.observe(value)

    assert histogram.counts == [2, 1, 1]
    assert histogram.total == 102


def test_the_numbers_cost_a_step_few_calls():
    """A step costs about 80 calls of Python functions; these are two of them."""
    numbers = EngineMetrics()
    numbers.committed(record(), [completed("pack")])
    run = record()
    events = [completed("pack#2")]
    calls = []

    def count(frame, event, arg):
        if event == "call":
            calls.append(frame.f_code.co_name)

    sys.setprofile(count)
    try:
        numbers.committed(run, events)
    finally:
        sys.setprofile(None)

    assert calls == ["committed", "count_step"]
