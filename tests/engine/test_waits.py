"""Waits with conditions, handed out to others, put to people: on every database."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import closing

import pytest

from holdfast import (
    AsyncEngine,
    Engine,
    compensate,
    first,
    gather,
    now,
    sleep,
    step,
    sync,
    wait_signal,
    workflow,
)
from holdfast.errors import (
    BadCondition,
    BadOption,
    NotEncodable,
    NotInWorkflow,
    RunCancelled,
    RunExpired,
    RunFailed,
    RunFinished,
    TokenRefused,
    TooManySignals,
    WaitClosed,
    WaitExpired,
    WaitNotFound,
    WaitTimeout,
)
from holdfast.testing import internals
from holdfast.waits import Wait, Waited, all_of, any_of, count, create_wait, matching, wait_for
from tests.engine.waiting import unseal, wait_until
from tests.engine.waiting import wait_for as wait_for_status

DAY = 86_400_000_000
undone: list[str] = []


@step
async def undo(what: str) -> None:
    undone.append(what)


def told(found: Waited) -> list[object]:
    return [found.how, [(one.id, one.name, one.payload, one.source) for one in found.signals]]


@workflow
async def order_desk(timeout: str = "3d", on_timeout: str = "fail") -> list[object]:
    compensate(undo, on_timeout)
    ready = all_of("paid", any_of("shipped", count(2, "vote", distinct="sources")))
    return told(await wait_for(ready, timeout=timeout, on_timeout=on_timeout))


@workflow
def order_desk_plain(timeout: str = "3d", on_timeout: str = "fail") -> list[object]:
    ready = sync.waits.all_of(
        "paid", sync.waits.any_of("shipped", sync.waits.count(2, "vote", distinct="sources"))
    )
    return told(sync.waits.wait_for(ready, timeout=timeout, on_timeout=on_timeout))


@workflow
async def callback(
    expires: str | None = None, timeout: str | None = None, on_timeout: str = "fail"
) -> object:
    wait = await create_wait("callback", expires=expires)
    found = await wait_for(wait, timeout=timeout, on_timeout=on_timeout)
    return [found.how, found.payload, found.by]


@workflow
async def late_callback() -> list[object]:
    wait = await create_wait("callback")
    await wait_signal("go")
    return told(await wait_for(wait))


def parked(engine, workflow, *args):
    run = engine.start(workflow, *args)
    wait_for_status(engine, run, "waiting")
    return run


def handed_out(engine, run, name="callback"):
    wait_until(
        engine, lambda: any(wait.name == name and wait.id for wait in engine.waits.list(run.id))
    )
    found = next(wait for wait in engine.waits.list(run.id) if wait.name == name and wait.id)
    return found.id, engine.waits.token(found.id)


@pytest.mark.parametrize("desk", [order_desk, order_desk_plain], ids=["async", "plain"])
def test_a_run_goes_on_when_all_that_it_waits_for_has_come_and_sees_what_that_was(engine, desk):
    run = parked(engine, desk)
    run.signal("vote", 1, source="ann")
    run.signal("vote", 2, source="ann")
    run.signal("paid", {"amount": 3}, source="bank")
    assert run.status == "waiting"
    run.signal("vote", 3, source="bob")

    assert run.result(timeout=20) == [
        "signals",
        [[1, "vote", 1, "ann"], [3, "paid", {"amount": 3}, "bank"], [4, "vote", 3, "bob"]],
    ]
    assert engine.waits.list(run.id)[0].state == "closed"


def test_signals_may_come_before_the_wait(database, clock):
    with Engine(database, clock=clock) as engine:
        run = engine.start(order_desk, delay="1h")
        for name, source in (("paid", None), ("shipped", None)):
            run.signal(name, source=source)
        clock.advance("1h")
        assert run.result(timeout=20)[0] == "signals"


def test_a_wait_survives_the_end_of_its_process(database, clock):
    with Engine(database, clock=clock) as engine:
        run = parked(engine, order_desk)
        run.signal("paid")
    clock.advance("2d")
    with Engine(database, clock=clock) as engine:
        engine.signal(run.id, "shipped")
        assert engine.run(run.id).result(timeout=20)[0] == "signals"


# Time


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
        assert "it needs a person since" in why.reason
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


# Outsiders


def test_an_outsider_with_the_token_resumes_a_run(engine):
    run = parked(engine, callback)
    wait_id, token = handed_out(engine, run)

    answer = engine.waits.deliver(wait_id, token, "done", {"ok": True}, source="shop", key="k")

    assert (answer.signal, answer.effect) == (1, "satisfied")
    assert run.result(timeout=20) == ["signals", {"ok": True}, None]
    assert engine.waits.deliver(wait_id, token, "done", {"ok": False}, key="k") == answer
    with pytest.raises(WaitClosed, match="ended"):
        engine.waits.deliver(wait_id, token)


def test_a_satisfied_wait_is_closed_before_a_worker_claims_its_run(database):
    with Engine(database) as engine:
        run = parked(engine, callback)
        wait_id, token = handed_out(engine, run)
    client = Engine(database)  # it is not entered, so it has no worker
    assert client.waits.deliver(wait_id, token, payload=1).effect == "satisfied"
    with pytest.raises(WaitClosed, match="its signals"):
        client.waits.deliver(wait_id, token, payload=2)
    client.close()
    with Engine(database, workflows=[callback]) as engine:
        assert engine.run(run.id).result(timeout=20) == ["signals", 1, None]


def test_early_signals_are_kept_for_the_wait(engine):
    run = engine.start(late_callback)
    wait_id, token = handed_out(engine, run)

    assert engine.waits.deliver(wait_id, token, payload=5).effect == "kept"
    run.signal("go")

    assert run.result(timeout=20) == ["signals", [[1, "callback", 5, None]]]


def test_without_the_right_token_nothing_is_told(engine):
    run = parked(engine, callback)
    wait_id, token = handed_out(engine, run)
    other = engine.waits.token(handed_out(engine, parked(engine, callback))[0])

    told = set()
    for who, proof in (
        (wait_id, "no"),
        (wait_id, other),
        ("none", "no"),
        ("none", token),
        (run.id, token),
        (wait_id, token[:-2]),
    ):
        with pytest.raises(TokenRefused) as refused:
            engine.waits.deliver(who, proof)
        told.add(str(refused.value))
    assert len(told) == 1
    assert run.status == "waiting"


def test_a_token_outlives_its_key_by_the_grace_and_operators_get_a_new_one(database, clock):
    with Engine(database, clock=clock) as engine:
        run = parked(engine, late_callback)
        wait_id, token = handed_out(engine, run)
        engine.keys.rotate(grace="1h")
        assert engine.waits.deliver(wait_id, token).effect == "kept"
        clock.advance("61m")
        with pytest.raises(TokenRefused):
            engine.waits.deliver(wait_id, token)
        assert engine.waits.deliver(wait_id, engine.waits.token(wait_id)).effect == "kept"


def test_a_token_made_after_a_rotation_outlives_the_old_key(database, clock):
    with Engine(database, clock=clock) as engine:
        run = parked(engine, late_callback)
        wait_id, _ = handed_out(engine, run)
        engine.keys.rotate(grace="1h")
        token = engine.waits.token(wait_id)
        clock.advance("61m")

        assert engine.waits.deliver(wait_id, token).effect == "kept"


def test_waits_are_listed_with_the_fingerprint_of_their_own_token_after_a_rotation(database, clock):
    with Engine(database, clock=clock) as engine:
        run = parked(engine, late_callback)
        (before,) = engine.waits.list(run.id)
        engine.keys.rotate(grace="1h")
        (listed,) = engine.waits.list(run.id)
        clock.advance("61m")
        (later,) = engine.waits.list(run.id)

    assert before.fingerprint is not None
    assert (listed.kid, listed.fingerprint) == (before.kid, before.fingerprint)
    assert (later.kid, later.fingerprint) == (before.kid, None)


@workflow
async def makes_a_token_in_the_copy() -> str:
    wait = await create_wait("callback")
    await wait_signal("go")
    return wait.token


def test_a_run_that_continues_in_a_copy_makes_tokens_there(engine, tmp_path):
    run = parked(engine, makes_a_token_in_the_copy)
    (wait,) = (one.id for one in engine.waits.list(run.id) if one.id is not None)
    token = engine.waits.token(wait)
    engine.database.export(run.id, tmp_path / "copy.db")
    unseal(tmp_path / "copy.db")

    with Engine(tmp_path / "copy.db", workflows=[makes_a_token_in_the_copy]) as elsewhere:
        with pytest.raises(TokenRefused):
            elsewhere.waits.deliver(wait, token)
        assert elsewhere.waits.deliver(wait, elsewhere.waits.token(wait)).effect == "kept"
        elsewhere.signal(run.id, "go")
        assert elsewhere.run(run.id).result(timeout=20) == elsewhere.waits.token(wait)


ready, told_to_go_on, made_both = threading.Event(), threading.Event(), threading.Event()
tokens: list[str] = []


@step
async def stays_at_work() -> None:
    ready.set()
    assert await asyncio.to_thread(told_to_go_on.wait, timeout=60)


@workflow
async def makes_tokens_late() -> object:
    wait = await create_wait("callback")
    tokens.append(wait.token)
    await stays_at_work()
    tokens.append(wait.token)
    made_both.set()
    return (await wait_for(wait)).payload


@pytest.mark.parametrize("kind", ["Engine", "AsyncEngine"])
def test_a_token_that_a_held_run_makes_after_a_rotation_is_signed_with_the_new_key(
    database, clock, kind
):
    for event in (ready, told_to_go_on, made_both):
        event.clear()
    tokens.clear()

    async def play() -> object:
        async with AsyncEngine(database, clock=clock) as engine:
            run = await engine.start(makes_tokens_late)
            await asyncio.to_thread(use, run.id)
            return await run.result(timeout=20)

    def use(run_id: str) -> None:
        assert ready.wait(timeout=60)
        with closing(Engine(database, clock=clock)) as client:
            client.keys.rotate(grace="1h")
            told_to_go_on.set()
            assert made_both.wait(timeout=60)
            clock.advance("61m")
            (wait,) = (wait for wait in client.waits.list(run_id) if wait.id)
            with pytest.raises(TokenRefused):
                client.waits.deliver(wait.id, tokens[0])
            client.waits.deliver(wait.id, tokens[1], payload=5)

    if kind == "AsyncEngine":
        assert asyncio.run(play()) == 5
        return
    with Engine(database, clock=clock) as engine:
        run = engine.start(makes_tokens_late)
        use(run.id)
        assert run.result(timeout=20) == 5


def test_an_expired_wait_takes_no_more(database, clock):
    with Engine(database, clock=clock) as engine:
        run = parked(engine, callback, "1h", "9d", "escalate")
        wait_id, token = handed_out(engine, run)
        clock.advance("1h")
        with pytest.raises(WaitExpired):
            engine.waits.deliver(wait_id, token)
        assert next(wait for wait in engine.waits.list(run.id) if wait.id).state == "expired"


def test_a_token_ends_in_no_repr_log_history_or_list(engine, caplog):
    caplog.set_level(logging.DEBUG)

    @workflow
    async def careful() -> str:
        wait = await create_wait("callback")
        assert repr(wait) == f"<wait callback {wait.id}>"
        token = wait.token
        await wait_for(wait)
        return f"{wait!r} {token!r}"

    run = parked(engine, careful)
    wait_id, token = handed_out(engine, run)
    secret = token.split(".")[2]
    engine.waits.deliver(wait_id, token)
    seen = [
        run.result(timeout=20),
        repr(engine.waits.list(run.id)),
        repr(run.history()),
        repr(engine.why(run.id)),
        caplog.text,
    ]
    assert not any(secret in one for one in seen)


def test_a_step_can_hand_the_token_out(engine):
    sent: list[tuple[str, str]] = []

    @step
    async def send(wait: Wait) -> None:
        sent.append((wait.id, wait.token))

    @workflow
    async def asking() -> object:
        wait = await create_wait("answer")
        await send(wait)
        return (await wait_for(matching(wait, {"ok": True}, name="reply"))).payload

    run = parked(engine, asking)
    ((wait_id, token),) = sent
    assert engine.waits.deliver(wait_id, token, "other", {"ok": True}).effect == "ignored"
    assert engine.waits.deliver(wait_id, token, "reply", {"ok": False}).effect == "ignored"
    assert engine.waits.deliver(wait_id, token, "reply", {"ok": True, "n": 1}).effect == "satisfied"
    assert run.result(timeout=20) == {"ok": True, "n": 1}


def test_several_waits_are_met_together(engine):
    @workflow
    async def quorum() -> list[str]:
        waits = [await create_wait(name) for name in ("ann", "bob", "cy")]
        found = await wait_for(count(2, *waits, distinct="waits"))
        return [one.name for one in found.signals]

    run = parked(engine, quorum)
    for name, effect in (("cy", "kept"), ("cy", "duplicate"), ("ann", "satisfied")):
        assert engine.waits.deliver(*handed_out(engine, run, name)).effect == effect
    assert run.result(timeout=20) == ["cy", "ann"]


def test_a_run_takes_only_so_many_signals(database):
    with Engine(database, max_signals=2) as engine:
        run = engine.start(late_callback)
        wait_id, token = handed_out(engine, run)
        engine.waits.deliver(wait_id, token)
        run.signal("other")
        with pytest.raises(TooManySignals, match="limit=2"):
            engine.waits.deliver(wait_id, token)
        with pytest.raises(TooManySignals):
            run.signal("go")
        run.cancel(force=True)
    with pytest.raises(BadOption):
        Engine(database, max_signals=0)


# People


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
        lambda: b"sleep#2" in (run.record.waits or b"") and b'"sleep"' not in run.record.waits,
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
    assert why.blockers[0].until == began + 3 * DAY


def test_why_names_the_wait_that_a_signal_must_go_to(engine):
    run = parked(engine, callback)
    wait_id, _ = handed_out(engine, run)

    remedy = engine.why(run.id).remedy

    assert remedy == f"holdfast signal {run.id} callback --wait {wait_id}"
    run.signal("nothing")
    assert engine.signal(run.id, "callback", 3, wait=wait_id)
    assert run.result(timeout=20) == ["signals", 3, None]


# Inside a workflow


def test_a_wait_that_is_over_cannot_be_waited_for_again(engine):
    @workflow
    async def twice() -> str:
        wait = await create_wait("callback")
        await wait_for(wait)
        try:
            await wait_for(any_of(wait, "go"))
        except WaitClosed:
            return "closed"
        return ""

    run = parked(engine, twice)
    engine.waits.deliver(*handed_out(engine, run))
    assert run.result(timeout=20) == "closed"


def test_a_wait_that_lost_a_race_can_be_waited_for_again(database, clock):
    @workflow
    async def again() -> list[object]:
        wait = await create_wait("callback")

        async def answer() -> object:
            return (await wait_for(wait)).payload

        async def nobody() -> object:
            await sleep("1h")
            return "nobody"

        return [await first(answer(), nobody()), (await wait_for(wait)).payload]

    with Engine(database, clock=clock) as engine:
        run = parked(engine, again)
        clock.advance("1h")
        wait_until(engine, lambda: len(engine.waits.list(run.id)) == 3)
        engine.waits.deliver(*handed_out(engine, run), payload=4)
        assert run.result(timeout=20) == ["nobody", 4]
        assert "wait_dropped" in [event.kind for event in run.history()]


def test_a_wait_that_a_late_signal_closed_is_open_again_when_something_earlier_won(database, clock):
    @workflow(name="takes up a wait that was closed")
    async def again() -> list[object]:
        wait = await create_wait("callback")

        async def answer() -> object:
            return (await wait_for(wait)).payload

        async def nobody() -> object:
            await sleep("1h")
            return "nobody"

        winner = await first(answer(), nobody())
        both = await wait_for(count(2, wait, distinct="signals"))
        return [winner, [signal.payload for signal in both.signals]]

    with Engine(database, clock=clock) as engine:
        run = parked(engine, again)
        wait_id, token = handed_out(engine, run)
    clock.advance("2h")
    client = Engine(
        database, clock=clock
    )  # it has no worker, so the timer is due and has not fired
    assert client.waits.deliver(wait_id, token, payload=4).effect == "satisfied"
    with pytest.raises(WaitClosed):
        client.waits.deliver(wait_id, token, payload=5)
    client.close()
    with Engine(database, clock=clock, workflows=[again]) as engine:
        wait_until(engine, lambda: internals(engine).store.waits.get(wait_id).closed_at is None)
        assert engine.waits.deliver(wait_id, token, payload=6).effect in ("kept", "satisfied")
        assert engine.run(run.id).result(timeout=20) == ["nobody", [4, 6]]


def test_two_waits_side_by_side_share_nothing(engine):
    @workflow
    async def both() -> list[list[int]]:
        pair = await gather(wait_for(count(2, "vote")), wait_for(count(2, "vote")))
        return [[one.id for one in found.signals] for found in pair]

    run = parked(engine, both)
    for _ in range(4):
        run.signal("vote")
    assert run.result(timeout=20) == [[1, 2], [3, 4]]


def test_payloads_are_read_by_type(engine):
    @workflow
    async def typed() -> str:
        import datetime

        return (await wait_for("when", type=datetime.date)).payload.isoformat()

    run = engine.start(typed)
    run.signal("when", "2026-01-02")
    assert run.result(timeout=20) == "2026-01-02"


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: all_of(), BadCondition),
        (lambda: count(3, "a", "b", distinct="waits"), BadCondition),
        (lambda: matching("a", ["x"]), BadCondition),
        (lambda: matching(all_of("a"), {}), BadCondition),
        (lambda: matching("a", name="b"), BadCondition),
        (lambda: any_of(7), BadCondition),
        (lambda: all_of(all_of(all_of(all_of(all_of("a"))))), BadCondition),
        (lambda: all_of(""), BadCondition),
    ],
)
def test_a_condition_that_cannot_be_is_refused_where_it_is_made(make, error):
    with pytest.raises(error):
        make()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"timeout": "1h", "on_timeout": "explode"}, "on_timeout"),
        ({"on_timeout": "escalate"}, "no timeout"),
        ({"timeout": "soon"}, "BadDuration"),
    ],
)
def test_a_wait_that_cannot_be_is_refused_and_nothing_is_written(engine, options, error):
    @workflow
    async def wrong() -> None:
        await wait_for("a", **options)

    run = engine.start(wrong)
    with pytest.raises(RunFailed, match=error):
        run.result(timeout=20)
    assert ([event.kind for event in run.history()], engine.waits.list(run.id)) == (
        ["run_failed"],
        [],
    )


def test_a_wait_belongs_to_its_run(engine):
    kept: list[Wait] = []

    @workflow
    async def giving() -> None:
        kept.append(await create_wait("mine"))

    @workflow
    async def taking() -> None:
        await wait_for(kept[0])

    engine.start(giving).result(timeout=20)
    with pytest.raises(RunFailed, match="another run"):
        engine.start(taking).result(timeout=20)


def test_outside_a_workflow_there_is_nothing_to_wait_with():
    for call in (
        lambda: wait_for("a"),
        lambda: create_wait("a"),
        lambda: sync.waits.wait_for("a"),
        lambda: sync.waits.create_wait("a"),
    ):
        with pytest.raises(NotInWorkflow):
            call()


def test_bad_input_from_outside_is_refused_by_name(engine):
    run = parked(engine, callback)
    wait_id, token = handed_out(engine, run)
    for options in ({"name": ""}, {"source": "a\nb"}, {"key": "x" * 201}, {"payload": object()}):
        with pytest.raises((BadOption, NotEncodable)) as refused:
            engine.waits.deliver(wait_id, token, **options)
        assert token.split(".")[2] not in str(refused.value)
    with pytest.raises(BadOption):
        engine.waits.deliver(None, None)
    assert engine.run(run.id).status == "waiting"


# Beginning again


def test_a_replay_gives_a_wait_its_time_again(database, clock):
    with Engine(database, clock=clock) as engine:
        run = parked(engine, callback, None, "1h")
        wait_id, token = handed_out(engine, run)
        clock.advance("1h")
        with pytest.raises(RunFailed):
            run.result(timeout=20)
        engine.replay(run.id)
        wait_for_status(engine, run, "waiting")
        assert engine.waits.deliver(wait_id, token, payload=2).effect == "satisfied"
        assert run.result(timeout=20) == ["signals", 2, None]


def test_a_replay_from_a_wait_opens_it_again(engine):
    run = parked(engine, callback)
    wait_id, token = handed_out(engine, run)
    engine.waits.deliver(wait_id, token, payload=1)
    assert run.result(timeout=20)[1] == 1

    engine.replay(run.id, from_step="wait")
    wait_for_status(engine, run, "waiting")
    engine.waits.deliver(wait_id, token, payload=2)

    assert run.result(timeout=20)[1] == 2


def test_a_fork_waits_for_signals_of_its_own(engine):
    run = parked(engine, callback)
    fork = engine.fork(run.id, from_step="wait")
    wait_for_status(engine, fork, "waiting")
    (mine, token), (other, _) = handed_out(engine, fork), handed_out(engine, run)
    assert mine != other
    engine.waits.deliver(mine, token, payload=1)
    assert fork.result(timeout=20)[1] == 1
    assert run.status == "waiting"


def test_a_signal_from_a_run_says_from_which(engine):
    @workflow
    async def poll() -> list[str]:
        found = await wait_for(count(2, "vote", distinct="sources"))
        return [str(one.source) for one in found.signals]

    @workflow
    async def speaker(to: str) -> None:
        from holdfast.authoring.python.api_async import AsyncChildHandle

        await AsyncChildHandle(poll, "x", to).signal("vote")

    run = parked(engine, poll)
    speakers = [engine.start(speaker, run.id) for _ in range(2)]
    assert sorted(run.result(timeout=20)) == sorted(one.id for one in speakers)


async def until_it_waits(run):
    while await run.status() != "waiting":
        pass


def test_the_same_for_asyncio(database):
    async def main() -> None:
        async with AsyncEngine(database) as engine:
            run = await engine.start(callback)
            await until_it_waits(run)
            wait_id = next(wait.id for wait in await engine.waits.list(run.id) if wait.id)
            answer = await engine.waits.deliver(
                wait_id, await engine.waits.token(wait_id), payload=1
            )
            assert (answer.signal, answer.effect) == (1, "satisfied")
            assert (await run.result())[1] == 1
            run = await engine.start(callback)
            await until_it_waits(run)
            await engine.waits.release(run.id, by="ann")
            assert await run.result() == ["release", None, "ann"]

    asyncio.run(main())


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
