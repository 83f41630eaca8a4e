"""Moving house: an installation is copied from one database to another, and its runs go on
there."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from holdfast import Engine, start, step, workflow
from holdfast.connect.open_store import open_store
from holdfast.core.payload import Seal
from holdfast.core.sessions import Session
from holdfast.errors import BadOption, StoreHalfCopied, StoreInUse, StoreNotEmpty, StoreSealed
from holdfast.service import copy as copy_service
from holdfast.service.copy import copy_store, take_inventory
from holdfast.store.runs.copy_operations import SealStore, UnsealStore
from holdfast.store.runs.operations import EndSession, OpenSession
from holdfast.testing import internals
from holdfast.testing.clock import VirtualClock
from tests.engine.installation import go_on, plain, populate, undone
from tests.store.helpers import wait_until


@pytest.fixture(autouse=True)
def _calm():
    undone.clear()


@pytest.fixture(params=["to_postgres", "to_sqlite", "file_to_file"])
def places(request, tmp_path):
    """Where the runs are and where they go: URLs of two empty databases."""
    one, other = str(tmp_path / "one.db"), str(tmp_path / "other.db")
    if request.param == "file_to_file":
        yield one, other
        return
    with request.getfixturevalue("postgres_server").lend() as url:
        yield (one, url) if request.param == "to_postgres" else (url, other)


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def impatient(monkeypatch):
    """A copy does not wait long for workers that stay alive."""
    monkeypatch.setattr(copy_service, "PATIENCE", 0.05)


def copy(source, target, clock=None):
    with closing(open_store(source, clock=clock)) as store:
        return copy_store(store, lambda: open_store(target, clock=clock, half_copied=True))


def test_an_installation_moves_and_all_its_runs_go_on(places, clock):
    source, target = places
    ids = populate(source, clock)
    with closing(Engine(source, clock=clock)) as old:
        runs, lanes = old.runs().page(limit=100), old.lanes.list()

    moved = copy(source, target, clock)

    assert moved.same
    with (
        closing(open_store(source, sealed=True)) as old,
        closing(Engine(target, clock=clock)) as new,
    ):
        assert (old.check(), new.database.check()) == ([], [])
        assert new.runs().page(limit=100) == runs
        assert new.lanes.list() == lanes
        assert new.run(ids["completed"]).record.key == "order-1"
    go_on(target, clock, ids)
    assert undone == ["undone 8"]


def test_what_went_there_comes_back_the_same(postgres_server, tmp_path, clock):
    home, back = str(tmp_path / "home.db"), str(tmp_path / "back.db")
    ids = populate(home, clock)

    with postgres_server.lend() as away:
        moved = [copy(home, away, clock), copy(away, back, clock)]

    assert len({one.digest for each in moved for one in (each.source, each.target)}) == 1
    go_on(back, clock, ids)


def test_what_is_counted_is_what_is_there(places, clock):
    source, target = places
    populate(source, clock)

    found = copy(source, target, clock).target

    assert found.runs == {
        "cancelling": 1,
        "completed": 4,
        "failed": 1,
        "pending": 2,
        "stuck": 1,
        "waiting": 5,
    }
    assert (found.tags, found.lanes) == (2, 2)
    assert found.signals == 3


def test_it_goes_in_portions(places, clock, monkeypatch):
    source, target = places
    populate(source, clock)
    portions = []
    monkeypatch.setattr(copy_service, "BYTES", 1000)

    with closing(open_store(source, clock=clock)) as store:
        moved = copy_store(
            store,
            lambda: open_store(target, half_copied=True),
            lambda what, runs: portions.append((what, runs)),
        )

    assert moved.same
    copied = [runs for what, runs in portions if what == copy_service.COPYING]
    assert len(copied) > 3
    assert sum(copied) == 14


def test_an_empty_database_moves_too(places):
    source, target = places
    Engine(source).close()

    assert copy(source, target).same
    with pytest.raises(StoreSealed):
        copy(source, target)


def test_the_source_refuses_every_engine_and_names_the_target(places):
    source, target = places
    with closing(Engine(source)) as client:
        client.start(plain, 1, id="before")
        copy(source, target)

        for call in (
            lambda: client.start(plain, 2),
            lambda: client.cancel("before"),
            lambda: client.signal("before", "paid"),
        ):
            with pytest.raises(StoreSealed, match="moved_to=") as refused:
                call()
            assert (
                refused.value.facts["moved_to"]
                .split("?")[0]
                .endswith(target.split("?")[0].rpartition("/")[2])
            )
    with pytest.raises(StoreSealed, match=r"holdfast db unseal"):
        Engine(source)
    with closing(open_store(target)) as store:
        assert store.runs.counts() == {"pending": 1}


def test_a_worker_that_lost_its_session_to_the_copy_does_nothing_and_says_why(places, caplog):
    source, _ = places
    seal = Seal(at=1, moved_to="sqlite:////elsewhere.db")
    with Engine(source, workflows=[plain], session_ttl="300ms") as engine:
        (session,) = internals(engine).store.sessions.all()
        with closing(open_store(source)) as other:
            other.apply([EndSession(session.id, crashed=True), SealStore(seal, lambda: True)])

        wait_until(lambda: "this worker was paused" in caplog.text)
        with pytest.raises(StoreSealed, match="elsewhere"):
            engine.start(plain, 1)
        assert internals(engine).store.sessions.all() == []
    assert "elsewhere.db" in caplog.text


def test_an_unsealed_source_works_again(places):
    source, target = places
    with closing(Engine(source)) as engine:
        engine.start(plain, 1, id="r")
    copy(source, target)
    with closing(open_store(source, sealed=True)) as store:
        store.apply([UnsealStore()])

    with Engine(source, workflows=[plain]) as engine:
        assert engine.run("r").result(timeout=20) == 2
        assert engine.database.check() == []


def test_a_run_that_a_user_starts_in_a_transaction_of_their_own_is_refused_too(tmp_path):
    source, target = str(tmp_path / "one.db"), str(tmp_path / "other.db")
    with (
        closing(Engine(source, driver="sqlite3")) as engine,
        closing(sqlite3.connect(source)) as mine,
    ):
        copy(source, target)

        with pytest.raises(StoreSealed):
            engine.start(plain, 1, connection=mine)


def test_whatever_differs_is_seen(places, clock):
    source, _ = places
    populate(source, clock)
    with closing(open_store(source, clock=clock)) as store:
        before = take_inventory(store)

        with closing(Engine(source, clock=clock)) as engine:
            engine.lanes.set("narrow", concurrency=2, rate="5/h")

        assert take_inventory(store).digest != before.digest


def test_nobody_may_work_on_the_source(places, tmp_path, impatient):
    source, target = places

    with (
        Engine(source),
        pytest.raises(StoreInUse, match=r"stop that worker.*worker=.*pid=\d+.*host=") as refused,
    ):
        copy(source, target)

    assert refused.value.facts["pid"] == os.getpid()
    assert not (tmp_path / "other.db").exists()


def test_nobody_may_work_on_the_target(places, impatient):
    source, target = places
    Engine(source).close()

    with Engine(target), pytest.raises(StoreInUse):
        copy(source, target)


def test_nobody_begins_to_work_on_the_target_before_the_copy_has_ended(places):
    source, target = places
    with closing(Engine(source)) as engine:
        engine.start(plain, 1, id="r")
        engine.start("task", 1, id="t")
    refused = []
    with closing(Engine(target, workflows=[plain])) as early:

        def begin_to_work(what, runs):
            for call in (early.work, lambda: early.tasks.worker("holder", workflows=["task"])):
                with pytest.raises(StoreHalfCopied):
                    call()
                refused.append(what)

        with closing(open_store(source)) as store:
            moved = copy_store(store, lambda: open_store(target, half_copied=True), begin_to_work)

        assert (moved.same, set(refused)) == (True, {copy_service.COPYING, copy_service.CHECKING})
        early.work()
        assert early.run("r").result(timeout=20) == 2


def test_a_worker_elsewhere_counts_as_alive_until_its_session_expires(places, clock, impatient):
    source, target = places
    with closing(open_store(source, clock=clock)) as store:
        now = clock.now()
        session = Session(
            id="s",
            worker="far",
            host="elsewhere",
            pid=7,
            slot=-1,
            started_at=now,
            beat_at=now,
            expires_at=now + 15_000_000,
            serves=b"{}",
        )
        store.apply([OpenSession(session)])

    with pytest.raises(StoreInUse, match=r"far.*7.*elsewhere"):
        copy(source, target, clock)

    clock.advance("1m")
    assert copy(source, target, clock).same


HELD = """
import sys
from holdfast import Engine, start, step, workflow

