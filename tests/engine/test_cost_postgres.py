"""What the hot path costs on PostgreSQL: round trips and transactions, counted, so that nobody makes it longer unseen."""

from __future__ import annotations

import pytest
from psycopg import pq

from holdfast import Engine, step, workflow
from holdfast.store.postgres import clock, messenger
from holdfast.store.postgres.connection import Connection


@step
async def frugal(n: int) -> int:
    return n


@workflow
async def thrifty(steps: int) -> int:
    for n in range(steps):
        await frugal(n)
    return steps


@pytest.fixture
def trips(postgres_server, monkeypatch):
    """Return a function that runs *count* workflows of *n* steps at once and tells the round trips of the writer, as sent."""
    said: list[str] = []
    monkeypatch.setattr(clock, "EVERY", 3_600_000_000)  # nobody asks for the time in between,
    monkeypatch.setattr(messenger, "LOOK_EVERY", 3600.0)  # nor whether there is work

    def heard(name):
        real = getattr(Connection, name)

        def call(db, *args, **kwargs):
            if db is store._writer:
                said.append(name)
            return real(db, *args, **kwargs)

        return call

    with postgres_server.lend() as url, Engine(url, poll="1h", lifetime="1h") as engine:
        store = engine._parts.store
        engine.start(thrifty, 1).result(timeout=20)
        for name in ("rows", "change", "append", "many", "script"):
            monkeypatch.setattr(Connection, name, heard(name))

        def once(n: int, count: int) -> tuple[list[str], int]:
            said.clear()
            commits = store.commits
            for one in engine.start_many(thrifty, [n] * count):
                one.result(timeout=20)
            return [*said], store.commits - commits

        def run(n: int, count: int = 1) -> tuple[list[str], int]:
            """Of three times, the one in which the worker did the least besides."""
            return min((once(n, count) for _ in range(3)), key=lambda found: len(found[0]))

        yield run


def test_a_run_is_one_round_trip_per_step_and_one_more(trips):
    for steps in (1, 2, 5):
        said, commits = trips(steps)

        assert len(said) == steps + 1, said  # the start; each step; the last one shares its trip with the end
        assert commits == steps + 1


def test_a_step_in_sequence_takes_the_shortest_way(trips):
    said, _ = trips(5)

    assert said[1:5] == ["append"] * 4


def test_runs_at_once_share_their_round_trips(trips):
    said, commits = trips(5, count=50)

    assert len(said) < 50
    assert commits < 30


def test_the_writer_waits_in_no_transaction(trips, postgres_server):
    trips(3)

    idle = pq.TransactionStatus.IDLE.name.lower()
    states = postgres_server.execute("SELECT DISTINCT state FROM pg_stat_activity WHERE application_name = 'holdfast'")
    assert {state for (state,) in states} == {idle}
