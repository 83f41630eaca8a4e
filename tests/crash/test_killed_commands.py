"""``db rekey`` and ``db copy``, killed at random instants: nothing is lost, and the same command comes to its end."""

from __future__ import annotations

import base64
import os
import random
import subprocess
import sys
from contextlib import closing

import pytest

from holdfast import Encrypted, Engine, start, step, wait_signal, workflow
from holdfast.connect.store import open_store
from holdfast.errors import StoreHalfCopied, StoreSealed

KEYS = {"k1": b"1" * 32, "k2": b"2" * 32}
RUNS, KILLS, SEED = 60, 8, 20261117
TEXT = "the crown jewels" * 200


@step
async def tell(text: str) -> str:
    return text + "!"


@workflow(name="killed.child")
async def child(text: str) -> str:
    return await tell(text)


@workflow(name="killed.parent")
async def parent(text: str, waits: bool) -> str:
    told = await (await start(child, text)).result()
    return told + (await wait_signal("more") if waits else "")


@pytest.fixture(params=["sqlite", "postgres"])
def databases(request, tmp_path):
    if request.param == "sqlite":
        yield str(tmp_path / "source.db"), str(tmp_path / "target.db")
        return
    server = request.getfixturevalue("postgres_server")
    with server.lend() as source, server.lend() as target:
        yield source, target


def codec(key="k1"):
    return Encrypted(KEYS, key)


def fill(database):
    """Leave runs that have ended and runs that wait, with large and small values; return what is to come of them."""
    with Engine(database, codec=codec(), large=500) as engine:
        ended = [engine.start(parent, f"{number}{TEXT}", False) for number in range(RUNS)]
        waiting = [engine.start(parent, f"{number}", True) for number in range(5)]
        results = {run.id: run.result(timeout=60) for run in ended}
        for run in waiting:
            run.signal("unheard", TEXT)
    return results | {run.id: f"{number}!{TEXT}" for number, run in enumerate(waiting)}, [run.id for run in waiting]


def command(*words, key="k2"):
    """Start ``holdfast`` in a process of its own, whose first key is *key*."""
    order = sorted(KEYS, key=lambda name: name != key)
    keys = ",".join(f"{name}={base64.b64encode(KEYS[name]).decode()}" for name in order)
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast", *words], env={**os.environ, "HOLDFAST_KEYS": keys},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def kill_at_random(words, dice, longest):
    """Start a command again and again, and kill it at random instants; return how often it was killed before its end."""
    killed = 0
    for _ in range(KILLS):
        process = command(*words)
        try:
            process.wait(timeout=dice.uniform(0.05, longest))
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate()
        killed += process.returncode == -9
        yield killed


def end(words):
    process = command(*words)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said.decode()


def is_whole(database, results, waiting):
    """Check a database that can be worked on, and let the runs that wait come to their ends."""
    with Engine(database, codec=codec("k2"), large=500) as engine:
        for run_id in waiting:
            if engine.run(run_id).status != "completed":
                engine.signal(run_id, "more", TEXT)
        assert {run_id: engine.run(run_id).result(timeout=60) for run_id in results} == results
        assert engine.check() == []
        found = engine.check_payloads()
        assert (found.damaged, found.unreadable) == ([], {})


def test_rekey_is_killed_at_random_instants(databases):
    database, _ = databases
    results, waiting = fill(database)
    words, dice = ("--db", database, "db", "rekey"), random.Random(SEED)
    for _ in kill_at_random(words, dice, 1.5):
        with closing(Engine(database, codec=codec("k2"), large=500)) as engine:
            assert engine.check() == []
            assert engine.check_payloads().damaged == []
    end(words)
    with closing(open_store(database)) as store:
        assert store.keys_in_use().keys() == {"k2"}
    is_whole(database, results, waiting)


def usable(database):
    """Return whether an engine can work on a database."""
    try:
        with closing(Engine(database, codec=codec("k2"))) as engine:
            return bool(engine.runs(limit=1))
    except (StoreHalfCopied, StoreSealed):
        return False


def test_copy_is_killed_at_random_instants(databases):
    source, target = databases
    results, waiting = fill(source)
    words, dice = ("db", "copy", source, target), random.Random(SEED)
    for _ in kill_at_random(words, dice, 1.5):
        assert not (usable(source) and usable(target))
    if not usable(target):
        end(words)
    assert (usable(source), usable(target)) == (False, True)
    is_whole(target, results, waiting)