@step
def hang(n):
    print(flush=True)
    sys.stdin.readline()
    return n

@workflow(name="moving_held")
async def held(n):
    return await hang(n)

with Engine(sys.argv[1]) as engine:
    engine.start(held, 5, id="held").result()
"""


@step
async def hang(n: int) -> int:
    return n


@workflow(name="moving_held")
async def held(n: int) -> int:
    return await hang(n)


def test_what_a_dead_worker_held_goes_on_there(places, monkeypatch):
    source, target = places
    with subprocess.Popen(
        [sys.executable, "-c", HELD, source], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        worker.stdout.readline()
        with monkeypatch.context() as impatient, pytest.raises(StoreInUse):
            impatient.setattr(copy_service, "PATIENCE", 0.05)
            copy(source, target)
        worker.kill()
    with closing(open_store(source)) as store:
        (session,) = store.sessions.all()
        wait_until(
            lambda: store.liveness.is_alive(session) is False
        )  # a server takes a moment to see that somebody is gone

    moved = copy(source, target)

    assert (moved.same, moved.target.runs) == (True, {"pending": 1})
    with Engine(target, workflows=[held]) as engine:
        assert engine.run("held").record.crashes == 1
        assert engine.run("held").result(timeout=20) == 5
        assert engine.database.check() == []


def test_a_target_with_runs_is_refused_and_stays_as_it_is(places):
    source, target = places
    for url, n in ((source, 1), (target, 2)):
        with closing(Engine(url)) as engine:
            engine.start(plain, n, id=f"run {n}")

    with pytest.raises(StoreNotEmpty, match="runs=1"):
        copy(source, target)

    with closing(Engine(target)) as engine:
        assert [run.id for run in engine.runs()] == ["run 2"]


@pytest.mark.parametrize("url", ["sqlite", "postgres"])
@pytest.mark.parametrize("runs", [0, 1])
def test_a_database_is_not_copied_to_itself(url, runs, tmp_path, postgres_server):
    with postgres_server.lend() as database:
        place = str(tmp_path / "one.db") if url == "sqlite" else database
        with closing(Engine(place)) as engine:
            engine.start_many(plain, range(runs))

        with pytest.raises(BadOption, match="same"):
            copy(place, place)

        Engine(place).close()


def test_one_database_under_two_names_is_recognised(postgres_server):
    with postgres_server.lend() as url:
        with pytest.raises(BadOption, match="same"):
            copy(url, f"{url}&connect_timeout=9")

        Engine(url).close()


class Interrupted(Exception):
    pass


def interrupt(source, target, clock):
    """Begin to copy, and be interrupted after the first portion."""

    def stop(what, runs):
        raise Interrupted

    with closing(open_store(source, clock=clock)) as store, pytest.raises(Interrupted):
        copy_store(store, lambda: open_store(target, clock=clock, half_copied=True), stop)


def test_a_half_copied_target_can_be_used_for_nothing_but_the_next_copy(places, clock, monkeypatch):
    source, target = places
    ids = populate(source, clock)
    monkeypatch.setattr(copy_service, "RUNS", 5)

    interrupt(source, target, clock)

    with pytest.raises(StoreHalfCopied, match=r"was not finished.*repeat `holdfast db copy"):
        Engine(target)
    with pytest.raises(StoreHalfCopied):
        copy(target, source, clock)
    with closing(open_store(target, half_copied=True)) as half, pytest.raises(StoreHalfCopied):
        copy_store(half, lambda: open_store(source))
    interrupt(source, target, clock)
    assert copy(source, target, clock).same
    go_on(target, clock, ids)


def test_a_target_that_turns_out_to_differ_stays_half_copied(places, clock):
    source, target = places
    populate(source, clock)

    def disturb(what, runs):
        if what == copy_service.COPYING:
            with closing(Engine(source, clock=clock)) as engine:
                engine.start(plain, 99, delay="1d", id="0 is behind us")

    with closing(open_store(source, clock=clock)) as store:
        moved = copy_store(store, lambda: open_store(target, half_copied=True), disturb)

    assert not moved.same
    assert moved.source.runs["pending"] == moved.target.runs["pending"] + 1
    with pytest.raises(StoreHalfCopied):
        Engine(target)
    assert copy(source, target, clock).same


def test_who_moves_first_is_still_first(places, clock):
    source, target = places
    with closing(Engine(source, clock=clock)) as engine:
        engine.start(plain, 1, id="b")
        clock.advance("1s")
        engine.start(plain, 2, id="a")

    copy(source, target, clock)

    with closing(open_store(target, clock=clock)) as store:
        ranks = {
            snapshot.run.id: snapshot.rank for snapshot in store.run_snapshots.page("", 9, 1 << 20)
        }
        assert ranks["a"] - ranks["b"] == 1_000_000


@workflow(name="moving.grandchild")
async def grandchild(n: int) -> int:
    return n


@workflow(name="moving.middle")
async def middle(n: int) -> int:
    return await (await start(grandchild, n, id="grandchild")).result()


@workflow(name="moving.top")
async def top(n: int) -> int:
    return await (await start(middle, n, id="middle")).result()


def test_a_child_that_is_exported_without_its_parent_is_a_root_there(database, tmp_path):
    with Engine(database) as engine:
        assert engine.start(top, 7).result(timeout=20) == 7
        assert engine.database.export("middle", tmp_path / "one.db") == 2
    with Engine(tmp_path / "one.db") as engine:
        assert engine.database.check() == []
        assert (
            engine.run("middle").record.parent_id,
            engine.run("grandchild").record.parent_id,
        ) == (None, "middle")
        assert engine.run("middle").result(timeout=20) == 7


def test_a_reader_of_flows_misses_no_event_in_the_copy(places):
    source, target = places
    with closing(Engine(source, work=False)) as old:
        first = old.flows.create("research", "find it", owner="anna", start=True)
        old.flows.finish(first.id)
        assert len(list(old.events.read(name="mirror", source="flows"))) == 3
        old.flows.prune("0s")
        kept = old.flows.create("research", "find more", owner="anna", start=True)

    copy(source, target)

    with closing(Engine(target, work=False)) as new:
        read = [event.run_id for event in new.events.read(name="mirror", source="flows")]
        assert read == [kept.id, kept.id]
        new.flows.finish(kept.id)
        (last,) = new.events.read(name="mirror", source="flows")
        assert (last.run_id, last.kind) == (kept.id, "finished")
