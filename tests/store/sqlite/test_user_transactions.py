"""Runs that start in a transaction of the user, and steps inside a transaction of the store."""

import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast.core.events import Event, EventKind
from holdfast.errors import BadOption, StoreBusy, StoreError, StoreFull
from holdfast.store.runs.operations import Advance, Advanced, Body, StartRuns
from holdfast.store.signals.operations import SignalRun, WaitDelivery
from holdfast.store.sqlite import SqliteDatabase
from holdfast.store.store import Store
from tests.store.sqlite.helpers import connect, new, open_session, start, transaction


class TestStartingWithin:
    def test_the_transaction_that_python_begins_by_itself_is_the_callers(self, path):
        with (
            closing(Store(SqliteDatabase(path, driver="sqlite3"))) as store,
            closing(sqlite3.connect(path)) as connection,
        ):
            store.start_within(connection, [new()])
            assert connection.in_transaction
            connection.rollback()
            assert store.runs.counts() == {}

            store.start_within(connection, [new()])
            connection.commit()
            assert store.runs.counts() == {"pending": 1}

    def test_a_connection_without_a_transaction_is_refused(self, path, driver):
        with (
            closing(Store(SqliteDatabase(path, driver=driver))) as store,
            connect(path, driver) as connection,
        ):
            if driver == "sqlite3":
                connection.isolation_level = None
            with pytest.raises(BadOption, match="no open transaction"):
                store.start_within(connection, [new()])

        assert not Path(f"{path}-wal").exists()

    def test_a_connection_to_another_file_is_refused(self, store, tmp_path, driver):
        with (
            transaction(tmp_path / "other.db", driver) as connection,
            pytest.raises(BadOption, match="another database"),
        ):
            store.start_within(connection, [new()])

    def test_what_is_no_connection_is_refused(self, store):
        with pytest.raises(BadOption):
            store.start_within(object(), [new()])

    def test_rows_may_look_as_the_caller_likes(self, path):
        with (
            closing(Store(SqliteDatabase(path, driver="sqlite3"))) as store,
            closing(sqlite3.connect(path)) as connection,
        ):
            connection.row_factory = lambda cursor, row: {"row": row}
            with connection:
                assert store.start_within(connection, [new(), new()])[1].created is False

    def test_a_connection_may_be_wrapped(self, store, path, driver):
        with transaction(path, driver) as connection:
            wrapped = SimpleNamespace(connection=SimpleNamespace(driver_connection=connection))

            assert store.start_within(wrapped, [new()])[0].created

    def test_a_lock_of_another_is_told(self, store, path, driver):
        with connect(path, driver) as mine, connect(path, driver) as other:
            if driver == "sqlite3":
                mine.execute("PRAGMA busy_timeout = 0")
            other.execute("BEGIN IMMEDIATE")
            mine.execute("BEGIN")
            with pytest.raises(StoreBusy):
                store.start_within(mine, [new()])
            other.execute("ROLLBACK")
            mine.execute("ROLLBACK")


