"""Databases for tests that are gone after close, and ``file:`` URIs as SQLite reads them."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from contextlib import closing
from pathlib import Path

import pytest

import holdfast
from holdfast import AsyncEngine, Engine, step, workflow
from holdfast.connect import memory_databases
from holdfast.errors import BadUrl, StoreUnavailable
from holdfast.testing import internals

SOURCE = Path(holdfast.__file__).parents[1]
GONE = "gone after close"


@step
def double(number: int) -> int:
    return 2 * number


@workflow
async def remembered(number: int) -> int:
    return await double(number)


def test_a_database_in_memory_works_and_is_gone_after_close(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match=GONE) as caught, Engine(":memory:") as engine:
        folder = os.path.dirname(internals(engine).store.database.path)
        assert engine.start(remembered, 4).result(timeout=60) == 8
        assert os.path.isdir(folder)

    assert [warning.filename for warning in caught] == [__file__]
    assert not os.path.exists(folder)
    assert os.listdir(tmp_path) == []
    assert memory_databases._folders == {}


@pytest.mark.parametrize(
    "url",
    ["file::memory:", "file:x?mode=memory", "sqlite:///:memory:", "file::memory:?cache=private"],
)
def test_each_engine_has_a_database_in_memory_of_its_own(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match=GONE):
        first, second = Engine(url), Engine(url)
    with closing(first), closing(second):
        first.start(remembered, 1, id="one")

        assert (first.runs().count(), second.runs().count()) == (1, 0)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("url", ["file::memory:?cache=shared", "file:x?mode=memory&cache=shared"])
def test_engines_of_a_process_share_a_named_database_until_the_last_closes(
    url, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match=GONE):
        first, second = Engine(url), Engine(url)
    first.start(remembered, 1, id="one")
    first.close()

    assert second.runs().count() == 1
    second.close()
    with pytest.warns(UserWarning, match=GONE), closing(Engine(url)) as third:
        assert third.runs().count() == 0
    assert os.listdir(tmp_path) == []


def test_an_asynchronous_engine_has_one_too():
    import asyncio

    async def main() -> int:
        async with AsyncEngine(":memory:") as engine:
            return await (await engine.start(remembered, 5)).result()

    with pytest.warns(UserWarning, match=GONE):
        assert asyncio.run(main()) == 10


def test_an_engine_that_is_never_closed_leaves_no_folder_behind():
    program = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from holdfast import Engine\n"
        "from holdfast.testing import internals\n"
        "engine = Engine(':memory:'); engine.runs().count()\n"
        "print(internals(engine).store.database.path)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    path = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()

    assert path.endswith("memory.db")
    assert not os.path.exists(os.path.dirname(path))


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("file:orders.db", "orders.db"),
        ("file:my%20orders.db?mode=rwc", "my orders.db"),
        ("file:orders.db?cache=shared#part", "orders.db"),
        ("file:orders.db?unknown=1", "orders.db"),
    ],
)
def test_a_uri_names_the_file_that_sqlite_would_open(uri, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with closing(Engine(uri)) as engine:
            engine.start(remembered, 1)

    assert [each for each in os.listdir(tmp_path) if not each.endswith(("-wal", "-shm"))] == [name]
    with closing(Engine(f"file://{tmp_path}/{name}?mode=rw")) as engine:
        assert engine.runs().count() == 1
    with closing(Engine(f"file://localhost{tmp_path}/{name}")) as engine:
        assert engine.runs().count() == 1


def test_mode_rw_never_creates_a_file(tmp_path):
    with pytest.raises(StoreUnavailable, match="no such file"):
        Engine(f"file:{tmp_path}/none.db?mode=rw")

    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("file:x.db?mode=ro", "leave mode=ro out"),
        ("file:x.db?mode=w", "there is no mode w"),
        ("file:x.db?immutable=1", "immutable"),
        ("file:x.db?nolock=1", "nolock"),
        ("file:x.db?vfs=memdb", "vfs"),
        ("file://elsewhere/x.db", "not of elsewhere"),
        ("file:", "names no file"),
        ("sqlite://", "names no file"),
    ],
)
def test_a_uri_that_cannot_hold_runs_is_refused(uri, why, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(BadUrl, match=why):
        Engine(uri)

    assert os.listdir(tmp_path) == []
