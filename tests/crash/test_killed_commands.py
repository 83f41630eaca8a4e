"""``db rekey``, ``db copy`` and ``db backup``, killed at random instants: nothing is lost, and the
same command comes to its end."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from contextlib import closing, suppress

import pytest

from holdfast import Engine, start, step, wait_signal, workflow
from holdfast.codecs import Encrypted
from holdfast.connect.moved_database import unseal_database
from holdfast.connect.open_store import open_store
from holdfast.errors import StoreHalfCopied, StoreSealed

KEYS = {"k1": b"1" * 32, "k2": b"2" * 32}
RUNS, KILLS, SEED = 30, 5, 20261117
TEXT = "the crown jewels" * 200


REKEY = """
import sys
from holdfast import Engine
from holdfast.codecs import Encrypted
from holdfast.testing import internals
codec = Encrypted({"k1": b"1" * 32, "k2": b"2" * 32}, "k2")
engine = Engine(sys.argv[1], codec=codec, inline_limit=500)
apply = internals(engine).store.apply
def told(batch):
    print(len(batch), flush=True)
    sys.stdin.readline()
    return apply(batch)
internals(engine).store.apply = told
engine.keys.rekey()
engine.close()
"""

COPY = """
import sys
from contextlib import closing, suppress
from holdfast.connect.open_store import open_store
from holdfast.service import copy as moving
write, moving.RUNS = moving._do, 5
def told(store, op):
    print(type(op).__name__, flush=True)
    sys.stdin.readline()
    return write(store, op)
moving._do = told
with closing(open_store(sys.argv[1], sealed=True)) as source:
    moving.copy_store(source, lambda: open_store(sys.argv[2], half_copied=True))
"""


BACKUP = """
import sys
from holdfast import Engine
from holdfast.codecs import Encrypted
from holdfast.store.sqlite import backup
backup.PAGES = 2
engine = Engine(sys.argv[1], codec=Encrypted({"k1": b"1" * 32}, "k1"), work=False)
def told(done, total):
    print(done, flush=True)
    sys.stdin.readline()
engine.database.backup(sys.argv[2], progress=told)
engine.close()
"""


@step
async def tell(text: str) -> str:
    return text + "!"


@workflow(name="killed.child")
async def child(text: str) -> str:
    return await tell(text)


@workflow(name="killed.parent")
async def parent(text: str, waits: bool) -> str:
    child_result = await (await start(child, text)).result()
    return child_result + (await wait_signal("more") if waits else "")


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
    """Leave runs that have ended and runs that wait, with large and small values; return what is to
    come of them."""
    with Engine(database, codec=codec(), inline_limit=500) as engine:
        ended = [engine.start(parent, f"{number}{TEXT}", False) for number in range(RUNS)]
        waiting = [engine.start(parent, f"{number}", True) for number in range(5)]
        results = {run.id: run.result(timeout=60) for run in ended}
        for run in waiting:
            run.signal("unheard", TEXT)
    return results | {run.id: f"{number}!{TEXT}" for number, run in enumerate(waiting)}, [
        run.id for run in waiting
    ]


def killed_at_random(script, arguments, dice, commits):
    """Run a script again and again, each time killed at a random instant after a random commit;
    yield the return codes. The script waits for a word before each commit, so that it is not done
    before it is killed, however slow this process is."""
    for _ in range(KILLS):
        process = subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(dice.randrange(commits)):
            if not process.stdout.readline():
                break
            with suppress(BrokenPipeError):
                process.stdin.write("\n")
                process.stdin.flush()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=dice.uniform(0, 0.02))
        process.kill()
        _, said = process.communicate()
        assert process.returncode in (0, -9), said
        yield process.returncode


def end(script, arguments):
    """Run a script to its end."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def is_whole(database, results, waiting):
    """Check a database that can be worked on, and let the runs that wait come to their ends."""
    with Engine(database, codec=codec("k2"), inline_limit=500) as engine:
        for run_id in waiting:
            if engine.run(run_id).status != "completed":
                engine.signal(run_id, "more", TEXT)
        assert {run_id: engine.run(run_id).result(timeout=60) for run_id in results} == results
        assert engine.database.check() == []
        payload_report = engine.database.check_payloads()
        assert (payload_report.damaged, payload_report.unreadable) == ([], {})


def test_rekey_is_killed_at_random_instants(databases):
    database, _ = databases
    results, waiting = fill(database)
    codes = []
    for code in killed_at_random(REKEY, [database], random.Random(SEED), 60):
        codes.append(code)
        with closing(Engine(database, codec=codec("k2"), inline_limit=500)) as engine:
            assert engine.database.check() == []
            assert engine.database.check_payloads().damaged == []
    assert -9 in codes
    end(REKEY, [database])
    with closing(open_store(database)) as store:
        assert store.payloads.keys_in_use().keys() == {"k2"}
    is_whole(database, results, waiting)


def usable(database):
    """Return whether an engine can work on a database."""
    try:
        with closing(Engine(database, codec=codec("k2"))) as engine:
            return bool(engine.runs().page(limit=1))
    except (StoreHalfCopied, StoreSealed):
        return False


def test_copy_is_killed_at_random_instants(databases):
    source, target = databases
    results, waiting = fill(source)
    codes = []
    for code in killed_at_random(COPY, [source, target], random.Random(SEED), 20):
        codes.append(code)
        assert not (usable(source) and usable(target))
        if usable(target):
            break
    assert -9 in codes
    if not usable(target):
        end(COPY, [source, target])
    assert (usable(source), usable(target)) == (False, True)
    is_whole(target, results, waiting)


def test_backup_is_killed_at_random_instants(tmp_path):
    source, copy = str(tmp_path / "source.db"), str(tmp_path / "copy.db")
    results, waiting = fill(source)

    for _ in killed_at_random(BACKUP, [source, copy], random.Random(SEED), 60):
        if os.path.exists(copy):  # complete, or not there
            assert not usable(copy)
            os.unlink(copy)

    end(BACKUP, [source, copy])
    assert sorted(os.listdir(tmp_path)) == sorted({"copy.db", *files_of(source)})
    unseal_database(copy)
    is_whole(copy, results, waiting)
    is_whole(source, results, waiting)


def files_of(database):
    """The names of the files of a database."""
    folder, name = os.path.split(database)
    return [each for each in os.listdir(folder) if each.startswith(name)]
