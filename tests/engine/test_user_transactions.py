"""Starting a run in the user's own transaction, whichever library that is of: with its commit the
run is there, or never was."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import asynccontextmanager, closing, contextmanager

import aiosqlite
import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from holdfast import AsyncEngine, Engine, workflow
from holdfast.errors import BadOption, RunExists, RunNotFound
from holdfast.store.postgres import notifier

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@workflow(name="borrowed.double")
async def double(n: int) -> int:
    return 2 * n


@pytest.fixture(autouse=True)
def nobody_looks_unless_told(monkeypatch):
    monkeypatch.setattr(notifier, "LOOK_EVERY", 3600.0)


def of_sqlalchemy(database, kind="psycopg"):
    if not database.startswith("postgresql:"):
        return f"sqlite:///{database}" if kind == "psycopg" else f"sqlite+{kind}:///{database}"
    return database.replace("postgresql:", f"postgresql+{kind}:")


@contextmanager
def driver(database):
    """The driver's own connection, which begins a transaction with its first statement."""
    with closing(
        psycopg.connect(database)
        if database.startswith("postgresql:")
        else sqlite3.connect(database)
    ) as db:
        yield db, db.execute


@contextmanager
def sqlalchemy_connection(database):
    engine = sqlalchemy.create_engine(of_sqlalchemy(database))
    with engine.connect() as db:
        yield db, lambda sql: db.execute(sqlalchemy.text(sql))
    engine.dispose()


@contextmanager
def sqlalchemy_session(database):
    engine = sqlalchemy.create_engine(of_sqlalchemy(database))
    with Session(engine) as db:
        yield db, lambda sql: db.execute(sqlalchemy.text(sql))
    engine.dispose()


@contextmanager
def sqlalchemy_scoped_session(database):
    engine = sqlalchemy.create_engine(of_sqlalchemy(database))
    db = scoped_session(sessionmaker(engine))
    yield db, lambda sql: db.execute(sqlalchemy.text(sql))
    db.remove()
    engine.dispose()


BLOCKING = [driver, sqlalchemy_connection, sqlalchemy_session, sqlalchemy_scoped_session]


@pytest.fixture
def notes(database):
    with driver(database) as (db, execute):
        execute("CREATE TABLE note (text TEXT)")
        db.commit()

    def read():
        with driver(database) as (_, execute):
            return [text for (text,) in execute("SELECT text FROM note").fetchall()]

    return read


@pytest.mark.parametrize("kind", BLOCKING)
class TestBlocking:
    def test_what_is_committed_is_started_and_worked_on_promptly(self, database, notes, kind):
        with (
            Engine(database, workflows=[double], poll="1h") as engine,
            kind(database) as (db, execute),
        ):
            execute("INSERT INTO note VALUES ('paid')")
            run = engine.start(double, 4, id="r1", tags={"of": "ann"}, connection=db)
            with pytest.raises(RunNotFound):
                engine.run("r1")
            db.commit()

            assert run.result(timeout=20) == 8
            assert notes() == ["paid"] and engine.runs(tags={"of": "ann"}).first().id == "r1"
            assert engine.database.check() == []

    def test_the_run_may_be_all_there_is_to_commit(self, database, notes, kind):
        with Engine(database, workflows=[double], poll="1h") as engine, kind(database) as (db, _):
            run = engine.start(double, 4, connection=db)
            db.commit()

            assert run.result(timeout=20) == 8

    def test_what_is_rolled_back_never_was(self, database, notes, kind):
        with closing(Engine(database)) as engine, kind(database) as (db, execute):
            execute("INSERT INTO note VALUES ('paid')")
            run = engine.start(double, 4, key="once", connection=db)
            db.rollback()

            assert (list(engine.runs()), notes()) == ([], [])
            with pytest.raises(RunNotFound):
                _ = run.status

    def test_a_refused_start_leaves_the_transaction_as_it_was(self, database, notes, kind):
        with closing(Engine(database)) as engine, kind(database) as (db, execute):
            engine.start(double, 4, id="r1")
            execute("INSERT INTO note VALUES ('paid')")
            with pytest.raises(RunExists):
                engine.start(double, 5, id="r1", connection=db)
            engine.start(double, 5, id="r2", connection=db)
            db.commit()

            assert notes() == ["paid"] and {run.id for run in engine.runs()} == {"r1", "r2"}

    def test_an_asyncio_program_may_have_a_blocking_one(self, database, notes, kind):
        async def main():
            async with AsyncEngine(database, workflows=[double], poll="1h") as engine:
                with kind(database) as (db, _):
                    run = await engine.start(double, 4, connection=db)
                    db.commit()
                    return await run.result(timeout=20)

        assert asyncio.run(main()) == 8


