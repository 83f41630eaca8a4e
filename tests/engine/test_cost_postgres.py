"""What the hot path costs on PostgreSQL: round trips and transactions, counted, so that nobody
makes it longer unseen."""

from __future__ import annotations

import threading

import pytest
from psycopg import pq

from holdfast import Engine, step, wait_signal, workflow
from holdfast.budgets import spend
from holdfast.store.postgres import clock, notifier
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.dialect import SQL
from holdfast.testing import internals
from tests.engine.waiting import wait_for
from tests.store.helpers import wait_until

WAYS = (
    "rows",
    "rows_within",
    "change",
    "change_within",
    "append",
    "rows_autocommit",
    "many",
    "script",
    "execute",
)
"""How something is said to the server."""


@step
async def frugal(n: int) -> int:
    return n


@workflow
async def thrifty(steps: int) -> int:
    for n in range(steps):
        await frugal(n)
    return steps


@workflow
async def attentive() -> int:
    return await wait_signal("go")


@step
async def costly(n: int) -> int:
    spend(tokens=1)
    return n


@workflow
async def generous(steps: int) -> int:
    for n in range(steps):
        await costly(n)
    return steps


@pytest.fixture
def told(postgres_server, monkeypatch):
    """Return an engine, and a list of what is said to its database: by the writer how, by others
    what is asked."""
    said: list[str] = []
    names = {text: name for name, text in SQL.items()}
    monkeypatch.setattr(clock, "EVERY", 3_600_000_000)  # nobody asks for the time in between,
    monkeypatch.setattr(notifier, "LOOK_EVERY", 3600.0)  # nor whether there is work

    def heard(name):
        real = getattr(Connection, name)

        def call(db, *args, **kwargs):
            said.append(name if db is store.database._writer else f"asked: {names.get(args[0])}")
            return real(db, *args, **kwargs)

        return call

    with postgres_server.lend() as url, Engine(url, poll="1h", session_ttl="1h") as engine:
        store = internals(engine).store
        engine.start(thrifty, 1).result(timeout=20)
        for name in WAYS:
            monkeypatch.setattr(Connection, name, heard(name))
        yield engine, said


@pytest.fixture
def trips(told):
    """Return a function that runs *count* workflows of *n* steps at once and tells the round trips
    of the writer, as sent."""
    engine, said = told
    store = internals(engine).store

    def once(n: int, count: int) -> tuple[list[str], int]:
        said.clear()
        commits = store.database.commits
        for one in engine.start_many(thrifty, [n] * count):
            one.result(timeout=20)
        # The last commit is counted when the loop has ended its turn.
        turned = threading.Event()
        internals(engine).writer._loop.call_soon_threadsafe(turned.set)
        assert turned.wait(20)
        return [
            result for result in said if not result.startswith("asked")
        ], store.database.commits - commits

    def run(n: int, count: int = 1) -> tuple[list[str], int]:
        """Of three times, the one in which the worker did the least besides."""
        return min((once(n, count) for _ in range(3)), key=lambda found: len(found[0]))

    return run


def test_a_signal_is_one_round_trip_and_what_it_leads_to_is_the_next(told):
    engine, said = told
    found = []
    for _ in range(3):
        run = engine.start(attentive)
        wait_for(engine, run, "waiting")
        said.clear()
        engine.signal(run.id, "go", 7)
        assert run.result(timeout=20) == 7
        found.append(
            [
                result
                for result in said
                if result not in ("asked: run", "asked: runs_by_id", "asked: None")
            ]
        )  # whoever waits for it looks, and tells

    assert min(found, key=len) == ["rows_autocommit", "rows_autocommit"], (
        found
    )  # nobody reads what was told


def test_a_signal_to_a_suspended_task_is_one_round_trip(postgres_server, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(clock, "EVERY", 3_600_000_000)
    with postgres_server.lend() as url:
        engine = Engine(url)  # nobody works here
        run = engine.start("thrifty_task", 1)
        with engine.tasks.worker(workflows=["thrifty_task"]) as leases:
            (lease,) = leases.claim()
            lease.suspend("go", timeout="1h")
        writer = internals(engine).store.database._writer
        for name in WAYS:
            real = getattr(writer, name)
            monkeypatch.setattr(
                writer,
                name,
                lambda *args, name=name, real=real: (said.append(name), real(*args))[1],
            )
        for name, status in (("other", "waiting"), ("go", "pending")):
            engine.signal(run.id, name)
            assert run.status == status
        assert said == ["rows_autocommit"] * 2
        engine.close()


def test_to_lease_tasks_that_waited_is_two_statements_in_a_transaction(
    postgres_server, monkeypatch
):
    said: list[str] = []
    monkeypatch.setattr(clock, "EVERY", 3_600_000_000)
    with postgres_server.lend() as url:
        engine = Engine(url)  # nobody works here
        runs = engine.start_many("patient_task", range(3))
        with engine.tasks.worker(workflows=["patient_task"]) as leases:
            for lease in leases.claim(3):
                lease.suspend("go")
            for run in runs:
                engine.signal(run.id, "go")
            writer = internals(engine).store.database._writer
            for name in WAYS:
                real = getattr(writer, name)
                monkeypatch.setattr(
                    writer,
                    name,
                    lambda *args, name=name, real=real: (said.append(name), real(*args))[1],
                )
            assert len(leases.claim(3)) == 3
            assert said == [
                "execute",
                "rows",
                "rows",
                "execute",
            ]  # it begins, leases, writes what their waits came to, commits
        engine.close()


def test_a_run_is_one_round_trip_per_step_and_one_more(trips):
    for steps in (1, 2, 5):
        said, commits = trips(steps)

        assert len(said) == steps + 1, (
            said
        )  # the start; each step; the last one shares its trip with the end
        assert commits == steps + 1


def test_a_step_in_sequence_takes_the_shortest_way(trips):
    said, _ = trips(5)

    assert said[1:5] == ["append"] * 4


def test_runs_at_once_share_their_round_trips(trips):
    said, commits = trips(5, count=50)

    assert len(said) < 50
    assert commits < 30


def test_what_steps_spend_travels_with_them(told):
    engine, said = told
    engine.budgets.set("team", {"tokens": 10**6})

    def trips(count: int) -> int:
        said.clear()
        for one in engine.start_many(generous, [5] * count, budget="team"):
            one.result(timeout=20)
        return len([result for result in said if not result.startswith("asked")])

    assert (
        min(trips(1) for _ in range(3)) <= 6 + 5 + 1
    )  # the start, which looks for the budget; each step; the end
    assert min(trips(50) for _ in range(3)) < 60  # 250 steps


def test_the_writer_waits_in_no_transaction(told, trips, postgres_server):
    trips(3)

    (engine, _), idle = told, pq.TransactionStatus.IDLE.name.lower()
    writer = internals(engine).store.database._writer
    state = f"SELECT state FROM pg_stat_activity WHERE pid = {writer.pid}"
    wait_until(
        lambda: postgres_server.execute(state) == [(idle,)]
    )  # it may be about to write something, but not for ever
