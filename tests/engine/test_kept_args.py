"""The arguments of steps are recorded on request, and shown."""

from __future__ import annotations

import threading

import pytest

from holdfast import Engine, Fail, compensate, step, task, wait_signal, workflow
from holdfast.authoring.python import step as steps
from holdfast.codecs import Encrypted
from holdfast.errors import BadOption, RunFailed
from holdfast.testing import replay
from tests.engine.databases import execute
from tests.engine.waiting import wait_for


@step(keep_args=True)
async def charge(order: str, *, amount: int = 1) -> str:
    return f"paid {order}"


@step
def pack(order: str) -> str:
    return f"packed {order}"


@step(keep_args=False)
async def secret(word: str) -> None: ...


@step(keep_args=True)
async def refund(order: str) -> None: ...


def args_of(run) -> dict[str, object]:
    return {item.id: item.args for item in run.steps()}


def test_a_step_keeps_its_arguments_if_it_says_so(engine):
    @workflow
    async def flow() -> list[str]:
        await secret("x")
        return [await charge("a", amount=3), await pack.aio("a")]

    run = engine.start(flow)
    run.result(timeout=30)

    assert args_of(run) == {
        "secret": None,
        "charge": {"args": ["a"], "kwargs": {"amount": 3}},
        "pack": None,
    }
    assert [event.kind for event in run.history()] == [
        "step_completed",
        "step_called",
        "step_completed",
        "step_completed",
        "run_completed",
    ]


@pytest.mark.parametrize("kind", ["async def", "def"])
def test_an_engine_keeps_the_arguments_of_all_steps_but_those_that_refuse(database, kind):
    @workflow(name="flow")
    async def flow() -> None:
        await secret("x")
        await charge("a")
        await pack.aio("b")

    @workflow(name="flow")
    def plain() -> None:
        secret.sync("x")
        charge.sync("a")
        pack("b")

    with Engine(database, keep_args=True) as engine:
        run = engine.start(flow if kind == "async def" else plain)
        run.result(timeout=30)

        assert args_of(run) == {
            "secret": None,
            "charge": {"args": ["a"], "kwargs": {}},
            "pack": {"args": ["b"], "kwargs": {}},
        }
        assert engine.database.check() == []


def test_compensations_and_tasks_keep_them_too(engine):
    @task(keep_args=True)
    async def weigh(order: str) -> int:
        return 3

    @workflow
    async def flow() -> None:
        compensate(refund, "a")
        raise Fail("no")

    run = engine.start(flow)
    with pytest.raises(RunFailed):
        run.result(timeout=30)
    other = engine.start(weigh, "b")
    other.result(timeout=30)

    assert args_of(run) == {"undo refund": {"args": ["a"], "kwargs": {}}}
    assert args_of(other) == {"weigh": {"args": ["b"], "kwargs": {}}}


def test_arguments_are_recorded_once_however_often_the_run_is_loaded(database, clock):
    begun = threading.Event()

    @step(keep_args=True, retries=5, delay="1d")
    async def flaky(n: int) -> int:
        begun.set()
        raise ConnectionError("busy")

    @workflow
    async def flow() -> int:
        return await flaky(1)

    with Engine(database, clock=clock, workflows=[flow]) as engine:
        run = engine.start(flow)
        wait_for(engine, run, "waiting")
    for _ in range(2):
        begun.clear()
        clock.advance("40d")
        with Engine(database, clock=clock, workflows=[flow]) as engine:
            assert begun.wait(30)
            wait_for(engine, engine.run(run.id), "waiting")
            kinds = [event.kind for event in engine.run(run.id).history()]

    assert kinds.count("step_called") == 1
    assert kinds.count("step_retried") == 3


def test_a_replayed_step_records_its_new_arguments(engine):
    answers = iter([Fail("first"), None])
    numbers = iter([1, 2])

    @step(keep_args=True)
    async def attempt(n: int) -> None:
        error = next(answers)
        if error is not None:
            raise error

    @workflow
    async def flow() -> None:
        await attempt(next(numbers))

    run = engine.start(flow)
    with pytest.raises(RunFailed):
        run.result(timeout=30)
    engine.replay(run.id)
    engine.run(run.id).result(timeout=30)

    assert args_of(engine.run(run.id))["attempt"] == {"args": [2], "kwargs": {}}


def test_arguments_that_cannot_be_stored_are_described(engine, monkeypatch):
    monkeypatch.setattr(steps, "KEPT_BYTES", 1000)

    class Odd:
        def __repr__(self) -> str:
            return "<odd>"

    @step(keep_args=True)
    async def take(value: object, more: object = None) -> int:
        return 1

    @workflow
    async def flow() -> None:
        await take(Odd(), more=2)
        await take("x" * 2000)

    run = engine.start(flow)
    run.result(timeout=30)

    kept = args_of(run)
    assert kept["take"] == {"args": ["<odd>"], "kwargs": {"more": 2}}
    assert "bytes" in kept["take#2"]["omitted"]


def test_kept_arguments_are_encrypted(database):
    codec = Encrypted({"k1": bytes(range(32))}, "k1")

    @workflow
    async def flow() -> str:
        return await charge("open sesame")

    with Engine(database, codec=codec) as engine:
        run = engine.start(flow)
        run.result(timeout=30)
        assert args_of(run)["charge"]["args"] == ["open sesame"]
    rows = execute(database, "SELECT data FROM holdfast.event WHERE kind = 'step_called'")
    assert len(rows) == 1
    assert b"sesame" not in bytes(rows[0][0])


def test_code_with_kept_arguments_is_replayed_and_judged(database, clock):
    @workflow
    async def flow() -> str:
        paid = await charge("a")
        await wait_signal("go")
        return paid

    with Engine(database, clock=clock, workflows=[flow]) as engine:
        run = engine.start(flow)
        wait_for(engine, run, "waiting")
        (group,) = replay(run, flow).groups.values()
        assert group.verdict == "waits"
    with Engine(database, clock=clock, workflows=[flow]) as engine:
        engine.signal(run.id, "go")
        assert engine.run(run.id).result(timeout=30) == "paid a"


def test_the_option_is_a_flag(database):
    with pytest.raises(BadOption, match="keep_args"):
        step(keep_args="yes")(lambda: None)
    with pytest.raises(BadOption, match="keep_args"):
        Engine(database, keep_args="yes")
