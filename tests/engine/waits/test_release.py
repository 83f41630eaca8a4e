"""Waits, timers and retries that a person ends, and how they are explained."""

from __future__ import annotations

import pytest

from holdfast import Engine, gather, now, sleep, step, wait_signal, workflow
from holdfast.errors import BadOption, RunFinished, WaitNotFound
from holdfast.testing import internals
from holdfast.views.values import instant
from holdfast.waits import wait_for
from tests.engine.waiting import wait_until
from tests.engine.waits.workflows import callback, handed_out, order_desk, parked

DAY = 86_400_000_000


def test_a_person_lets_a_wait_go(engine):
    run = parked(engine, callback)

    assert engine.waits.release(run.id, payload="never mind", by="ann") == "wait"
    assert run.result(timeout=20) == ["release", "never mind", "ann"]
    assert [wait.closed_by for wait in engine.waits.list(run.id)] == ["a person", "a person"]


def test_of_several_waits_a_person_chooses_one(engine):
    @workflow
    async def both() -> list[str]:
        return [found.how for found in await gather(wait_for("a"), wait_for("b"))]

    run = parked(engine, both)
    with pytest.raises(BadOption, match="waits for several things"):
        engine.waits.release(run.id)
    steps = sorted(wait.step for wait in engine.waits.list(run.id))
    engine.waits.release(run.id, step=steps[1])
    run.signal("a")
    assert run.result(timeout=20) == ["signals", "release"]


def test_a_person_wakes_a_run_that_sleeps(engine):
    @workflow
    async def sleeps_long() -> int:
        began = now()
        await gather(sleep("30d"), sleep("60d"))
        return (now() - began).days

    run = parked(engine, sleeps_long)
    with pytest.raises(BadOption, match="waits for several things"):
        engine.waits.release(run.id)
    assert engine.why(run.id).remedy == f"holdfast waits release {run.id} --step sleep"
    engine.waits.release(run.id, step="sleep", by="ann")
    wait_until(
        engine,
        lambda: [wait["step"] for wait in run.record.waits] == ["sleep#2"],
    )
    engine.waits.release(run.id)
    assert run.result(timeout=20) == 0


def test_a_person_lets_a_step_try_again_at_once(engine):
    tries = []

    @step(retries=3, delay="30d", cap="60d", jitter=0.0)
    async def stubborn() -> int:
        tries.append(len(tries))
        if len(tries) < 3:
            raise ConnectionError("no line")
        return len(tries)

    @workflow
    async def calls_until_heard() -> int:
        return await stubborn.aio()

    run = parked(engine, calls_until_heard)
    for attempt in (2, 3):
        wait_until(engine, lambda: run.status == "waiting" and len(tries) == attempt - 1)  # noqa: B023
        why = engine.why(run.id)
        assert (why.blockers[0].kind, why.remedy) == ("retry", f"holdfast waits release {run.id}")
        assert f"attempt {attempt} begins at" in why.reason
        assert engine.waits.release(run.id, by="ann") == "stubborn"
    assert run.result(timeout=20) == 3
    assert internals(engine).store.signals.of_run(run.id) == []


def test_what_is_no_wait_cannot_be_let_go(engine):
    @workflow
    async def simple() -> None:
        await wait_signal("go")

    run = parked(engine, simple)
    with pytest.raises(WaitNotFound, match="plain wait"):
        engine.waits.release(run.id)
    with pytest.raises(WaitNotFound):
        engine.waits.release(run.id, step="signal go")
    with pytest.raises(WaitNotFound):
        engine.waits.token("none")


def test_why_tells_what_is_met_what_is_missing_and_how_to_end_it(database, clock):
    with Engine(database, clock=clock) as engine:
        began = clock.now()
        run = parked(engine, order_desk)
        run.signal("vote", source="ann")
        why = engine.why(run.id)
        assert why.remedy == f"holdfast signal {run.id} paid"
        run.signal("paid")
        why = engine.why(run.id)
    assert "it waits for any of ('shipped', 2 distinct sources of 'vote', 1 so far)" in why.reason
    assert "'paid' has come; it gives up at" in why.reason
    assert why.remedy == f"holdfast signal {run.id} shipped"
    assert why.blockers[0].until == instant(began + 3 * DAY)


def test_why_names_the_wait_that_a_signal_must_go_to(engine):
    run = parked(engine, callback)
    wait_id, _ = handed_out(engine, run)

    remedy = engine.why(run.id).remedy

    assert remedy == f"holdfast signal {run.id} callback --wait {wait_id}"
    run.signal("nothing")
    assert engine.signal(run.id, "callback", 3, wait=wait_id)
    assert run.result(timeout=20) == ["signals", 3, None]


@workflow(name="begins_when_let")
async def begins_when_let(x: int) -> int:
    return x


def test_a_run_that_was_put_off_begins_when_a_person_lets_it(engine):
    run = engine.start(begins_when_let, 7, delay="30d")
    gathered = engine.start(begins_when_let, 8, key="doc", debounce="30d")
    assert engine.why(run.id).remedy == f"holdfast waits release {run.id}"

    assert engine.waits.release(run.id, by="ann") == ""
    assert engine.waits.release(gathered.id) == ""

    assert (run.result(timeout=20), gathered.result(timeout=20)) == (7, 8)
    assert [event.kind for event in run.history()] == ["run_released", "run_completed"]
    with pytest.raises(RunFinished):
        engine.waits.release(run.id, step="")


def test_a_run_whose_priority_was_changed_before_it_began_begins(engine):
    run = engine.start(begins_when_let, 7, delay="30d")
    assert engine.tasks.prioritise(run.id, 5) == 0
    engine.waits.release(run.id)
    assert run.result(timeout=20) == 7
    assert [event.kind for event in run.history()] == [
        "priority_changed",
        "run_released",
        "run_completed",
    ]
