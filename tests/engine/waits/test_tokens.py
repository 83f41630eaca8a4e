"""Waits that are handed out to others as tokens."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import closing

import pytest

from holdfast import AsyncEngine, Engine, step, wait_signal, workflow
from holdfast.errors import TokenRefused, WaitClosed, WaitExpired
from holdfast.waits import Wait, create_wait, matching, wait_for
from tests.engine.waiting import unseal
from tests.engine.waits.workflows import callback, handed_out, late_callback, parked


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
    (wait,) = (each_wait.id for each_wait in engine.waits.list(run.id) if each_wait.id is not None)
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
