"""Threads and processes that share a SQLite file."""

import os
import signal
import threading

import pytest

from holdfast.core.status import Status
from holdfast.errors import EngineClosed, StoreBusy
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.sqlite import SqliteDatabase, liveness
from holdfast.store.sqlite import adapter as store_module
from holdfast.store.store import Store
from tests.store.sqlite.helpers import connect, in_threads, open_session, processes, start, tell_all
from tests.store.sqlite.processes import ENOUGH


class TestManyAtOnce:
    def test_four_processes_share_a_file_and_none_starves(self, store, path, driver):
        with processes("hammer", path, driver, 4) as many:
            assert tell_all(many) == [ENOUGH] * 4  # no process stops before all have done this many
            counts = tell_all(many)

        assert min(counts) >= ENOUGH
        assert store.runs.counts() == {"completed": sum(counts)}
        histories = store.runs.histories(
            [run.id for run in store.runs.find(RunFilter(limit=10**6))]
        )
        assert {len(events) for events in histories.values()} == {2}
        assert (store.check(), store.sessions.all()) == ([], [])

    def test_threads_share_a_store(self, store):
        numbers = iter(range(10**6))

        def work():
            for _ in range(50):
                run_id = f"r{next(numbers)}"
                assert start(store, run_id).created
                assert store.runs.get(run_id).status is Status.PENDING

        in_threads(work, 4)

        assert store.runs.counts() == {"pending": 200}

    def test_who_reads_does_not_keep_anybody_from_writing(self, store, path, driver):
        start(store)
        with connect(path, driver) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT COUNT(*) FROM holdfast_run").fetchall() == [(1,)]

            assert start(store, "r2").created

            assert reader.execute("SELECT COUNT(*) FROM holdfast_run").fetchall() == [(1,)]
            assert store.runs.counts() == {"pending": 2}
            reader.execute("COMMIT")

    def test_who_writes_does_not_keep_anybody_from_reading(self, store, path, driver):
        start(store)
        with connect(path, driver) as writer:
            writer.execute("BEGIN IMMEDIATE")
            writer.execute("DELETE FROM holdfast_run")

            assert store.runs.counts() == {"pending": 1}
            writer.execute("ROLLBACK")

    def test_a_lock_that_is_kept_too_long_is_told_and_nothing_is_written(
        self, store, path, driver, monkeypatch
    ):
        monkeypatch.setattr(store_module, "LOCK_PATIENCE", 0.05)
        with connect(path, driver) as writer:
            writer.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreBusy):
                start(store)
            writer.execute("ROLLBACK")

        assert store.runs.counts() == {}
        assert start(store).created

    def test_a_store_can_be_closed_while_others_are_reading(self, path, driver):
        store = Store(SqliteDatabase(path, driver=driver))
        start(store)
        reading = threading.Barrier(5)

        def read():
            store.runs.get("r1")
            reading.wait()
            with pytest.raises(EngineClosed):
                while True:
                    assert store.runs.get("r1") is not None

        def close():
            reading.wait()
            store.close()

        work = iter([read, read, read, read, close])
        in_threads(lambda: next(work)(), 5)

        assert store.database._reader._idle == []

    def test_whoever_looks_for_the_files_while_it_is_closed_hears_that_it_is_closed(
        self, path, driver
    ):
        store = Store(SqliteDatabase(path, driver=driver))
        start(store)
        store.close()  # deletes the WAL

        with pytest.raises(EngineClosed):
            store.database._refuse_when_gone()

    def test_a_closed_store_says_so(self, path, driver):
        store = Store(SqliteDatabase(path, driver=driver))
        store.close()
        store.close()

        for use in (lambda: start(store), lambda: store.runs.get("r1"), store.changed, store.check):
            with pytest.raises(EngineClosed):
                use()

    def test_readers_are_as_many_as_read_at_once(self, store):
        for _ in range(20):
            in_threads(lambda: store.runs.get("r1"), 1)

        assert len(store.database._reader._idle) == 1


class TestProcesses:
    def test_a_killed_process_is_noticed_at_once(self, store, path, driver):
        with processes("live", path, driver, 1) as (process,):
            (session,) = store.sessions.all()
            assert (session.id, store.liveness.is_alive(session)) == (process.said, True)

            process.send_signal(signal.SIGKILL)
            process.wait()

            assert store.liveness.is_alive(session) is False

    def test_a_process_of_another_host_cannot_be_seen(self, store):
        (session,) = (open_session(store, slot=store.liveness.acquire()), store.sessions.all())[1]

        assert store.liveness.is_alive(session) is None

    def test_nobody_gets_the_place_of_another(self, store, path, driver):
        places = [store.liveness.acquire() for _ in range(50)]

        assert len(set(places)) == 50
        for place in places:
            store.liveness.release(place)

    def test_threads_do_not_take_each_others_places(self, path):
        mine = liveness.LivenessLocks(str(path))
        taken = []

        def work():
            for _ in range(50):
                place = mine.take()
                taken.append(place)
                assert mine.is_alive(place, os.getpid()) is True

        in_threads(work, 4)

        assert len(set(taken)) == 200

    def test_a_system_without_locks_cannot_tell(self, store, monkeypatch):
        monkeypatch.setattr(liveness, "fcntl", None)

        assert store.liveness.acquire() == -1

    def test_a_forked_child_opens_its_own(self, path, driver):
        with processes("fork", path, driver, 1, waits=False) as (process,):
            assert process.said == [0, ["after", "before", "child"], []]
