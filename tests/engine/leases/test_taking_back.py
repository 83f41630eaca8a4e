"""Leases that are lost, expire, are revoked or overridden."""

from __future__ import annotations

import pytest

from holdfast import Engine
from holdfast.errors import LeaseLost, RunExpired, RunFailed, RunFinished
from holdfast.service.tasks.lease_state import RunEnded
from tests.engine.waiting import one_lease as one


def test_why_counts_who_can_take_a_task(idle):
    run = idle.start("render", 1, lane="gpu")
    with idle.tasks.worker("elsewhere", lanes=["cpu"]):
        assert "no live worker serves the lane gpu" in idle.why(run.id).reason
        with idle.tasks.worker("render-7", workflows=[], lanes=["gpu"]) as leases:
            assert idle.why(run.id).reason.startswith(
                "it is ready: worker render-7 (a holder of leases on "
            )
            assert [lease.run.id for lease in leases.claim()] == [run.id]


def test_whoever_does_not_renew_loses_what_it_holds(idle, clock):
    idle.start("render", 1)
    slow = idle.tasks.worker("slow", workflows=["render"], ttl="10s", renew=False)
    lease = one(slow)
    clock.advance("6s")
    lease.renew()
    clock.advance("6s")
    with idle.tasks.worker("quick", workflows=["render"]) as quick:
        assert quick.claim() == []
        clock.advance("5s")
        again = one(quick)
        for late in (lease.complete, lease.renew, slow.renew):
            with pytest.raises(LeaseLost):
                late()
        assert again.complete() == RunEnded("completed")


def test_what_is_held_goes_back_at_the_end(idle, holder):
    idle.start("render", 1)
    with idle.tasks.worker(workflows=["render"]) as leases:
        one(leases)
    assert one(holder).attempt == 1


def test_an_attempt_that_takes_too_long_is_taken_back_by_any_worker(database, clock):
    with (
        Engine(database, clock=clock) as engine,
        engine.tasks.worker(workflows=["render"], ttl="1d") as leases,
    ):
        run = engine.start("render", 1, policy={"timeout": "1m"})
        lease = one(leases)
        clock.advance("1m")
        with pytest.raises(RunFailed, match="too long"):
            run.result(timeout="20s")
        with pytest.raises(LeaseLost):
            lease.complete()


def test_a_run_that_is_past_its_deadline_is_taken_from_its_holder(idle, clock):
    held, waiting = (idle.start("render", number, deadline="1h") for number in range(2))
    with (
        idle.tasks.worker("slow", workflows=["render"], ttl="1d") as slow,
        idle.tasks.worker("quick", workflows=["render"]) as quick,
    ):
        first, second = slow.claim(2)
        second.suspend("go")
        clock.advance("1h")
        (asked,) = quick.claim()  # it may undo what it did
        assert (asked.run.id, asked.cancel_reason) == (waiting.id, "deadline")
        assert asked.cancel() == RunEnded("expired")
        assert (held.status, waiting.status) == ("expired", "expired")
        with pytest.raises(LeaseLost):
            first.complete()


def test_operators_take_back_change_priorities_and_override(idle, holder):
    first, second = idle.start("render", 1), idle.start("render", 2)
    lease = one(holder)

    assert idle.tasks.revoke(first.id) is True
    assert idle.tasks.revoke(first.id) is False
    with pytest.raises(LeaseLost):
        lease.complete()
    assert idle.tasks.prioritise(second.id, 5) == 0
    assert one(holder).run.id == second.id
    assert idle.tasks.override(second.id, "done by hand", result=7) == "completed"
    assert second.result() == 7
    assert idle.tasks.override(first.id, "given up", failed=True) == "failed"
    with pytest.raises(RunFailed, match="given up"):
        first.result()
    with pytest.raises(RunFinished):
        idle.tasks.override(first.id, "again")


def test_a_revoked_lease_counts_as_a_reclaim(idle, holder):
    run = idle.start("render", 1, policy={"reclaims": 0})
    one(holder)
    assert idle.tasks.revoke(run.id) is True

    assert list(holder.claim()) == []
    assert run.status == "failed"


def test_a_lease_that_was_revoked_before_a_wait_counts_as_a_reclaim_after_it(idle, holder):
    run = idle.start("render", 1, policy={"reclaims": 1})
    one(holder)
    idle.tasks.revoke(run.id)
    one(holder).suspend("go")
    idle.signal(run.id, "go")
    one(holder)
    idle.tasks.revoke(run.id)

    assert list(holder.claim()) == []
    assert run.status == "failed"


def test_holders_of_leases_do_not_keep_workers_from_their_duties(database, clock):
    idle = Engine(database, clock=clock)
    with (
        idle.tasks.worker(workflows=["render"], ttl="1d"),
        idle.tasks.worker(workflows=["render"], ttl="1d"),
    ):
        run = idle.start("render", 1, deadline="1h")
        with Engine(database, clock=clock):
            clock.advance("1h")
            with pytest.raises(RunExpired):
                run.result(timeout="20s")
    idle.close()


def test_the_next_tick_of_a_schedule_waits_for_the_end_of_a_leased_run(database, clock):
    with (
        Engine(database, clock=clock) as engine,
        engine.tasks.worker(workflows=["render"], ttl="1d") as leases,
    ):
        engine.schedules.set("often", "render", interval="1m", overlap="queue")
        clock.advance("1m")
        (first,) = leases.claim(wait="20s")
        clock.advance("1m")
        assert leases.claim() == []
        first.complete()
        (second,) = leases.claim(wait="20s")
        second.cancel()
