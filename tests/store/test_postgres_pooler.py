"""Behind a real pooler in transaction mode: each transaction may meet another session, and no
session remembers anything."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import closing

import psycopg
import pytest

from holdfast import Engine, sleep, step, wait_signal, workflow
from holdfast.store.postgres import PostgresDatabase
from holdfast.store.store import Store
from holdfast.testing import internals
from holdfast.testing.conformance import (
    AdvanceConformance,
    BatchConformance,
    ClaimConformance,
    ReadConformance,
    StartConformance,
    TransactionalStepFixture,
)
from tests.store.helpers import wait_until
from tests.store.pooler import pooler
from tests.store.test_postgres import OnPolledPostgres

pytestmark = pytest.mark.needs_tool("pgbouncer")


@step(name="pooler.note", retries=3, delay="1ms")
async def note(n: int) -> int:
    return n


@workflow(name="pooler.counting")
async def counting(n: int) -> int:
    found = sum([await note(n), await note(n), await note(n)])
    await sleep("10ms")
    return found + await wait_signal("add")


CUT = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND datname = current_database()"""
WORKER = """
import sys
sys.path.insert(0, {root!r})
from holdfast import Engine
from tests.store.test_postgres_pooler import counting
with Engine({url!r}, workflows=[counting], session_ttl="2s"):
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def between(postgres_server):
    with pooler(postgres_server) as found:
        yield found


@pytest.fixture
def direct(postgres_server):
    with postgres_server.lend() as url:
        yield url


@pytest.fixture
def url(direct, between):
    return between.url(direct)


class TestContract(
    StartConformance,
    AdvanceConformance,
    BatchConformance,
    ClaimConformance,
    TransactionalStepFixture,
    ReadConformance,
    OnPolledPostgres,
):
    """The conformance suite through the pooler."""

    @pytest.fixture
    def url(self, direct, between):
        return between.url(direct)


def traces(server, direct, url):
    """Return the state of server sessions: prepared statements, channels, locks."""
    with psycopg.connect(url, prepare_threshold=None, autocommit=True) as db:
        found = db.execute("SELECT name FROM pg_prepared_statements").fetchall()
        found += db.execute("SELECT pg_listening_channels()").fetchall()
    held = """SELECT objid FROM pg_locks WHERE locktype = 'advisory'
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
    return found + server.execute(held, direct)


@pytest.mark.parametrize("options", ["", "&notify=off"])
def test_a_pooler_is_recognised_and_nothing_is_left_in_its_sessions(
    url, direct, postgres_server, options
):
    with Engine(url + options, workflows=[counting]) as engine:
        assert not internals(engine).store.database._writer.direct
        runs = engine.start_many(counting, range(30))
        for run in runs:
            run.signal("add", 1)
        assert [run.result(timeout=60) for run in runs] == [3 * n + 1 for n in range(30)]
        assert not internals(engine).store.database._notifier.listens
        assert traces(postgres_server, direct, url) == []
        assert engine.database.check() == []


def test_what_is_started_elsewhere_is_found_by_looking(url):
    with (
        Engine(url + "&notify=off", workflows=[counting], poll="1h"),
        closing(Engine(url)) as elsewhere,
    ):
        run = elsewhere.start(counting, 2)
        run.signal("add", 1)
        assert run.result(timeout=20) == 7


def test_with_a_way_around_it_a_listener_is_told_and_seen_to_live(url, direct):
    from urllib.parse import quote

    around = f"{url}&listen={quote(direct, safe='')}"
    with Engine(around, workflows=[counting], poll="1h") as engine:
        assert (
            internals(engine).store.database._notifier.listens
            and not internals(engine).store.database._writer.direct
        )
        assert internals(engine).store.sessions.all()[0].slot >= 0
        run = engine.start(counting, 2)
        run.signal("add", 1)
        assert run.result(timeout=20) == 7


def test_a_killed_worker_is_noticed_by_its_heartbeat(url, direct):
    from pathlib import Path

    code = WORKER.format(root=str(Path(__file__).parents[2]), url=url)
    with closing(Engine(url)) as engine:
        victim = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
        try:
            run = engine.start(counting, 2)
            wait_until(lambda: run.status == "waiting", 30)
        finally:
            victim.kill()
            victim.communicate()
        with Engine(url, workflows=[counting], session_ttl="2s"):
            run.signal("add", 1)
            assert run.result(timeout=30) == 7


def test_its_connections_are_cut_and_nothing_is_lost_or_doubled(url, direct, postgres_server):
    with Engine(url, workflows=[counting]) as engine:
        runs = []
        for number in range(20):
            runs.append(engine.start(counting, number))
            if number % 3 == 0:
                postgres_server.execute(CUT, direct)
        for run in runs:
            run.signal("add", 1)
        assert [run.result(timeout=60) for run in runs] == [3 * n + 1 for n in range(20)]
        kinds = [[event.kind for event in run.history()].count("step_completed") for run in runs]
        assert kinds == [3] * 20
        assert engine.database.check() == []


def test_more_programs_than_sessions_wait_for_each_other(direct, postgres_server):
    with pooler(postgres_server, size=1) as narrow:
        stores = [Store(PostgresDatabase(narrow.url(direct))) for _ in range(5)]
        engine = Engine(narrow.url(direct), workflows=[counting])
        try:
            with engine:
                runs = engine.start_many(counting, range(10))
                for run in runs:
                    run.signal("add", 1)
                assert [run.result(timeout=60) for run in runs] == [3 * n + 1 for n in range(10)]
            assert {store.runs.get(runs[0].id).status for store in stores} == {"completed"}
        finally:
            for store in stores:
                store.close()


def test_a_run_is_started_in_a_transaction_of_ones_own(url):
    with (
        Engine(url, workflows=[counting]) as engine,
        psycopg.connect(url, prepare_threshold=None) as db,
    ):
        run = engine.start(counting, 2, connection=db)
        db.commit()
        run.signal("add", 1)
        assert run.result(timeout=20) == 7


def test_asyncpg_through_it(url):
    import asyncpg

    from holdfast import AsyncEngine

    async def main():
        db = await asyncpg.connect(url, statement_cache_size=0)
        async with AsyncEngine(url, workflows=[counting]) as engine:
            async with db.transaction():
                run = await engine.start(counting, 2, connection=db)
            await run.signal("add", 1)
            result = await run.result(timeout=20)
        await db.close()
        return result

    assert asyncio.run(main()) == 7
