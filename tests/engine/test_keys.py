"""Keys, as an engine and the command line know them."""

from __future__ import annotations

import asyncio
import json

import pytest
from click.testing import CliRunner

from holdfast import AsyncEngine, Engine
from holdfast.cli.main import cli
from holdfast.core import tokens
from holdfast.errors import BadOption, KeyExists, TokenRefused
from holdfast.service import keys
from holdfast.testing import internals
from holdfast.testing.clock import VirtualClock
from tests.store.helpers import in_threads

SECRET = b"a secret of 16 bytes or more"


def test_a_rotation_keeps_the_old_key_for_its_grace(database, clock: VirtualClock):
    engine = Engine(database, clock=clock)
    engine.keys.rotate(kid="old", secret=SECRET)
    token = tokens.sign(internals(engine).store.keys.all()[0], "test", {"n": 1})
    engine.keys.rotate(grace="1h")

    assert [(key.kid == "old", key.current) for key in engine.keys.list()] == [
        (True, False),
        (False, True),
    ]
    clock.advance("1h")
    assert tokens.check(token, "test", internals(engine).store.keys.all(), now=clock.now()) == {
        "n": 1
    }
    clock.advance("1s")
    with pytest.raises(TokenRefused):
        tokens.check(token, "test", internals(engine).store.keys.all(), now=clock.now())
    assert [key.current for key in engine.keys.list()] == [True]
    engine.close()


def test_what_cannot_be_a_key_is_refused_and_nothing_is_written(database):
    engine = Engine(database)
    for wrong in ({"kid": "a.b"}, {"secret": b"short"}, {"grace": "20000d"}):
        with pytest.raises(BadOption):
            engine.keys.rotate(**wrong)
    engine.keys.rotate(kid="k", secret=SECRET)
    with pytest.raises(KeyExists):
        engine.keys.rotate(kid="k")

    assert [key.kid for key in engine.keys.list()] == ["k"]
    engine.close()


def test_many_who_need_the_first_key_at_once_get_the_same(database):
    engines = [Engine(database) for _ in range(4)]
    found = []

    in_threads(
        *[
            lambda engine=engine: found.append(
                internals(engine).commit(keys.need(internals(engine).sealer))
            )
            for engine in engines
        ]
    )

    assert len({key.kid for key in found}) == 1
    assert engines[0].database.check() == []
    for engine in engines:
        engine.close()


def test_many_who_rotate_at_once_leave_one_current_key(database):
    engines = [Engine(database) for _ in range(4)]

    in_threads(*[lambda engine=engine: engine.keys.rotate() for engine in engines])

    assert [key.current for key in engines[0].keys.list()].count(True) == 1
    assert len(engines[0].keys.list()) == 4
    assert engines[0].database.check() == []
    for engine in engines:
        engine.close()


def test_an_asynchronous_engine_has_keys_too(database):
    async def main():
        async with AsyncEngine(database) as engine:
            done = await engine.keys.rotate(kid="k", secret=SECRET)
            return done.kid, [key.kid for key in await engine.keys.list()]

    assert asyncio.run(main()) == ("k", ["k"])


def test_the_command_line_rotates_and_shows_no_secret(database):
    Engine(database).close()

    def call(*words):
        done = CliRunner().invoke(cli, ["--db", database, *words], standalone_mode=False)
        assert done.exception is None
        return done.output

    assert json.loads(call("db", "keys", "--json")) == {"items": [], "next": None}
    first = json.loads(call("db", "keys", "rotate", "--json"))
    assert first["changed"] is True
    assert f"key {first['kid']} is valid until" in call("db", "keys", "rotate", "--grace", "1h")
    shown = json.loads(call("db", "keys", "--json"))["items"]
    assert [(key["kid"] == first["kid"], key["current"]) for key in shown] == [
        (True, False),
        (False, True),
    ]
    assert set(shown[0]) == {"kid", "current", "created_at", "expires_at"}
    assert "in grace" in call("db", "keys")
