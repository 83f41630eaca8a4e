"""The secrets that sign tokens and deliveries are encrypted where values are, and opened only to
sign or to check."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import AsyncEngine, Engine, gate, step, workflow
from holdfast.codecs import Encrypted
from holdfast.core import tokens
from holdfast.core.tokens import WAIT_TOKEN, SigningKey
from holdfast.errors import BadData, KeyMissing, TokenRefused
from holdfast.testing import internals
from holdfast.waits import create_wait, wait_for
from tests.engine.databases import execute
from tests.engine.waiting import one_lease, wait_until
from tests.engine.waiting import wait_for as wait_for_status

K1, K2 = b"1" * 32, b"2" * 32
KNOWN = {"k1": K1, "k2": K2}
SECRET = b"a secret of 16 bytes or more"
HOOK_SECRET = "the secret of a webhook"
NOWHERE = "https://example.org/hook"


def k1() -> Encrypted:
    return Encrypted({"k1": K1}, "k1")


def k2() -> Encrypted:
    return Encrypted(KNOWN, "k2")


def only_k2() -> Encrypted:
    return Encrypted({"k2": K2}, "k2")


@step
async def tell(token: str) -> str:
    return token


@workflow(name="secrets.waiting")
async def waiting() -> str:
    wait = await create_wait("paid")
    await tell(wait.token)
    waited = await wait_for(wait)
    return waited.payload


@workflow(name="secrets.asking")
async def asking() -> str:
    return (await gate("Ship it?", options=["yes", "no"])).choice


def stored(database) -> bytes:
    """Return all secrets as the database holds them, as one piece."""
    keys = [bytes(secret) for (secret,) in execute(database, "SELECT secret FROM holdfast.key")]
    hooks = [
        secret.encode()
        for (secret,) in execute(database, "SELECT secret FROM holdfast.subscription")
    ]
    return b"".join(keys + hooks)


def handed_out(engine, run):
    """Return the wait that the run has handed out, once it rests."""
    wait_until(engine, lambda: run.status == "waiting" and len(engine.waits.list(run.id)) == 2)
    return next(wait for wait in engine.waits.list(run.id) if wait.id is not None)


def signed_by(token: str, purpose: str) -> dict:
    """Return what a token says if it was signed with SECRET."""
    return tokens.check(token, purpose, [SigningKey("sign", SECRET, 0)], now=0)


def test_no_secret_is_readable_in_an_encrypted_database(database):
    with Engine(database, codec=k1()) as engine:
        engine.keys.rotate(kid="sign", secret=SECRET)
        assert engine.webhooks.set("hook", NOWHERE, secret=HOOK_SECRET) == HOOK_SECRET
        assert engine.webhooks.set("hook", NOWHERE) == HOOK_SECRET

        assert internals(engine).store.payloads.keys_in_use() == {"k1": 2}

    assert SECRET not in stored(database)
    assert HOOK_SECRET.encode() not in stored(database)


def test_tokens_are_signed_with_the_secret_itself(database):
    with Engine(database, codec=k1()) as engine:
        engine.keys.rotate(kid="sign", secret=SECRET)
        run = engine.start(waiting)
        wait = handed_out(engine, run)
        told = next(event.data for event in run.history() if event.kind == "step_completed")
        question = engine.start(asking)
        wait_for_status(engine, question, "waiting")
        (open_gate,) = [
            each_open_gate
            for each_open_gate in engine.gates.list()
            if each_open_gate.run == question.id
        ]
        link = engine.gates.link(open_gate, "yes", by="ann")
        engine.start("secrets.render")
        with engine.tasks.worker(workflows=["secrets.render"], ttl="1d") as leases:
            lease = one_lease(leases)
            handed = lease.create_wait("paid")
            lease.complete()

        for token, wait_id in [
            (told, wait.id),
            (engine.waits.token(wait.id), wait.id),
            (handed.token, handed.id),
        ]:
            assert signed_by(token, WAIT_TOKEN) == {"wait": wait_id}
        assert signed_by(link, "gate")["gate"] == open_gate.id
        assert engine.gates.answer(link).choice == "yes"
        engine.waits.deliver(wait.id, told, payload="100")
        assert run.result(timeout=30) == "100"


@pytest.mark.parametrize(
    "secret",
    [SECRET, b"\x00" + SECRET, b"\x00\x00p" + SECRET],
    ids=["text", "zero", "like a sealed one"],
)
def test_secrets_in_clear_are_encrypted_by_the_next_engine_that_has_a_key(database, secret):
    with Engine(database) as engine:
        engine.keys.rotate(kid="sign", secret=secret)
        engine.webhooks.set("hook", NOWHERE, secret=HOOK_SECRET)
        run = engine.start(waiting)
        wait = handed_out(engine, run)
        token = engine.waits.token(wait.id)
    assert secret in stored(database)

    with Engine(database, codec=k1()) as engine:
        assert secret not in stored(database)
        assert HOOK_SECRET.encode() not in stored(database)
        assert engine.waits.token(wait.id) == token
        assert not engine.keys.rotate(kid="sign", secret=secret).changed
        engine.waits.deliver(wait.id, token, payload="100")
        assert engine.run(run.id).result(timeout=30) == "100"
        assert engine.webhooks.set("hook", NOWHERE) == HOOK_SECRET


def test_an_asynchronous_engine_encrypts_them_too(database):
    with Engine(database) as engine:
        engine.keys.rotate(kid="sign", secret=SECRET)

    async def main() -> None:
        async with AsyncEngine(database, codec=k1()) as engine:
            await engine.keys.list()
            assert SECRET not in stored(database)
            await engine.keys.rotate(kid="other", secret=SECRET[::-1])

    asyncio.run(main())
    assert SECRET[::-1] not in stored(database)


@pytest.mark.parametrize("verb", ["rekey", "rotate"])
def test_rekeying_and_rotating_put_all_secrets_under_the_current_key(database, verb):
    with Engine(database, codec=k1()) as engine:
        engine.keys.rotate(kid="sign", secret=SECRET)
        engine.webhooks.set("hook", NOWHERE, secret=HOOK_SECRET)

    with Engine(database, codec=k2()) as engine:
        assert internals(engine).store.payloads.keys_in_use().keys() == {"k1"}
        getattr(engine.keys, verb)()
        assert internals(engine).store.payloads.keys_in_use().keys() == {"k2"}

    with Engine(database, codec=only_k2()) as engine:
        assert not engine.keys.rotate(kid="sign", secret=SECRET).changed
        assert engine.webhooks.set("hook", NOWHERE) == HOOK_SECRET
        assert engine.keys.rekey().values == 0


def test_a_secret_whose_key_is_missing_stops_only_what_signs_or_checks(database):
    with Engine(database, codec=k1()) as engine:
        engine.keys.rotate(kid="sign", secret=SECRET)
        run = engine.start(waiting)
        wait = handed_out(engine, run)
        token = engine.waits.token(wait.id)

    engine = Engine(database, codec=only_k2())
    assert [key.kid for key in engine.keys.list()] == ["sign"]
    assert [
        each_wait.fingerprint for each_wait in engine.waits.list() if each_wait.id is not None
    ] == [None]
    with pytest.raises(KeyMissing, match="signing key sign"):
        engine.waits.token(wait.id)
    with pytest.raises(KeyMissing, match="signing key sign"):
        engine.waits.deliver(wait.id, token)
    with pytest.raises(KeyMissing, match="signing key sign"):
        engine.keys.rotate(kid="sign", secret=SECRET)
    with pytest.raises(TokenRefused):
        engine.waits.deliver(wait.id, token.replace("sign", "forged"))
    assert engine.keys.rekey().unreadable["k1"] >= 1
    engine.keys.rotate(kid="new")
    assert engine.waits.token(wait.id).startswith("new.")
    engine.close()


def test_a_run_that_asks_for_a_token_without_the_key_goes_on_once_the_key_is_known(database):
    with Engine(database, codec=k1()) as engine:
        engine.keys.rotate(kid="sign", secret=SECRET)

    with Engine(database, codec=only_k2()) as engine:
        run = engine.start(waiting)
        wait_for_status(engine, run, "stuck")
        assert "k1" in engine.why(run.id).reason

    with Engine(database, codec=k2()) as engine:
        wait = handed_out(engine, engine.run(run.id))
        engine.waits.deliver(wait.id, engine.waits.token(wait.id), payload="100")
        assert engine.run(run.id).result(timeout=30) == "100"


def test_one_damaged_secret_does_not_keep_the_database_from_opening(database):
    with Engine(database, codec=k1()) as engine:
        engine.keys.rotate(kid="damaged", secret=SECRET)
        engine.keys.rotate(kid="sign", secret=SECRET)
        engine.webhooks.set("hook", NOWHERE, secret=HOOK_SECRET)
    garbage = b"\x00garbage"
    execute(
        database, "UPDATE holdfast.key SET secret = :garbage WHERE kid = 'damaged'", garbage=garbage
    )
    execute(
        database, "UPDATE holdfast.subscription SET secret = :garbage", garbage="\x01k1\x01garbage"
    )

    with Engine(database, codec=k2()) as engine:
        engine.keys.rekey()
        assert internals(engine).store.payloads.keys_in_use()["k2"] == 1
        with pytest.raises(BadData, match="webhook hook"):
            engine.webhooks.set("hook", NOWHERE)


def test_a_secret_is_bound_to_the_name_of_its_key_or_webhook(database):
    engine = Engine(database, codec=k1())
    engine.keys.rotate(kid="one", secret=SECRET)
    engine.keys.rotate(kid="two", secret=SECRET[::-1])
    engine.webhooks.set("first", NOWHERE, secret=HOOK_SECRET)
    engine.webhooks.set("second", NOWHERE)
    execute(
        database,
        "UPDATE holdfast.key SET secret = (SELECT secret FROM holdfast.key WHERE kid = 'one') WHERE"
        " kid = 'two'",
    )
    moved = "SELECT secret FROM holdfast.subscription WHERE name = 'first'"
    execute(database, f"UPDATE holdfast.subscription SET secret = ({moved}) WHERE name = 'second'")

    with pytest.raises(BadData, match="moved here from another place"):
        engine.keys.rotate(kid="two", secret=SECRET)
    with pytest.raises(BadData, match="moved here from another place"):
        engine.webhooks.set("second", NOWHERE)
    engine.close()
