"""Waits whose time is up."""

from __future__ import annotations

import pytest

from holdfast import Engine, workflow
from holdfast.errors import RunCancelled, RunExpired, RunFailed, WaitTimeout
from holdfast.waits import any_of, create_wait, wait_for
from tests.engine.waiting import wait_until
from tests.engine.waits.workflows import callback, order_desk, order_desk_plain, parked, undone


def test_time_that_is_up_fails_a_wait(database, clock):
    with Engine(database, clock=clock) as engine:
        run = parked(engine, order_desk)
        run.signal("paid")
        clock.advance("3d")
        with pytest.raises(RunFailed, match="WaitTimeout") as failed:
            run.result(timeout=20)
    assert (
        failed.value.error["facts"]["missing"]
        == "any of ('shipped', 2 distinct sources of 'vote', 0 so far)"
    )


def test_a_workflow_may_catch_the_timeout(database, clock):
    @workflow
    async def patient() -> str:
        try:
            await wait_for("word", timeout="1h")
        except WaitTimeout as error:
            return str(error.facts["waited_for"])
        return ""

    with Engine(database, clock=clock) as engine:
        run = parked(engine, patient)
        clock.advance("1h")
        assert run.result(timeout=20) == "'word'"


@pytest.mark.parametrize(
    ("on_timeout", "raised"), [("cancel", RunCancelled), ("expire", RunExpired)]
)
def test_time_that_is_up_may_end_the_run_which_undoes_what_it_did(
    database, clock, on_timeout, raised
):
    undone.clear()
    with Engine(database, clock=clock) as engine:
        run = parked(engine, order_desk, "3d", on_timeout)
        clock.advance("3d")
        with pytest.raises(raised, match=r"the wait .* timed out, missing: "):
            run.result(timeout=20)
        assert undone == [on_timeout]
        assert engine.waits.list(run.id)[0].closed_by == "timeout"


@pytest.mark.parametrize("desk", [order_desk, order_desk_plain], ids=["async", "plain"])
def test_time_that_is_up_may_let_the_run_go_on_with_what_has_come(database, clock, desk):
    with Engine(database, clock=clock) as engine:
        run = parked(engine, desk, "3d", "continue")
        run.signal("vote", 1, source="ann")
        clock.advance("3d")
        assert run.result(timeout=20) == ["timeout", [[1, "vote", 1, "ann"]]]


def test_time_that_is_up_may_put_the_wait_to_a_person(database, clock):
    with Engine(database, clock=clock) as engine:
        run = parked(engine, order_desk, "3d", "escalate")
        clock.advance("3d")
        wait_until(engine, lambda: engine.waits.list(escalated=True))
        assert run.status == "waiting"
        why = engine.why(run.id)
        assert (why.blockers[0].kind, why.remedy) == ("person", f"holdfast waits release {run.id}")
        assert "it has needed an operator since" in why.reason
    clock.advance("300d")
    with Engine(database, clock=clock) as engine:
        run = engine.run(run.id)
        run.signal("shipped")
        run.signal("paid")
        assert run.result(timeout=20)[0] == "signals"
        assert [event.kind for event in run.history()].count("wait_escalated") == 1


def test_the_deadline_counts_from_the_opening_whoever_waits(database, clock):
    with Engine(database, clock=clock) as engine:
        run = parked(engine, order_desk, "3d", "continue")
    for _ in range(2):
        clock.advance("1d")
        with Engine(database, clock=clock) as engine:
            engine.signal(run.id, "paid")
    clock.advance("1d")
    with Engine(database, clock=clock) as engine:
        assert engine.run(run.id).result(timeout=20)[0] == "timeout"


def test_a_wait_that_can_no_longer_be_met_is_given_up_when_that_is_known(database, clock):
    with Engine(database, clock=clock) as engine:
        run = parked(engine, callback, "2d", "9d")
        clock.advance("2d")
        with pytest.raises(RunFailed, match="WaitTimeout"):
            run.result(timeout=20)


def test_another_way_keeps_hope_alive(database, clock):
    @workflow
    async def either() -> object:
        wait = await create_wait("callback", expires="2d")
        return (await wait_for(any_of(wait, "word"), timeout="9d")).payload

    with Engine(database, clock=clock) as engine:
        run = parked(engine, either)
        clock.advance("3d")
        run.signal("word", 7)
        assert run.result(timeout=20) == 7
