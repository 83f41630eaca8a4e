"""Runs that a task worker leases, completes, puts off and waits with."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from holdfast import AsyncEngine, Engine
from holdfast.connect.blocking.tasks import TaskWorker
from holdfast.errors import BadOption, LeaseLost, RunNotFound
from holdfast.service.tasks.lease_state import Deferred, RunEnded
from holdfast.testing import internals
from holdfast.views.values import instant
from tests.engine.waiting import one_lease as one


def test_a_run_is_leased_and_completed(idle, holder):
    run = idle.start("render", {"size": 3})
    lease = one(holder)

    assert (lease.run.workflow, lease.input, lease.attempt) == ("render", {"size": 3}, 1)
    assert run.status == "running"
    assert lease.complete({"url": "x"}) == RunEnded("completed")
    assert run.result() == {"url": "x"}
    assert holder.claim() == []


def test_only_what_a_holder_offers_is_leased(idle):
    wanted = idle.start("render", 1, lane="gpu", capabilities=["cuda"])
    idle.start("render", 2, lane="gpu", capabilities=["tpu"])
    idle.start("render", 3)
    idle.start("encode", 4, lane="gpu")
    with idle.tasks.worker(
        workflows=["render"], lanes=["gpu"], capabilities=["cuda", "fast"]
    ) as leases:
        assert [lease.run.id for lease in leases.claim(10)] == [wanted.id]


@pytest.mark.parametrize(
    "wrong",
    ["a,b", ["a,b"], ["a b"], [""], [7], ["\n"], [f"c{n}" for n in range(257)], ["x" * 4097]],
)
def test_capabilities_that_could_not_be_told_apart_are_refused(idle, wrong):
    with pytest.raises(BadOption):
        idle.start("render", 1, capabilities=wrong)
    with pytest.raises(BadOption):
        idle.tasks.worker(workflows=["render"], capabilities=wrong)
    assert list(idle.runs()) == []


def test_a_capability_may_be_a_word_alone(idle):
    run = idle.start("render", 1, capabilities="cuda")
    with idle.tasks.worker(workflows=["render"], capabilities="cuda") as leases:
        assert [lease.run.id for lease in leases.claim()] == [run.id]


def test_nothing_of_another_namespace_can_be_leased_or_touched(database, idle):
    other = Engine(database, namespace="other", clock=internals(idle).clock)
    run = idle.start("render", 1)
    with (
        other.tasks.worker(workflows=["render"]) as theirs,
        idle.tasks.worker(workflows=["render"]) as ours,
    ):
        assert theirs.claim(10) == []
        proof = one(ours).proof
        with pytest.raises(LeaseLost):
            other.tasks.lease(proof)
        for call in (
            other.tasks.revoke,
            lambda run_id: other.tasks.prioritise(run_id, 1),
            lambda run_id: other.tasks.override(run_id, "x"),
            theirs.reclaim,
            other.cancel,
            other.resume,
            other.replay,
            other.fork,
            other.waits.release,
            lambda run_id: other.signal(run_id, "go"),
        ):
            with pytest.raises(RunNotFound):
                call(run.id)
        assert (run.status, idle.run(run.id).history()) == ("running", [])
    other.close()


def test_several_are_leased_at_once_in_order_of_priority(idle, holder):
    runs = [idle.start("render", number, priority=number) for number in range(4)]

    assert [lease.run.id for lease in holder.claim(3)] == [run.id for run in reversed(runs[1:])]


def test_a_run_can_be_put_off(idle, holder, clock):
    idle.start("render", 1)
    lease = one(holder)

    assert lease.delay("5m") == Deferred("pending", instant(clock.now()) + timedelta(minutes=5))
    assert holder.claim() == []
    clock.advance("5m")
    again = one(holder)
    assert (again.attempt, again.run.id) == (1, lease.run.id)


def test_a_run_waits_for_a_signal_and_its_next_holder_sees_it(idle, holder):
    run = idle.start("render", 1)
    assert one(holder).suspend("approved", "rejected").status == "waiting"
    assert run.status == "waiting"
    idle.signal(run.id, "else", 1)
    assert holder.claim() == []
    idle.signal(run.id, "rejected", {"by": "anna"})
    lease = one(holder)

    assert [(signal.name, signal.payload) for signal in lease.signals] == [
        ("rejected", {"by": "anna"})
    ]
    assert not lease.timed_out
    lease.suspend("approved")
    idle.signal(run.id, "approved", 2)
    assert [signal.name for signal in one(holder).signals] == ["approved"]


def test_a_signal_may_come_before_the_wait(idle, holder):
    run = idle.start("render", 1)
    idle.signal(run.id, "approved", 1)

    assert one(holder).suspend("approved").status == "pending"
    assert [signal.name for signal in one(holder).signals] == ["approved"]


def test_a_wait_ends_in_time(idle, holder, clock):
    idle.start("render", 1)
    one(holder).suspend("approved", timeout="1h")
    clock.advance("1h")
    lease = one(holder)

    assert lease.timed_out
    assert list(lease.signals) == []
    lease.complete()


def test_a_task_that_waits_for_its_retry_says_so_and_is_let_try(idle, holder):
    run = idle.start("render", 1, capabilities=["cuda"], policy={"retries": 1, "delay": "1h"})
    assert idle.why(run.id).remedy == "holdfast tasks claim --workflow render --capability cuda"
    with idle.tasks.worker(workflows=["render"], capabilities=["cuda"]) as leases:
        one(leases).fail("transient", "no disk")
        why = idle.why(run.id)
        assert why.reason.startswith(
            "its last attempt failed with transient: no disk; it is tried again at"
        )
        assert why.remedy == f"holdfast waits release {run.id}"
        assert leases.claim() == []
        idle.waits.release(run.id, by="ann")
        assert one(leases).attempt == 2
    assert idle.why(run.id).remedy == "holdfast tasks claim --workflow render --capability cuda"


def test_a_holder_that_was_closed_does_not_rest(idle):
    leases = idle.tasks.worker(workflows=["render"])
    leases.close()
    with pytest.raises(LeaseLost, match="was closed"):
        leases.rest()
    assert idle.workers.list() == []


def test_what_holders_offer_is_told_to_whoever_asks_why(idle):
    run = idle.start("render", 1, capabilities=["cuda"])
    with idle.tasks.worker("render-7", workflows=["render"]):
        assert "the capability cuda" in idle.why(run.id).reason
    with idle.tasks.worker("render-7", workflows=["render"], capabilities=["cuda"]):
        assert "render-7" in idle.why(run.id).reason


@pytest.mark.parametrize("process", ["its own", "another"])
def test_claiming_waits_for_work(database, process):
    engine = Engine(database)
    submitter = engine if process == "its own" else Engine(database)
    found: list[Any] = []
    with engine.tasks.worker(workflows=["render"]) as leases:
        thread = threading.Thread(target=lambda: found.extend(leases.claim(wait="20s")))
        thread.start()
        run = submitter.start("render", 1)
        thread.join()
        assert [lease.run.id for lease in found] == [run.id]
    submitter.close()
    engine.close()


def test_many_threads_share_a_holder_and_each_run_is_done_once(database):
    engine = Engine(database)
    runs = engine.start_many("render", range(100))
    done: Counter[str] = Counter()

    def work(leases: TaskWorker) -> None:
        while found := leases.claim(3):
            for lease in found:
                lease.complete(lease.input)
                done[lease.run.id] += 1

    with engine.tasks.worker(workflows=["render"]) as leases:
        threads = [threading.Thread(target=work, args=(leases,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert done == Counter(run.id for run in runs)
    assert engine.database.check() == []
    engine.close()


def test_the_same_for_asyncio(database):
    async def main() -> list[Any]:
        engine = AsyncEngine(database)
        runs = [
            await engine.start("render", number, policy={"retries": 1, "delay": "0s"})
            for number in range(5)
        ]
        async with engine.tasks.worker("a", workflows=["render"]) as leases:
            first, second, third, fourth, fifth = await leases.claim(5)
            await first.renew()
            answers = [
                await first.complete(1),
                await second.fail("permanent", "x"),
                await third.cancel(),
            ]
            put = [await fourth.delay("1h"), await fifth.suspend("go")]
            assert [type(answer) for answer in put] == [Deferred, Deferred]
            assert await first.complete(1) == answers[0]
            await engine.signal(runs[4].id, "go")
            (again,) = await leases.claim(wait="10s")
            assert [signal.name for signal in again.signals] == ["go"]
            assert await engine.tasks.revoke(runs[4].id)
            assert await engine.tasks.prioritise(runs[4].id, 2) == 0
            assert await engine.tasks.override(runs[4].id, "x") == "completed"
        await engine.close()
        return answers

    assert asyncio.run(main()) == [RunEnded("completed"), RunEnded("failed"), RunEnded("cancelled")]
