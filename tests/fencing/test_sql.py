"""A database refuses what an old generation writes, whichever database and driver it is."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing

import apsw
import pytest

from holdfast import Engine, fencing, step, task, workflow
from holdfast.errors import BadLease, BadOption, Fenced, NotInWorkflow
from holdfast.fencing import Fence
from tests.engine.databases import connect

OLD, NEW = Fence("r1", 1, "r1:pay"), Fence("r1", 2, "r1:pay")
OTHER = Fence("r2", 1, "r2:pay")


@pytest.fixture
def db(outside):
    with closing(connect(outside)) as found:
        yield found


def amounts(db):
    return dict(db.execute("SELECT id, amount FROM bill").fetchall())


def test_the_newest_generation_passes_and_those_before_it_do_not(db):
    for fence in (OLD, OLD, NEW, NEW, OTHER):
        fencing.admit(db, fence)
    db.commit()

    with pytest.raises(Fenced) as refused:
        fencing.admit(db, OLD)

    assert refused.value.facts == {"run": "r1", "generation": 1, "newer": 2}


def test_what_a_transaction_did_before_it_was_refused_is_not_kept(db):
    fencing.admit(db, NEW)
    db.commit()

    db.execute("INSERT INTO bill (id, amount) VALUES ('a', 1)")
    with pytest.raises(Fenced):
        fencing.admit(db, OLD)
    db.rollback()

    assert amounts(db) == {}


def test_who_is_overtaken_in_the_middle_comes_first_or_not_at_all(outside):
    order = []

    def newer():
        with closing(connect(outside)) as db:
            fencing.admit(db, NEW)
            order.append("new")
            db.commit()

    with closing(connect(outside)) as db:
        fencing.admit(db, OLD)
        thread = threading.Thread(target=newer)
        thread.start()
        order.append("old")
        db.commit()
        thread.join()
        assert order == ["old", "new"]
        with pytest.raises(Fenced):
            fencing.admit(db, OLD)


def test_something_is_done_once_however_many_attempts_do_it(db):
    assert fencing.first(db, OLD)
    db.rollback()  # the attempt died
    assert fencing.first(db, OLD)
    db.commit()

    assert not fencing.first(db, NEW)
    assert fencing.first(db, NEW.part("fee"))


def test_a_guard_without_a_transaction_is_refused(tmp_path):
    with closing(apsw.Connection(str(tmp_path / "x.db"))) as db:
        db.execute(fencing.TABLES)
        with pytest.raises(BadOption, match="begin a transaction"):
            fencing.admit(db, OLD)
        with db:
            fencing.admit(db, OLD)


def test_a_row_of_a_run_is_written_by_its_newest_holder(db):
    fencing.upsert(db, "bill", {"id": "a", "amount": 1}, unique=["id"], fence=OLD)
    fencing.upsert(db, "bill", {"id": "a", "amount": 2}, unique=["id"], fence=NEW)
    assert fencing.update(db, "bill", {"amount": 3}, where={"id": "a"}, fence=NEW)

    for call in (
        lambda: fencing.upsert(db, "bill", {"id": "a", "amount": 9}, unique=["id"], fence=OLD),
        lambda: fencing.update(db, "bill", {"amount": 9}, where={"id": "a"}, fence=OLD),
    ):
        with pytest.raises(Fenced) as refused:
            call()
        assert refused.value.facts["newer"] == 2
    assert amounts(db) == {"a": 3}


def test_a_row_belongs_to_the_run_that_wrote_it_first(db):
    db.execute("INSERT INTO bill (id, amount) VALUES ('b', 1)")
    assert fencing.update(db, "bill", {"amount": 2}, where={"id": "b"}, fence=OLD)

    with pytest.raises(Fenced) as refused:
        fencing.update(db, "bill", {"amount": 9}, where={"id": "b"}, fence=OTHER)

    assert refused.value.facts["belongs_to"] == "r1"
    assert not fencing.update(db, "bill", {"amount": 9}, where={"id": "nobody"}, fence=OTHER)
    assert amounts(db) == {"b": 2}


def test_columns_may_have_digits_and_capitals(db):
    db.execute("ALTER TABLE bill ADD COLUMN Net_2025 INTEGER")
    fencing.upsert(db, "bill", {"id": "c", "Net_2025": 5}, unique=["id"], fence=OLD)
    assert fencing.update(db, "bill", {"Net_2025": 6}, where={"Net_2025": 5}, fence=NEW)
    with pytest.raises(Fenced):
        fencing.update(db, "bill", {"Net_2025": 7}, where={"Net_2025": 6}, fence=OLD)
    assert db.execute("SELECT Net_2025 FROM bill").fetchall()[0][0] == 6


def test_names_that_are_no_names_are_refused(db):
    for table, where in (
        ("bill; DROP TABLE bill", {"id": 1}),
        ("bill", {"id = 1 --": 1}),
        ("bill", {}),
    ):
        with pytest.raises(BadOption):
            fencing.update(db, table, {"amount": 1}, where=where, fence=OLD)
    with pytest.raises(BadOption):
        fencing.upsert(db, "bill", {"amount": 1}, unique=["id"], fence=OLD)
    with pytest.raises(BadOption, match="columns and their values"):
        fencing.update(db, "bill", None, where={"id": 1}, fence=OLD)
    with pytest.raises(BadOption, match="known=sqlite3"):
        fencing.admit(object(), OLD)


async def opened(outside, driver):
    """Return an asynchronous connection in a transaction, and what ends it well."""
    if driver == "aiosqlite":
        import aiosqlite

        db = await aiosqlite.connect(outside)
        return db, db.commit, db.close
    if driver == "psycopg":
        import psycopg

        db = await psycopg.AsyncConnection.connect(outside)
        return db, db.commit, db.close
    if driver == "asyncpg":
        import asyncpg

        db = await asyncpg.connect(outside)
        transaction = db.transaction()
        await transaction.start()
        return db, transaction.commit, db.close
    from sqlalchemy.ext.asyncio import create_async_engine

    kind = "postgresql+asyncpg" if outside.startswith("postgresql") else "sqlite+aiosqlite"
    url = (
        outside.replace("postgresql", kind, 1)
        if outside.startswith("postgresql")
        else f"{kind}:///{outside}"
    )
    engine = create_async_engine(url)
    db = await engine.connect()

    async def close():
        await db.close()
        await engine.dispose()

    return db, db.commit, close


DRIVERS = {"sqlite": ["aiosqlite", "sqlalchemy"], "postgres": ["psycopg", "asyncpg", "sqlalchemy"]}


def test_it_is_the_same_on_asynchronous_connections(outside):
    async def with_driver(driver, run):
        old, new = Fence(run, 1, f"{run}:a"), Fence(run, 2, f"{run}:a")
        db, commit, close = await opened(outside, driver)
        try:
            assert await fencing.first_aio(db, new)
            await fencing.upsert_aio(db, "bill", {"id": run, "amount": 2}, unique=["id"], fence=new)
            assert await fencing.update_aio(db, "bill", {"amount": 3}, where={"id": run}, fence=new)
            with pytest.raises(Fenced):
                await fencing.update_aio(db, "bill", {"amount": 9}, where={"id": run}, fence=old)
            with pytest.raises(Fenced):
                await fencing.admit_aio(db, old)
            await commit()
        finally:
            await close()

    drivers = DRIVERS["postgres" if outside.startswith("postgresql") else "sqlite"]
    for driver in drivers:
        asyncio.run(with_driver(driver, driver))

    with closing(connect(outside)) as db:
        assert amounts(db) == dict.fromkeys(drivers, 3)


def test_a_connection_that_must_be_awaited_is_told_so(tmp_path):
    import aiosqlite

    async def wrong():
        async with aiosqlite.connect(tmp_path / "x.db") as db:
            fencing.admit(db, OLD)

    with pytest.raises(BadOption, match="_aio"):
        asyncio.run(wrong())


def test_rows_may_come_as_dictionaries(postgres_server):
    import psycopg
    from psycopg.rows import dict_row

    with postgres_server.lend() as url, psycopg.connect(url, row_factory=dict_row) as db:
        db.execute(fencing.TABLES)
        assert fencing.first(db, NEW)
        with pytest.raises(Fenced) as refused:
            fencing.admit(db, OLD)
        assert refused.value.facts["newer"] == 2


def test_sqlalchemy_is_understood(tmp_path):
    import sqlalchemy

    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'x.db'}")
    with closing(sqlite3.connect(tmp_path / "x.db")) as db:
        db.executescript(fencing.TABLES)
    with engine.begin() as db:
        fencing.admit(db, NEW)
    with pytest.raises(Fenced), engine.begin() as db:
        fencing.admit(db, OLD)
    engine.dispose()


# Holders


class Scene:
    """Lets the first holder wait in the middle of its work until a second one has done it."""

    def __init__(self):
        self.began, self.overtaken, self.over = (
            threading.Event(),
            threading.Event(),
            threading.Event(),
        )
        self.first: list[object] = []


scene = Scene()


def enter(outside, amount):
    """Write to the database outside, the first holder not before it was overtaken."""
    here = scene
    late = not here.began.is_set()
    here.began.set()
    if late:
        assert here.overtaken.wait(20)
    try:
        with closing(connect(outside)) as db:
            fencing.admit(db)
            db.execute("DELETE FROM bill")
            where = ("%s", "%s") if outside.startswith("postgresql") else ("?", "?")
            values = (str(fencing.fence().generation), amount)
            db.execute(f"INSERT INTO bill (id, amount) VALUES ({', '.join(where)})", values)
            db.commit()
    except Fenced as refused:
        here.first.append(refused.facts)
        raise
    finally:
        if late:
            here.first.append("done")
            here.over.set()
    return amount


@step
def enter_step(outside: str, amount: int) -> int:
    return enter(outside, amount)


@workflow
async def fenced_entry(outside: str, amount: int) -> int:
    return await enter_step.aio(outside, amount)


@task
def fenced_task(outside: str, amount: int) -> int:
    return enter(outside, amount)


@pytest.mark.parametrize("work", [fenced_entry, fenced_task])
def test_a_holder_that_was_overtaken_while_it_worked_writes_nothing(outside, work, tmp_path):
    global scene
    scene = found = Scene()
    with Engine(tmp_path / "engine.db", shutdown_timeout=1) as engine:
        run = engine.start(work, outside, 5)
        assert found.began.wait(20)
        assert engine.tasks.revoke(run.id)
        assert run.result(timeout="20s") == 5
        found.overtaken.set()
        assert found.over.wait(20)  # its thread runs on, whoever has the run
    with closing(connect(outside)) as db:
        [(generation, amount)] = amounts(db).items()
    assert amount == 5
    assert int(generation) >= 2
    assert found.first == [{"run": run.id, "generation": 1, "newer": int(generation)}, "done"]


def test_a_holder_of_a_lease_has_a_fence_too(outside, tmp_path):
    with closing(Engine(tmp_path / "engine.db")) as engine, closing(connect(outside)) as db:
        engine.start("fenced render", 1)
        with engine.tasks.worker(workflows=["fenced render"]) as leases:
            (old,) = leases.claim()
            engine.tasks.revoke(old.run.id)
            (new,) = leases.claim(wait="10s")
            assert fencing.fence(new) == fencing.fence(new.proof)
            assert fencing.first(db, fencing.fence(new))
            with pytest.raises(Fenced):
                fencing.first(db, fencing.fence(old))
            new.complete()


def test_where_there_is_no_holder_there_is_no_fence():
    with pytest.raises(NotInWorkflow):
        fencing.fence()
    with pytest.raises(BadLease):
        fencing.fence("nonsense")
    with pytest.raises(BadOption):
        fencing.headers("r1")