@asynccontextmanager
async def async_psycopg(database):
    async with await psycopg.AsyncConnection.connect(database) as db:
        yield db, db.execute, db.commit, db.rollback
        await db.rollback()


@asynccontextmanager
async def plain_asyncpg(database):
    db = await asyncpg.connect(database)
    transaction = db.transaction()
    await transaction.start()
    yield db, db.execute, transaction.commit, transaction.rollback
    await db.close()


@asynccontextmanager
async def pooled_asyncpg(database):
    async with asyncpg.create_pool(database, min_size=1, max_size=2) as pool, pool.acquire() as db:
        transaction = db.transaction()
        await transaction.start()
        yield db, db.execute, transaction.commit, transaction.rollback


def async_sqlalchemy(kind, session):
    @asynccontextmanager
    async def opened(database):
        url = of_sqlalchemy(database, kind)
        engine = create_async_engine(url)
        async with AsyncSession(engine) if session else engine.connect() as db:
            yield db, lambda sql: db.execute(sqlalchemy.text(sql)), db.commit, db.rollback
        await engine.dispose()

    return opened


ASYNC = {
    "psycopg": async_psycopg,
    "asyncpg": plain_asyncpg,
    "a pool of asyncpg": pooled_asyncpg,
    "sqlalchemy over psycopg": async_sqlalchemy("psycopg", False),
    "sqlalchemy over asyncpg": async_sqlalchemy("asyncpg", False),
    "a session over psycopg": async_sqlalchemy("psycopg", True),
    "a session over asyncpg": async_sqlalchemy("asyncpg", True),
}


@pytest.fixture
def postgres_database(postgres_server):
    with postgres_server.lend() as url:
        postgres_server.execute("CREATE TABLE note (text TEXT)", url)
        yield url


@pytest.mark.parametrize("kind", ASYNC.values(), ids=ASYNC)
class TestAsynchronous:
    def test_what_is_committed_is_started_and_worked_on_promptly(
        self, postgres_database, postgres_server, kind
    ):
        async def main():
            async with (
                AsyncEngine(postgres_database, workflows=[double], poll="1h") as engine,
                kind(postgres_database) as (db, execute, commit, _),
            ):
                await execute("INSERT INTO note VALUES ('paid')")
                run = await engine.start(double, 4, key="once", tags={"of": "ann"}, connection=db)
                again = await engine.start(double, 4, key="once", connection=db)
                assert run.id == again.id
                with pytest.raises(RunNotFound):
                    await engine.run(run.id)
                await commit()
                return await run.result(timeout=20), await engine.database.check()

        assert asyncio.run(main()) == (8, [])
        assert postgres_server.execute("SELECT text FROM note", postgres_database) == [("paid",)]

    def test_a_flow_changes_in_it(self, postgres_database, kind):
        async def main():
            async with (
                AsyncEngine(postgres_database, work=False) as engine,
                kind(postgres_database) as (db, _, commit, _),
            ):
                flow = await engine.flows.create("c", "g", owner="o", start=True)
                await engine.flows.set(flow.id, goal="another", connection=db)
                assert (await engine.flows.get(flow.id)).goal == "g"
                await commit()
                return (await engine.flows.get(flow.id)).goal, await engine.database.check()

        assert asyncio.run(main()) == ("another", [])

    def test_the_run_may_be_all_there_is_to_commit(self, postgres_database, kind):
        async def main():
            async with (
                AsyncEngine(postgres_database, workflows=[double], poll="1h") as engine,
                kind(postgres_database) as (db, _, commit, _),
            ):
                run = await engine.start(double, 4, connection=db)
                await commit()
                return await run.result(timeout=20)

        assert asyncio.run(main()) == 8

    def test_what_is_rolled_back_never_was(self, postgres_database, postgres_server, kind):
        async def main():
            engine = AsyncEngine(postgres_database)
            async with kind(postgres_database) as (db, execute, _, rollback):
                await execute("INSERT INTO note VALUES ('paid')")
                await engine.start(double, 4, connection=db)
                await rollback()
            found = [run async for run in engine.runs()]
            await engine.close()
            return found

        assert asyncio.run(main()) == []
        assert postgres_server.execute("SELECT text FROM note", postgres_database) == []

    def test_a_refused_start_leaves_the_transaction_as_it_was(
        self, postgres_database, postgres_server, kind
    ):
        async def main():
            engine = AsyncEngine(postgres_database)
            await engine.start(double, 4, id="r1")
            async with kind(postgres_database) as (db, execute, commit, _):
                await execute("INSERT INTO note VALUES ('paid')")
                with pytest.raises(RunExists):
                    await engine.start(double, 5, id="r1", connection=db)
                await commit()
            await engine.close()

        asyncio.run(main())
        assert postgres_server.execute("SELECT text FROM note", postgres_database) == [("paid",)]

    def test_a_blocking_engine_refuses_it_and_says_which_one_takes_it(
        self, postgres_database, kind
    ):
        async def main():
            async with kind(postgres_database) as (db, *_):
                with (
                    closing(Engine(postgres_database)) as engine,
                    pytest.raises(BadOption, match=r"AsyncEngine\(...\).start"),
                ):
                    engine.start(double, 4, connection=db)

        asyncio.run(main())


