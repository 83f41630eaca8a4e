"""Work by programs that are no Python functions: leased, renewed, ended in every way, lost and
refused."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pytest

from holdfast import AsyncEngine, Engine
from holdfast.connect.blocking.tasks import TaskWorker
from holdfast.connect.open_store import open_store
from holdfast.errors import (
    BadCondition,
    BadDuration,
    BadLease,
    BadOption,
    LeaseLost,
    NotEncodable,
    RunCancelled,
    RunExpired,
    RunFailed,
    RunFinished,
    RunNotFound,
)
from holdfast.service.tasks.lease_state import Deferred, Retried, RunEnded
from holdfast.testing import internals
from holdfast.testing.clock import VirtualClock
from tests.engine.waiting import one_lease as one


@pytest.fixture
def holder(idle):
    with idle.tasks.worker("render-1", workflows=["render"]) as leases:
        yield leases


def test_a_run_is_leased_and_completed(idle, holder):
    run = idle.start("render", {"size": 3})
    lease = one(holder)

    assert (lease.run.workflow, lease.input, lease.attempt) == ("render", [{"size": 3}], 1)
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


@pytest.mark.parametrize("kind", ["transient", "timeout"])
def test_what_may_go_well_next_time_is_tried_again_as_agreed(idle, holder, clock, kind):
    run = idle.start("render", 1, policy={"retries": 2, "delay": "10s", "jitter": 0.0})
    for attempt, wait in ((1, 10), (2, 20)):
        lease = one(holder)
        assert lease.attempt == attempt
        assert lease.fail(kind, "no disk") == Retried(clock.now() + wait * 1_000_000)
        assert holder.claim() == []
        clock.advance(f"{wait}s")
    assert one(holder).fail(kind, "no disk") == RunEnded("failed")
    with pytest.raises(RunFailed, match="no disk"):
        run.result()


def test_without_an_agreement_there_is_no_second_attempt(idle, holder):
    idle.start("render", 1)

    assert one(holder).fail("transient", "no disk") == RunEnded("failed")


def test_what_the_machine_is_to_blame_for_is_tried_again_at_once_up_to_a_limit(idle, holder):
    idle.start("render", 1, policy={"reclaims": 2})
    for _ in range(2):
        lease = one(holder)
        assert isinstance(lease.fail("infrastructure", "power"), Retried)
        assert lease.attempt == 1
    assert one(holder).fail("infrastructure", "power") == RunEnded("failed")


def test_what_is_hopeless_fails_and_what_was_stopped_is_cancelled(idle, holder):
    runs = [idle.start("render", number, policy={"retries": 5}) for number in range(2)]
    hopeless, stopped = holder.claim(2)

    assert hopeless.fail("permanent", "bad file", {"line": 7}) == RunEnded("failed")
    assert stopped.cancel("not needed") == RunEnded("cancelled")
    with pytest.raises(RunFailed) as failed:
        runs[0].result()
    assert failed.value.error["facts"] == {"line": 7}
    with pytest.raises(RunCancelled):
        runs[1].result()


def test_a_run_can_be_put_off(idle, holder, clock):
    idle.start("render", 1)
    lease = one(holder)

    assert lease.delay("5m") == Deferred("pending", clock.now() + 300_000_000)
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
        ("rejected", b'{"by":"anna"}')
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


def test_a_call_made_again_is_answered_the_same(idle, holder, clock):
    idle.start("render", 1, policy={"retries": 1, "delay": "10s"})
    idle.start("render", 2)
    first, second = holder.claim(2)
    retried = first.fail("transient", "no disk")
    ended = second.complete({"a": 1})
    clock.advance("1s")

    assert first.fail("transient", "no disk") == retried
    assert second.complete({"a": 1}) == ended
    with pytest.raises(LeaseLost):
        second.complete({"a": 2})
    with pytest.raises(LeaseLost):
        second.fail("permanent", "no")


@pytest.mark.parametrize(
    "call", [lambda lease: lease.fail("transient", "x"), lambda lease: lease.delay("5h")]
)
def test_a_call_made_again_is_answered_the_same_though_an_operator_came_between(idle, holder, call):
    run = idle.start("render", 1, policy={"retries": 1, "delay": "1h"})
    lease = one(holder)
    first = call(lease)
    idle.tasks.prioritise(run.id, 5)
    idle.waits.release(run.id)
    assert call(lease) == first
    with pytest.raises(LeaseLost):
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


@pytest.mark.parametrize("done", [None, 7, [7], [(7, 1)], ["ab"]])
def test_what_is_no_lease_with_its_result_is_refused(idle, holder, done):
    with pytest.raises(BadOption, match="pairs"):
        holder.complete_all(done)


def test_a_proof_takes_the_lease_up_elsewhere(idle, holder, database, clock):
    run = idle.start("render", 1)
    proof = one(holder).proof
    other = Engine(database, clock=clock)

    lease = other.tasks.lease(proof)
    lease.renew()
    assert lease.complete(5) == RunEnded("completed")
    assert other.tasks.lease(proof).complete(5) == RunEnded("completed")
    assert run.result() == 5
    other.close()


def test_a_stale_proof_is_refused(idle, holder):
    idle.start("render", 1, policy={"retries": 1, "delay": "0s"})
    first = one(holder)
    first.fail("transient", "x")
    second = one(holder)

    with pytest.raises(LeaseLost):
        first.complete(1)
    with pytest.raises(LeaseLost):
        idle.tasks.lease(first.proof).complete(1)
    assert second.complete(2) == RunEnded("completed")


def test_why_counts_who_can_take_a_task(idle):
    run = idle.start("render", 1, lane="gpu")
    with idle.tasks.worker("elsewhere", lanes=["cpu"]):
        assert "no live worker serves the lane gpu" in idle.why(run.id).reason
        with idle.tasks.worker("render-7", workflows=[], lanes=["gpu"]) as leases:
            assert idle.why(run.id).reason.startswith(
                "it is ready: worker render-7 (a holder of leases on "
            )
            assert [lease.run.id for lease in leases.claim()] == [run.id]


def test_an_asynchronous_lease_is_refused_as_any_other_is(database):
    async def main() -> None:
        engine = AsyncEngine(database)
        for proof in ("", "abc", "abc.1", "abc..s", ".1.s", "abc.x.s", 7):
            with pytest.raises(BadLease):
                await engine.tasks.lease(proof)
        with pytest.raises(LeaseLost):
            await engine.tasks.lease("abc.1.s")
        run = await engine.start("render", 1, policy={"retries": 1, "delay": "0s"})
        async with engine.tasks.worker(workflows=["render"]) as leases:
            (first,) = await leases.claim()
            await first.fail("transient", "x")
            (second,) = await leases.claim(wait="1m")
            for stale in (first, await engine.tasks.lease(first.proof)):
                for write in (
                    stale.complete(1),
                    stale.fail("permanent", "x"),
                    stale.delay("1h"),
                    stale.suspend("go"),
                    stale.cancel(),
                    stale.create_wait("ok"),
                    stale.progress(1),
                    stale.emit("a"),
                ):
                    with pytest.raises(LeaseLost):
                        await write
            assert await second.complete(2) == RunEnded("completed")
            assert await second.complete(2) == RunEnded("completed")
            with pytest.raises(LeaseLost):
                await second.complete(3)
        assert await engine.database.check() == []
        assert await (await engine.run(run.id)).result() == 2
        await engine.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "proof",
    [
        "",
        "abc",
        "abc.1",
        "abc..s",
        ".1.s",
        "abc.x.s",
        pytest.param(f"abc.{'9' * 5000}.s", id="long"),
        7,
    ],
)
def test_a_partial_proof_is_refused_by_name(idle, proof):
    with pytest.raises(BadLease):
        idle.tasks.lease(proof)


def test_an_unknown_lease_is_refused(idle):
    for text in ("nobody.1.s", "no\0body.1.s", "no\ud800body.1.s"):
        with pytest.raises(LeaseLost, match="no such lease"):
            idle.tasks.lease(text)


def test_whoever_does_not_renew_loses_what_it_holds(idle, clock):
    idle.start("render", 1)
    slow = idle.tasks.worker("slow", workflows=["render"], ttl="10s")
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


def test_bad_input_is_refused_and_nothing_is_written(idle, holder):
    for call in (
        lambda: idle.start("render", 1, policy={"retry": 3}),
        lambda: idle.start("render", 1, policy={"retries": -1}),
        lambda: idle.start("render", 1, policy={"timeout": "0s"}),
        lambda: idle.start("render", 1, policy={"reclaims": 1.5}),
        lambda: idle.start("render", 1, policy=3),
        lambda: idle.tasks.worker(workflows=["render"], ttl="0s"),
        lambda: idle.start(" "),
        lambda: idle.start("a\0b"),
        lambda: idle.start("render", id="a\0b"),
        lambda: idle.start("render", capabilities=7),
        lambda: idle.tasks.worker(),
    ):
        with pytest.raises(BadOption):
            call()
    assert list(idle.runs()) == []
    run = idle.start("render", 1)
    lease = one(holder)
    for wrong, call in (
        (BadOption, lambda: lease.fail("sad", "x")),
        (BadOption, lambda: lease.fail("transient", None)),
        (BadOption, lambda: lease.fail("transient", "x", [1])),
        (NotEncodable, lambda: lease.fail("transient", "x", {"a": object()})),
        (NotEncodable, lambda: lease.fail("transient", "\ud800")),
        (BadOption, lambda: lease.create_wait(None)),
        (BadOption, lambda: lease.emit(1, kind=["x"])),
        (BadOption, lambda: lease.emit(1, name=7)),
        (BadOption, lambda: lease.progress(None, "a\0b")),
        (BadOption, lambda: idle.tasks.lease(lease.proof, ttl="0s").renew()),
        (BadCondition, lambda: lease.suspend(" ")),
        (RunNotFound, lambda: idle.tasks.revoke(7)),
        (BadOption, lambda: idle.tasks.revoke(run.id, "")),
        (BadOption, lambda: idle.tasks.override(run.id, 7)),
        (BadOption, lambda: idle.signal(run.id, " ")),
        (BadOption, lambda: lease.suspend()),
        (BadCondition, lambda: lease.suspend("")),
        (BadDuration, lambda: lease.suspend("a", timeout="soon")),
        (BadDuration, lambda: lease.delay("soon")),
        (BadOption, lambda: idle.tasks.prioritise(run.id, 5000)),
        (BadOption, lambda: idle.tasks.override(run.id, "")),
    ):
        with pytest.raises(wrong):
            call()
    assert idle.run(run.id).history() == []
    assert lease.complete() == RunEnded("completed")


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
                lease.complete(lease.input[0])
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
            assert [type(one) for one in put] == [Deferred, Deferred]
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


class Crash(BaseException):
    """The process dies here."""


class Mortal:
    """A store whose process dies before or after the commit that it was told to."""

    def __init__(self, store: Any, side: str) -> None:
        self._store, self.side, self.armed = store, side, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def apply(self, batch: Sequence[Any]) -> list[Any]:
        if self.armed and self.side == "before":
            raise Crash
        answers: list[Any] = self._store.apply(batch)
        if self.armed:
            raise Crash
        return answers


CALLS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "complete": (lambda lease: lease.complete({"a": 1}), "completed"),
    "retry": (lambda lease: lease.fail("transient", "x"), "pending"),
    "fail": (lambda lease: lease.fail("permanent", "x"), "failed"),
    "lost": (lambda lease: lease.fail("infrastructure", "x"), "pending"),
    "cancel": (lambda lease: lease.cancel(), "cancelled"),
    "delay": (lambda lease: lease.delay("1h"), "pending"),
    "suspend": (lambda lease: lease.suspend("go"), "waiting"),
}


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("call", CALLS)
def test_a_crash_at_the_commit_leaves_all_of_it_or_nothing_and_the_call_can_be_repeated(
    database, call, side
):
    act, status = CALLS[call]
    clock = VirtualClock()
    whole = Engine(database, clock=clock)
    run = whole.start("render", 1, policy={"retries": 2, "delay": "1h"})
    store = Mortal(open_store(database, clock=clock), side)
    lease = one(
        Engine(database, clock=clock, store=store).tasks.worker(workflows=["render"], ttl="1d")
    )
    store.armed = True
    with pytest.raises(Crash):
        act(lease)
    store._store.close()

    assert whole.database.check() == []
    assert run.status == ("running" if side == "before" else status)
    answer = act(whole.tasks.lease(lease.proof))
    assert run.status == status
    assert answer == act(whole.tasks.lease(lease.proof))
    assert whole.database.check() == []
    whole.close()


def test_a_crash_at_a_claim_costs_only_time(database, clock):
    whole = Engine(database, clock=clock)
    whole.start("render", 1)
    for side in ("before", "after"):
        store = Mortal(open_store(database, clock=clock), side)
        leases = Engine(database, clock=clock, store=store).tasks.worker(
            workflows=["render"], ttl="10s"
        )
        store.armed = True
        with pytest.raises(Crash):
            leases.claim()
        store._store.close()
        clock.advance("11s")
    with whole.tasks.worker(workflows=["render"]) as leases:
        assert one(leases).complete() == RunEnded("completed")
    assert whole.database.check() == []
    whole.close()


@pytest.mark.parametrize(("limit", "status"), [(1, "stuck"), (2, "pending")])
def test_the_crash_limit_of_the_engine_applies_to_its_leases(database, clock, limit, status):
    with closing(Engine(database, clock=clock, crash_limit=limit)) as engine:
        run = engine.start("render", 1)
        lost = engine.tasks.worker("render-1", workflows=["render"], ttl="1s")
        one(lost)
        clock.advance("2s")

        with engine.tasks.worker("render-2", workflows=["encode"]) as other:
            other.claim()

        assert run.status == status
