"""Proofs of leases: whatever is done with one that is stale, forged or has run out is refused by
name, and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import AsyncEngine, Engine
from holdfast.errors import BadOption, LeaseLost
from holdfast.service.tasks.lease_state import RunEnded
from holdfast.testing import internals
from tests.engine.waiting import one_lease as one

CALLS: dict[str, Callable[[Any], Any]] = {
    "renew": lambda lease: lease.renew(),
    "progress": lambda lease: lease.progress(5),
    "emit": lambda lease: lease.emit(1),
    "complete": lambda lease: lease.complete(1),
    "fail": lambda lease: lease.fail("permanent", "x"),
    "delay": lambda lease: lease.delay("5m"),
    "create_wait": lambda lease: lease.create_wait("ok"),
    "suspend": lambda lease: lease.suspend("go"),
    "cancel": lambda lease: lease.cancel(),
}


def stands(engine: Engine, run_id: str) -> tuple[Any, ...]:
    """What nobody may have changed."""
    run, history = engine.run(run_id), [event.kind for event in engine.run(run_id).history()]
    record = run.record
    return (
        record.status,
        record.generation,
        record.session_id,
        history,
        engine.streams.progress(run_id),
        engine.streams.list(run_id),
    )


@pytest.mark.parametrize("call", CALLS)
def test_what_is_done_with_a_wrong_proof_is_refused_by_name_and_changes_nothing(idle, clock, call):
    def refused(proof: str, why: str) -> None:
        before = stands(idle, run.id)
        expires = [session.expires_at for session in idle.workers.list()]
        with pytest.raises(LeaseLost, match=why):
            CALLS[call](idle.tasks.lease(proof))
        assert stands(idle, run.id) == before
        assert [session.expires_at for session in idle.workers.list()] == expires

    run = idle.start("prove", 1)
    holder, other = (idle.tasks.worker(name, workflows=["prove"], ttl="30s") for name in ("a", "b"))
    lease = one(holder)
    generation = lease.run.generation
    refused(f"{run.id}.{generation}.{other.session_id}", "belongs to another session")
    refused(f"{run.id}.{generation + 1}.{holder.session_id}", "no such lease")
    refused(f"{run.id}.{generation - 1}.{holder.session_id}", "was revoked")
    refused(f"nobody.{generation}.{holder.session_id}", "no such lease")
    idle.tasks.revoke(run.id)
    refused(lease.proof, "was revoked")
    late = one(holder)
    clock.advance("31s")
    refused(late.proof, "not renewed in time")
    last = one(other)
    refused(late.proof, "was revoked")
    idle.tasks.override(run.id, "done by hand", result=7)
    refused(last.proof, "the run has ended")
    other.close()
    holder.close()


def test_a_holder_whose_lease_was_taken_back_cannot_renew_it_but_the_others(idle):
    first, second = idle.start("prove", 1), idle.start("prove", 2)
    with idle.tasks.worker(workflows=["prove"]) as holder:
        leases = {lease.run.id: lease for lease in holder.claim(2)}
        idle.tasks.revoke(first.id)

        with pytest.raises(LeaseLost, match="was revoked"):
            leases[first.id].renew()
        assert leases[second.id].renew() == holder.renew()
        leases[second.id].complete()
        with pytest.raises(LeaseLost, match="ended"):
            leases[second.id].renew()


def test_a_lease_that_has_run_out_is_over_though_nobody_took_the_run(idle, clock):
    run = idle.start("prove", 1)
    with idle.tasks.worker(workflows=["prove"], ttl="10s", renew=False) as holder:
        lease = one(holder)
        clock.advance("9s")
        assert idle.tasks.lease(lease.proof, ttl="20s").renew() == idle.workers.list()[0].expires_at
        clock.advance("11s")
        lease.progress(50)  # somebody else with the proof has renewed it
        clock.advance("10s")
        for call in (lease.renew, holder.renew, lease.complete, lambda: lease.emit("a")):
            with pytest.raises(LeaseLost, match="not renewed in time"):
                call()
        (answer,) = holder.complete_all([(lease, 1)])
        assert isinstance(answer, LeaseLost)
        assert run.status == "running"
        again = one(holder)
        assert again.run.generation > lease.run.generation
        assert again.complete(2) == RunEnded("completed")
        clock.advance("1h")
        assert again.complete(2) == RunEnded("completed")
        assert holder.complete_all([(again, 2)]) == [RunEnded("completed")]


def test_a_holder_that_was_not_renewed_begins_anew_and_finds_work(idle, clock):
    with (
        idle.tasks.worker("slow", workflows=["prove"], ttl="10s") as slow,
        idle.tasks.worker("quick", workflows=["other"]) as quick,
    ):
        clock.advance("11s")
        assert quick.claim() == []  # which looks after those who are gone
        run = idle.start("prove", 1)

        assert one(slow).complete() == RunEnded("completed")
        assert run.status == "completed"
    with pytest.raises(LeaseLost, match="closed"):
        slow.claim()


def test_one_name_alone_is_that_name_and_no_letters(idle):
    idle.start("prove", 1, lane="gpu")
    idle.start("over", 2)
    with (
        idle.tasks.worker(workflows="prove-over") as neither,
        idle.tasks.worker(lanes="gpu-fast") as nor,
    ):
        assert (neither.claim(9), nor.claim(9)) == ([], [])
    with idle.tasks.worker(workflows="prove") as holder:
        assert [lease.input for lease in holder.claim(9)] == [1]


@pytest.mark.parametrize(
    "offer",
    [
        {"workflows": [7]},
        {"workflows": 7},
        {"lanes": [""]},
        {"lanes": "x", "worker": "a\nb"},
        {"lanes": "x", "worker": 7},
    ],
)
def test_what_a_holder_cannot_offer_is_refused(idle, offer):
    with pytest.raises(BadOption):
        idle.tasks.worker(**offer)
    assert idle.workers.list() == []


@pytest.mark.parametrize("limit", [-1, 1.5, "7", None, True])
def test_a_number_that_is_none_is_refused(idle, limit):
    with idle.tasks.worker(workflows="prove") as holder, pytest.raises(BadOption):
        holder.claim(limit)


def test_who_only_holds_is_not_counted_on_by_those_who_wait(idle):
    idle.start("prove", 1)
    waiting = idle.start("prove", 2)
    with idle.tasks.worker("anna", workflows=["prove"]) as holder:
        lease = one(holder)
        assert idle.why(waiting.id).reason.startswith("it is ready: worker anna")
        holder.rest()

        assert idle.why(waiting.id).reason.startswith("no worker is alive")
        assert lease.complete() == RunEnded("completed")


def test_what_waits_for_a_capability_that_nobody_offers_is_told(idle, database):
    runs = [idle.start("prove", 1, capabilities=["cuda", "fast"]) for _ in range(2)]
    idle.start("prove", 1, capabilities=["cuda"])
    idle.start("prove", 1, delay="1h")
    assert {(tuple(route.capabilities), route.runs) for route in idle.workers.unserved()} == {
        (("cuda", "fast"), 2),
        (("cuda",), 1),
    }
    with (
        idle.tasks.worker("a", workflows=["prove"], capabilities="cuda"),
        idle.tasks.worker("b", workflows=["prove"], capabilities="fast"),
    ):
        (one,) = idle.workers.unserved()

        assert (one.runs, one.example in {run.id for run in runs}) == (2, True)
        assert "the capability cuda, the capability fast, all at once" in one.text
        assert one.remedy == "holdfast worker MODULE --capability cuda,fast"
        assert [session.capabilities for session in idle.workers.list()] == [
            ["cuda"],
            ["fast"],
        ]
        with idle.tasks.worker("c", workflows=["prove"], capabilities=["cuda", "fast"]) as both:
            other = AsyncEngine(database, store=internals(idle).store)
            assert asyncio.run(other.workers.unserved()) == []
            both.rest()
            assert len(idle.workers.unserved()) == 1


def test_the_same_for_asyncio(database, clock):
    async def main() -> None:
        engine = AsyncEngine(database, clock=clock)
        run = await engine.start("prove", 1)
        async with engine.tasks.worker("a", workflows="prove", ttl="10s") as holder:
            (lease,) = await holder.claim()
            assert await lease.renew() == await holder.renew()
            with pytest.raises(LeaseLost, match="another session"):
                await engine.tasks.lease(f"{run.id}.{lease.run.generation}.x")
            clock.advance("11s")
            for call in (
                lease.renew(),
                lease.progress(1),
                lease.emit("a"),
                lease.complete(),
                lease.create_wait("ok"),
            ):
                with pytest.raises(LeaseLost, match="not renewed in time"):
                    await call
            (answer,) = await holder.complete_all([(lease, 1)])
            assert isinstance(answer, LeaseLost)
            (again,) = await holder.claim()
            await holder.rest()
            assert await again.complete() == RunEnded("completed")
        with pytest.raises(LeaseLost, match="closed"):
            await holder.claim()
        await engine.start("prove", 2)
        unopened = engine.tasks.worker("b", workflows="prove")
        assert len(await unopened.claim()) == 1
        await unopened.close()
        assert await engine.database.check() == []
        await engine.close()

    asyncio.run(main())


def test_what_was_leased_for_one_who_gave_up_waiting_is_there_for_the_next(database):
    async def main() -> None:
        engine = AsyncEngine(database)
        async with engine.tasks.worker(workflows=["render"]) as leases:
            for turns in range(12):
                run = await engine.start("render", turns)
                claiming = asyncio.create_task(leases.claim())
                for _ in range(turns):
                    await asyncio.to_thread(int)
                claiming.cancel()
                (found,) = await asyncio.gather(claiming, return_exceptions=True)
                if isinstance(found, BaseException):
                    found = await leases.claim(wait="20s")
                assert [lease.run.id for lease in found] == [run.id]
                await found[0].complete()
        await engine.close()

    asyncio.run(main())
