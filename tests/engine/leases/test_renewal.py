"""Leases that renew by themselves while they are held."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import AsyncEngine, Engine
from holdfast.connect import lease_renewal
from holdfast.errors import LeaseLost
from tests.engine.waiting import one_lease as one
from tests.engine.waiting import until


def pass_time(clock, seconds):
    for _ in range(seconds // 10):
        clock.advance("10s")


def test_a_lease_is_renewed_while_it_is_held(idle, holder, clock):
    run = idle.start("render", 1)
    lease = one(holder)

    pass_time(clock, 120)

    assert lease.healthy
    assert lease.complete(7).status == "completed"
    assert [event.kind for event in run.history()] == ["run_completed"]


def test_a_lease_is_not_renewed_if_that_is_switched_off(idle, clock):
    idle.start("render", 1)
    holder = idle.tasks.worker("render-1", workflows=["render"], renew=False)
    lease = one(holder)

    pass_time(clock, 40)

    assert not lease.healthy
    with pytest.raises(LeaseLost):
        lease.complete()


def test_the_renewal_stops_when_the_last_lease_has_ended(idle, holder, clock):
    for ends in (lambda lease: lease.complete(), lambda lease: lease.delay("1h")):
        idle.start("render", 1)
        lease = one(holder)
        ends(lease)
        assert not lease.healthy

        pass_time(clock, 40)

        assert [view.state for view in idle.workers.list()] == ["gone"]


def test_completions_together_end_the_renewal_too(idle, holder, clock):
    idle.start("render", 1)
    holder.complete_all([(lease, 7) for lease in holder.claim()])

    pass_time(clock, 40)

    assert [view.state for view in idle.workers.list()] == ["gone"]


def test_the_holder_is_told_of_a_lost_lease(idle, holder, clock, caplog):
    runs = [idle.start("render", number) for number in range(2)]
    lost, kept = holder.claim(2)
    idle.tasks.revoke(lost.run_id)

    clock.advance("11s")

    assert (lost.healthy, kept.healthy) == (False, True)
    assert f"run='{lost.run_id}'" in caplog.text
    idle.workers.remove("render-1")
    clock.advance("11s")
    assert not kept.healthy
    assert {run.status for run in runs} == {"pending"}


def test_a_lease_that_was_continued_by_its_proof_is_renewed_on_request(idle, clock):
    idle.start("render", 1)
    holder = idle.tasks.worker("render-1", workflows=["render"], renew=False)
    proof = one(holder).proof
    lease = idle.tasks.lease(proof, renew=True)

    pass_time(clock, 60)

    assert lease.complete().status == "completed"


def test_an_asynchronous_lease_renews_too(database, clock):
    async def main():
        async with AsyncEngine(database, work=False, clock=clock) as engine:
            await engine.start("render", 1)
            async with engine.tasks.worker(workflows=["render"]) as worker:
                (lease,) = await worker.claim()
                await asyncio.to_thread(pass_time, clock, 60)
                return lease.healthy, (await lease.complete()).status

    assert asyncio.run(main()) == (True, "completed")


def test_a_thread_renews_the_leases_in_real_time(database, monkeypatch):
    monkeypatch.setattr(lease_renewal, "PER_LIFETIME", 3000)  # soon, and long before the end
    with Engine(database, work=False) as engine:
        engine.start("render", 1)
        with engine.tasks.worker(workflows=["render"], ttl="5m") as holder:
            lease = one(holder)
            session = engine.workers.list()[0]
            until(lambda: engine.workers.list()[0].expires_at > session.expires_at)
            assert lease.complete().status == "completed"