class TestRefused:
    """What is no connection, or one to somewhere else, or in no transaction."""

    def refusal(self, database, connection):
        async def main():
            engine = AsyncEngine(database)
            try:
                with pytest.raises(BadOption) as refused:
                    await engine.start(double, 4, connection=connection)
                assert [run async for run in engine.runs()] == []
            finally:
                await engine.close()
            return str(refused.value)

        with closing(Engine(database)) as engine, pytest.raises(BadOption) as refused:
            engine.start(double, 4, connection=connection)
        assert asyncio.run(main()) == str(refused.value)
        return str(refused.value)

    @pytest.mark.parametrize("thing", [object(), "postgresql://x", 0, ""])
    def test_what_is_no_connection(self, database, thing):
        expected = "psycopg or asyncpg" if database.startswith("postgresql:") else "sqlite3 or apsw"

        told = self.refusal(database, thing)
        assert "is not accepted" in told and expected in told and "SQLAlchemy" in told

    def test_one_of_the_other_kind_of_database(self, database, postgres_server, tmp_path):
        other = (
            postgres_server.url()
            if not database.startswith("postgresql:")
            else str(tmp_path / "other.db")
        )
        with driver(other) as (db, _):
            assert "connection" in self.refusal(database, db)

    def test_an_asynchronous_one_to_a_file(self, tmp_path):
        async def main():
            path = str(tmp_path / "test.db")
            engine = AsyncEngine(path)
            alchemy = create_async_engine(f"sqlite+aiosqlite:///{path}")
            async with aiosqlite.connect(path) as plain, alchemy.connect() as wrapped:
                for connection in (plain, wrapped):
                    with pytest.raises(BadOption, match="a SQLite file takes a blocking one"):
                        await engine.start(double, 4, connection=connection)
            await alchemy.dispose()
            await engine.close()

        asyncio.run(main())

    def test_one_without_a_transaction(self, postgres_database):
        async def main():
            engine = AsyncEngine(postgres_database)
            db = await asyncpg.connect(postgres_database)
            alchemy = create_async_engine(
                of_sqlalchemy(postgres_database), isolation_level="AUTOCOMMIT"
            )
            async with await psycopg.AsyncConnection.connect(
                postgres_database, autocommit=True
            ) as other:
                for connection in (db, other):
                    with pytest.raises(BadOption, match="no open transaction"):
                        await engine.start(double, 4, connection=connection)
            async with alchemy.connect() as connection:
                with pytest.raises(BadOption, match="no open transaction"):
                    await engine.start(double, 4, connection=connection)
            await alchemy.dispose()
            await db.close()
            await engine.close()

        asyncio.run(main())

    def test_one_to_another_database(self, postgres_database, postgres_server):
        async def main():
            engine = AsyncEngine(postgres_database)
            db = await asyncpg.connect(postgres_server.url())
            async with db.transaction():
                with pytest.raises(BadOption, match="another database"):
                    await engine.start(double, 4, connection=db)
                assert await db.fetchval("SELECT 1") == 1
            await db.close()
            await engine.close()

        asyncio.run(main())