class TestTransactionalSteps:
    def test_what_a_step_sets_on_the_connection_is_set_back(self, store, driver):
        open_session(store)
        start(store, session_id="s1")

        def body(connection):
            if driver == "sqlite3":
                connection.row_factory, connection.text_factory = (lambda *_: "mine"), bytes
            else:
                connection.row_trace = lambda *_: "mine"
            return b"1"

        store.apply(
            [
                Advance(
                    run_id="r1",
                    generation=1,
                    events=[Event(EventKind.STEP_COMPLETED, "a", seq=1)],
                    body=Body(body),
                )
            ]
        )

        assert store.apply([SignalRun("r1", "paid", b"1")]) == [WaitDelivery(1, "kept")]

    @pytest.mark.parametrize("fails", [False, True])
    def test_a_step_may_leave_rows_unread(self, store, path, driver, fails):
        with transaction(path, driver) as connection:
            connection.execute("CREATE TABLE note (text TEXT)")
        open_session(store)
        start(store, session_id="s1")
        kept = []

        def body(connection):
            kept.append(connection.execute("INSERT INTO note VALUES ('x'), ('y') RETURNING text"))
            kept.append(connection.cursor())
            kept[-1].execute("SELECT text FROM note")
            assert kept[0].fetchone() == ("x",)
            if fails:
                raise KeyError
            return b"1"

        step = Advance(
            run_id="r1",
            generation=1,
            events=[Event(EventKind.STEP_COMPLETED, "a", seq=1)],
            body=Body(body),
        )
        answers = store.apply([StartRuns([new("r2")]), step, StartRuns([new("r3")])])

        assert isinstance(answers[1], KeyError if fails else Advanced)
        assert store.runs.counts() == {"pending": 2, "running": 1}
        with connect(path, driver) as connection:
            assert connection.execute("SELECT COUNT(*) FROM note").fetchall() == [
                (0 if fails else 2,)
            ]

    @pytest.mark.parametrize("swallows", [False, True])
    def test_a_step_that_fills_the_disk_takes_nobody_with_it_for_long(
        self, store, path, driver, swallows
    ):
        with transaction(path, driver) as connection:
            connection.execute("CREATE TABLE note (text TEXT)")
        open_session(store)
        start(store, session_id="s1")
        pages = store.database._db.rows("PRAGMA page_count")[0]["page_count"]
        store.database._db.rows(f"PRAGMA max_page_count = {pages + 10}")

        def body(connection):
            try:
                connection.execute("INSERT INTO note VALUES (?)", ("x" * 1_000_000,))
            except Exception:
                if not swallows:
                    raise
            return b"1"

        step = Advance(
            run_id="r1",
            generation=1,
            events=[Event(EventKind.STEP_COMPLETED, "a", seq=1)],
            body=Body(body),
        )
        with pytest.raises(StoreError if swallows else StoreFull):
            store.apply([StartRuns([new("r2")]), step])

        assert (store.runs.get("r2"), store.runs.history("r1"), store.check()) == (None, [], [])
        assert start(store, "r2").created

    @pytest.mark.parametrize("ending", ["commit", "rollback", "__exit__"])
    def test_habits_of_python_do_not_end_the_transaction(self, path, ending):
        with closing(Store(SqliteDatabase(path, driver="sqlite3"))) as store:
            open_session(store)
            start(store, session_id="s1")

            def body(connection):
                connection.execute("CREATE TABLE note (text TEXT)")
                getattr(connection, ending)(*([None] * 3 if ending == "__exit__" else []))
                return b"1"

            step = Advance(
                run_id="r1",
                generation=1,
                events=[Event(EventKind.STEP_COMPLETED, "a", seq=1)],
                body=Body(body),
            )
            (answer,) = store.apply([step])

            assert isinstance(answer, BadOption)
            assert store.runs.history("r1") == []
            assert not store.database.fetch("SELECT 1 FROM sqlite_master WHERE name = 'note'")

    def test_a_step_may_have_savepoints_of_its_own(self, store, path, driver):
        open_session(store)
        start(store, session_id="s1")

        def body(connection):
            connection.execute("CREATE TABLE note (text TEXT)")
            for statement in (
                "SAVEPOINT mine",
                "INSERT INTO note VALUES ('x')",
                "ROLLBACK TO mine",
                "RELEASE mine",
            ):
                connection.execute(statement)
            connection.execute("INSERT INTO note VALUES ('y')")
            return b"1"

        store.apply(
            [
                Advance(
                    run_id="r1",
                    generation=1,
                    events=[Event(EventKind.STEP_COMPLETED, "a", seq=1)],
                    body=Body(body),
                )
            ]
        )

        with connect(path, driver) as connection:
            assert connection.execute("SELECT text FROM note").fetchall() == [("y",)]
