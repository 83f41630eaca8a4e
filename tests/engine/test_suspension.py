"""Leased runs that wait for conditions and for waits with tokens, time out, or are released by a
person."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast import AsyncEngine, Engine
from holdfast.codecs import Encrypted
from holdfast.errors import (
    BadCondition,
    BadCursor,
    BadOption,
    BadWait,
    LeaseLost,
    RunCancelled,
    RunExpired,
    RunFailed,
    TokenRefused,
    WaitClosed,
    WaitNotFound,
)
from holdfast.waits import all_of, any_of, any_signal, count, matching
from tests.engine.waiting import one_lease as one
from tests.engine.waiting import unseal


@pytest.fixture
def holder(idle):
    with idle.tasks.worker("render-1", workflows=["render"], ttl="366d") as leases:
        yield leases


@pytest.fixture
def run(idle):
    return idle.start("render", 1, policy={"retries": 3, "delay": "0s"})


def came(lease: Any) -> list[str]:
    return [signal.name for signal in lease.signals]


def test_a_condition_is_whole_before_the_run_is_leased_again(idle, holder, run):
    ready = all_of("paid", any_of("shipped", count(2, "vote", distinct="sources")))
    assert one(holder).suspend(ready, timeout="3d").status == "waiting"
    for name, source in (("vote", "ann"), ("vote", "ann"), ("paid", "bank"), ("else", "ann")):
        idle.signal(run.id, name, {"by": source}, source=source)
        assert holder.claim() == []
    idle.signal(run.id, "vote", source="bob")
    lease = one(holder)

    assert came(lease) == ["vote", "paid", "vote"]
    assert lease.waited.how == "signals"
    assert [(signal.source, signal.payload) for signal in lease.waited.signals] == [
        ("ann", {"by": "ann"}),
        ("bank", {"by": "bank"}),
        ("bob", None),
    ]
    assert not lease.timed_out
    assert idle.waits.list(run.id)[0].closed_by == "its signals"


def test_what_came_is_told_byte_for_byte_to_many_who_are_leased_at_once(idle, holder):
    texts = {f"render-{number}": 'ü\n"\\ ' * (number * 40) for number in range(4)}
    for run_id in texts:
        idle.start("render", run_id, id=run_id)
    for lease in holder.claim(4):
        lease.suspend("text")
    for run_id, text in texts.items():
        idle.signal(run_id, "text", text, source="ann\u2028")
    claimed = holder.claim(4)

    assert {lease.run.id: lease.waited.payload for lease in claimed} == texts
    assert {lease.waited.signals[0].source for lease in claimed} == {"ann\u2028"}
    assert [lease.input for lease in claimed] == [lease.run.id for lease in claimed]
    assert all(
        wait.closed_by == "its signals" for run_id in texts for wait in idle.waits.list(run_id)
    )


def test_what_a_run_waits_for_is_explained(idle, holder, run):
    one(holder).suspend(matching("paid", {"currency": "EUR"}), timeout="1h", on_timeout="fail")
    idle.signal(run.id, "paid", {"currency": "USD"})

    explanation = idle.why(run.id)
    assert '\'paid\' with {"currency":"EUR"}' in explanation.reason
    assert "then it fails" in explanation.reason
    assert explanation.remedy.startswith(f"holdfast signal {run.id} paid")
    assert holder.claim() == []
    idle.signal(run.id, "paid", {"currency": "EUR", "amount": 3})
    assert one(holder).waited.payload == {"currency": "EUR", "amount": 3}


def test_conditions_are_plain_data_too(idle, holder, run):
    one(holder).suspend(
        {"all_of": ["a", {"count": 2, "of": ["b", "c"]}, {"signal": "d", "payload": {"ok": True}}]}
    )
    for name in ("a", "b", "c"):
        idle.signal(run.id, name)
    idle.signal(run.id, "d", {"ok": False})
    assert holder.claim() == []
    idle.signal(run.id, "d", {"ok": True})

    assert came(one(holder)) == ["a", "b", "c", "d"]


def test_every_holder_is_told_what_came_until_the_run_waits_again(idle, holder, run, clock):
    one(holder).suspend("go")
    idle.signal(run.id, "go", 7)
    with idle.tasks.worker("mortal", workflows=["render"], ttl="10s") as mortal:
        assert came(one(mortal)) == ["go"]
        clock.advance("11s")
        lease = one(holder)  # the first one died before it could do anything
    assert came(lease) == ["go"]
    lease.fail("transient", "no disk")
    again = one(holder)
    assert (again.attempt, came(again), again.waited.payload) == (2, ["go"], 7)
    again.suspend("go")
    idle.signal(run.id, "go", 8)
    assert one(holder).waited.payload == 8


def test_a_signal_is_taken_by_one_wait_only(idle, holder, run):
    for number in range(2):
        idle.signal(run.id, "go", number)
    assert one(holder).suspend("go").status == "pending"
    lease = one(holder)
    assert lease.waited.payload == 0
    lease.suspend("go")
    assert one(holder).waited.payload == 1


def test_a_wait_is_handed_out_and_its_token_lets_signals_in(idle, holder, run):
    lease = one(holder)
    wait = lease.create_wait("approval", expires="2d")
    assert (lease.create_wait("approval").id, lease.create_wait("approval").token) == (
        wait.id,
        wait.token,
    )
    assert str(wait.token) not in repr(wait)
    with pytest.raises(TokenRefused):
        idle.waits.deliver(wait.id, "x.y", payload=1)
    lease.suspend(any_of(wait, "rejected"), timeout="3d")

    assert (
        idle.waits.deliver(wait.id, wait.token, payload={"ok": True}, source="ann").effect
        == "satisfied"
    )
    lease = one(holder)
    assert (lease.waited.payload, lease.waited.signals[0].wait) == ({"ok": True}, wait.id)
    with pytest.raises(WaitClosed):
        idle.waits.deliver(wait.id, wait.token, payload=1)
    with pytest.raises(WaitClosed):
        lease.suspend(wait)
    assert lease.create_wait("approval").id != wait.id


def test_a_wait_of_another_run_is_refused(idle, holder, run):
    other = idle.start("render", 2)
    first, second = holder.claim(2)
    assert second.run.id == other.id
    wait = first.create_wait("approval")

    for what in (wait, {"wait": wait.id}, {"wait": "nobody"}):
        with pytest.raises(WaitNotFound):
            second.suspend(what)
    assert idle.run(other.id).history() == []


def test_a_helper_with_the_proof_does_not_disturb_its_holder(idle, holder, run, database, clock):
    lease = one(holder)
    helper = Engine(database, clock=clock)
    wait = helper.tasks.lease(lease.proof).create_wait("approval")
    helper.close()

    assert lease.create_wait("approval").id == wait.id
    assert lease.complete().status == "completed"


ENDS = {"fail": RunFailed, "cancel": RunCancelled, "expire": RunExpired}


@pytest.mark.parametrize("ends", ENDS)
def test_time_is_up_and_the_run_ends_though_nobody_leases_it(idle, holder, run, clock, ends):
    one(holder).suspend("go", timeout="1h", on_timeout=ends)
    clock.advance("59m")
    assert holder.claim() == []
    assert run.status == "waiting"
    clock.advance("1m")
    with idle.tasks.worker("another", workflows=["something else"]) as another:
        assert another.claim() == []

    with pytest.raises(ENDS[ends]):
        run.result()
    assert idle.waits.list(run.id)[0].closed_by == "timeout"
    assert [event.kind for event in idle.run(run.id).history()][-2] == "wait_timed_out"


def test_any_worker_sees_that_time_is_up(database, clock):
    with (
        Engine(database, clock=clock) as engine,
        engine.tasks.worker(workflows=["render"], ttl="1d") as leases,
    ):
        run = engine.start("render", 1)
        one(leases).suspend("go", timeout="1h", on_timeout="fail")
        clock.advance("1h")
        with pytest.raises(RunFailed, match="'go'"):
            run.result(timeout="20s")


def test_time_is_up_and_the_next_holder_sees_what_had_come(idle, holder, run, clock):
    one(holder).suspend(count(3, "vote"), timeout="1h")
    idle.signal(run.id, "vote", 1)
    clock.advance("1h")
    lease = one(holder)

    assert lease.timed_out
    assert (lease.waited.how, came(lease)) == ("timeout", ["vote"])


def test_time_is_up_and_a_person_lets_the_run_go(idle, holder, run, clock):
    one(holder).suspend("go", timeout="1h", on_timeout="escalate")
    clock.advance("1h")
    assert holder.claim() == []
    assert [wait.run_id for wait in idle.waits.list(escalated=True)] == [run.id]
    assert "it has needed an operator since" in idle.why(run.id).reason
    assert idle.why(run.id).remedy == f"holdfast waits release {run.id}"
    clock.advance("30d")
    assert holder.claim() == []
    idle.waits.release(run.id, payload="by phone", by="ann")
    lease = one(holder)

    assert (lease.waited.how, lease.waited.by, lease.waited.payload) == (
        "release",
        "ann",
        "by phone",
    )
    assert (lease.timed_out, came(lease)) == (False, [])


@pytest.mark.parametrize("ends", ["continue", "fail"])
def test_a_wait_that_can_no_longer_be_met_is_given_up(idle, holder, run, clock, ends):
    lease = one(holder)
    wait = lease.create_wait("approval", expires="1h")
    lease.suspend(all_of(wait, "paid"), timeout="9d", on_timeout=ends)
    clock.advance("1h")

    if ends == "continue":
        assert one(holder).timed_out
    else:
        assert holder.claim() == []
        assert run.status == "failed"


def test_a_condition_that_is_not_hopeless_waits_on(idle, holder, run, clock):
    lease = one(holder)
    wait = lease.create_wait("approval", expires="1h")
    lease.suspend(any_of(wait, "paid"), timeout="2h", on_timeout="fail")
    clock.advance("1h")
    assert holder.claim() == []
    assert run.status == "waiting"
    clock.advance("1h")
    assert holder.claim() == []
    assert run.status == "failed"


def test_what_cannot_be_waited_for_is_refused_and_nothing_is_written(idle, holder, run, clock):
    lease = one(holder)
    past = datetime.fromtimestamp(clock.now() / 1_000_000 - 60, UTC)
    for wrong, word, call in (
        (BadWait, "timeout", lambda: lease.suspend("go", timeout=past)),
        (BadWait, "timeout", lambda: lease.suspend("go", timeout="0s")),
        (BadWait, "horizon=52w", lambda: lease.suspend("go", timeout="400d")),
        (BadWait, "1m in the past", lambda: lease.delay(past)),
        (BadWait, "delay", lambda: lease.delay("0s")),
        (BadWait, "horizon", lambda: lease.delay("400d")),
        (BadWait, "expires", lambda: lease.create_wait("x", expires=past)),
        (BadOption, "on_timeout", lambda: lease.suspend("go", timeout="1h", on_timeout="explode")),
        (BadOption, "no timeout", lambda: lease.suspend("go", on_timeout="fail")),
        (BadCondition, "empty", lambda: lease.suspend({"all_of": []})),
        (BadCondition, "one of", lambda: lease.suspend({"some_of": ["a"]})),
        (BadCondition, "'n'", lambda: lease.suspend({"count": 1, "n": 2, "of": ["a"]})),
        (BadCondition, "list", lambda: lease.suspend({"any_of": "a"})),
        (BadCondition, "name of a signal", lambda: lease.suspend(7)),
    ):
        with pytest.raises(wrong, match=word):
            call()
    assert idle.run(run.id).history() == []
    assert idle.waits.list(run.id) == []
    short = idle.tasks.lease(lease.proof, horizon="1h")
    with pytest.raises(BadWait, match="horizon='1h'"):
        short.delay("2h")
    assert lease.complete().status == "completed"


def test_the_same_call_again_is_answered_the_same_and_another_is_refused(idle, holder, run, clock):
    lease = one(holder)
    first = lease.suspend(all_of("a", "b"), timeout="1h")
    clock.advance("1s")

    assert lease.suspend(all_of("a", "b"), timeout="1h") == first
    with pytest.raises(LeaseLost):
        lease.suspend(all_of("a", "c"), timeout="1h")
    with pytest.raises(LeaseLost):
        lease.complete()


def test_a_run_that_shall_stop_says_so_to_its_holder(idle, holder, run):
    lease = one(holder)
    assert lease.cancel_reason is None
    idle.cancel(run.id, "not needed")
    assert lease.cancel_reason == "not needed"
    lease.suspend("go")
    again = one(holder)
    assert again.cancel_reason == "not needed"
    assert again.cancel().status == "cancelled"


def test_a_replayed_run_waits_anew(idle, holder, run, clock):
    one(holder).suspend("go", timeout="1h", on_timeout="fail")
    clock.advance("1h")
    assert holder.claim() == []
    idle.replay(run.id)
    lease = one(holder)

    assert (lease.waited, lease.attempt) == (None, 1)
    lease.suspend("go", timeout="1h")
    idle.signal(run.id, "go")
    assert came(one(holder)) == ["go"]


def test_encrypted_signals_are_judged_by_whoever_has_the_keys(database, clock):
    engine = Engine(database, clock=clock, codec=Encrypted(keys={"k1": b"0" * 32}, current="k1"))
    run = engine.start("render", 1)
    with engine.tasks.worker(workflows=["render"], ttl="1d") as leases:
        one(leases).suspend(matching("paid", {"ok": True}), timeout="1h", on_timeout="fail")
        engine.signal(run.id, "paid", {"ok": False})
        assert leases.claim() == []
        assert run.status == "waiting"
        engine.signal(run.id, "paid", {"ok": True})
        assert one(leases).waited.payload == {"ok": True}
    assert engine.database.check() == []
    engine.close()


def test_the_same_for_asyncio(database):
    async def main() -> Any:
        engine = AsyncEngine(database)
        run = await engine.start("render", 1)
        async with engine.tasks.worker(workflows=["render"]) as leases:
            (lease,) = await leases.claim()
            wait = await lease.create_wait("approval")
            assert (await lease.create_wait("approval")).id == wait.id
            await lease.suspend(all_of(wait, "go"), timeout="1h")
            await engine.waits.deliver(wait.id, wait.token, payload=5)
            await engine.signal(run.id, "go", 6)
            (lease,) = await leases.claim(wait="20s")
            found = [signal.payload for signal in lease.waited.signals]
            await lease.complete()
        await engine.close()
        return found

    assert asyncio.run(main()) == [5, 6]


def test_what_a_run_waits_for_moves_with_it(idle, holder, run, clock, tmp_path):
    one(holder).suspend("go", timeout="1h", on_timeout="expire")
    idle.database.export(run.id, tmp_path / "moved.db")
    unseal(tmp_path / "moved.db")
    moved = Engine(tmp_path / "moved.db", clock=clock)
    clock.advance("1h")
    with moved.tasks.worker(workflows=["render"]) as leases:
        assert leases.claim() == []

    assert moved.run(run.id).status == "expired"
    moved.close()


# Reason, delay, operators


def test_a_suspension_has_a_reason_and_who_asked_for_it(idle, holder, run):
    one(holder).suspend("approved", timeout="3d", reason="approval", by="agent-7")

    (wait,) = idle.waits.list(run.id)
    assert (wait.reason, wait.asked_by) == ("approval", "agent-7")
    assert "(approval, asked by agent-7)" in str(idle.why(run.id))
    (opened,) = [event for event in run.history() if event.kind == "wait_opened"]
    assert (opened.data["reason"], opened.data["asked_by"]) == ("approval", "agent-7")


def test_any_signal_ends_a_wait_for_any(idle, holder, run):
    lease = one(holder)
    wait = lease.create_wait("door")
    lease.suspend(any_signal())
    idle.waits.deliver(wait.id, wait.token)
    assert (holder.claim(), run.status) == ([], "waiting")  # not addressed to the run itself
    idle.signal(run.id, "whatever", 7)
    lease = one(holder)
    assert came(lease) == ["whatever"]

    lease.suspend({"count": 2, "of": [{"any_signal": True, "payload": {"ok": True}}]})
    for number, payload in enumerate(({"ok": True}, {"ok": False}, {"ok": True})):
        assert holder.claim() == []
        idle.signal(run.id, f"n{number}", payload)
    assert came(one(holder)) == ["n0", "n2"]


def test_any_signal_as_data_is_true_or_nothing(holder, run):
    with pytest.raises(BadCondition, match="must be true"):
        one(holder).suspend({"any_signal": "no"})


def test_only_an_operator_ends_a_suspension_without_signals(idle, holder, run):
    one(holder).suspend(reason="manual review")
    idle.signal(run.id, "go")
    assert (holder.claim(), run.status) == ([], "waiting")
    why = idle.why(run.id)
    assert "waits for an operator (manual review)" in str(why)
    assert "waits release" in str(why)
    idle.waits.release(run.id, payload={"ok": True}, by="ann")
    lease = one(holder)

    assert (lease.waited.how, lease.waited.by, lease.waited.payload) == (
        "release",
        "ann",
        {"ok": True},
    )
    assert idle.database.check() == []


def test_a_suspension_without_signals_may_time_out(idle, holder, run, clock):
    one(holder).suspend(timeout="1h", on_timeout="fail")
    clock.advance("2h")
    assert holder.claim() == []
    assert run.status == "failed"


def test_a_run_resumes_after_the_delay_that_its_suspension_set(idle, holder, run, clock):
    one(holder).suspend("go", resume_delay="10m")
    clock.advance("1h")
    idle.signal(run.id, "go", 1)
    assert (holder.claim(), run.status) == ([], "pending")
    clock.advance("9m")
    assert holder.claim() == []
    clock.advance("1m")
    lease = one(holder)

    assert (came(lease), lease.attempt) == (["go"], 1)
    assert idle.waits.list(run.id)[0].closed_by == "its signals"
    assert idle.database.check() == []


def test_the_delay_counts_from_the_signal_not_from_the_claim(idle, holder, run, clock):
    one(holder).suspend("go", resume_delay="10m")
    idle.signal(run.id, "go", 1)
    clock.advance("11m")
    assert came(one(holder)) == ["go"]


def test_an_operator_releases_a_suspended_task_with_a_delay(idle, holder, run, clock):
    one(holder).suspend("go")
    idle.waits.release(run.id, by="ann", delay="10m")
    assert (holder.claim(), run.status) == ([], "pending")
    clock.advance("10m")
    lease = one(holder)
    assert (lease.waited.how, lease.waited.by) == ("release", "ann")

    lease.delay("1h")
    idle.waits.release(run.id, delay="1m")
    assert holder.claim() == []
    clock.advance("1m")
    one(holder)


def test_waits_are_listed_in_pages_the_next_to_time_out_first(idle, holder):
    runs = [idle.start("render", number).id for number in range(5)]
    for lease, timeout in zip(holder.claim(5), ("3d", None, "1d", "2d", None), strict=True):
        lease.suspend("go", timeout=timeout, reason=str(timeout))
    pages = []
    after = None
    while True:
        page = idle.waits.list(limit=2, after=after)
        pages.append([(runs.index(wait.run_id), wait.reason) for wait in page])
        after = page.next
        if after is None:
            break

    assert pages == [[(2, "1d"), (3, "2d")], [(0, "3d"), (1, "None")], [(4, "None")]]
    for wrong in ("nonsense", 7, "W10"):
        with pytest.raises(BadCursor):
            idle.waits.list(after=wrong)


def test_the_waits_of_a_run_are_listed_in_pages(idle, holder, run, clock):
    lease = one(holder)
    for name in ("a", "b", "c"):
        lease.create_wait(name)
        clock.advance("1s")
    first = idle.waits.list(run.id, limit=2)
    rest = idle.waits.list(run.id, limit=2, after=first.next)

    assert [wait.name for wait in (*first, *rest)] == ["a", "b", "c"]
    assert rest.next is None
