"""The store on a SQLite file keeps the contract with both drivers, and is calm about what only
files can do."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest

from holdfast.core.events import Event, EventKind
from holdfast.core.runs import NewRun, Route
from holdfast.core.sessions import Session
from holdfast.core.status import Status
from holdfast.errors import (
    BadOption,
    CodecMismatch,
    EngineClosed,
    RowDamaged,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
    StoreUnavailable,
)
from holdfast.store import clock as clocks
from holdfast.store import database as store_database
from holdfast.store import sql_files
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.runs.operations import Advance, Advanced, Body, OpenSession, StartRuns
from holdfast.store.signals.operations import SignalRun
from holdfast.store.sqlite import SqliteDatabase, liveness
from holdfast.store.sqlite import adapter as store_module
from holdfast.store.sqlite import connection as driver_module
from holdfast.store.store import Store
from holdfast.store.waits.operations import WaitDelivery
from holdfast.testing.conformance import StoreContract
from tests.store.processes import ENOUGH

ROUTE = Route("default", "greet", "1", "default")
DRIVERS = ("sqlite3", "apsw")

NEWEST = sql_files.migrations("sqlite")[-1][0]
"""The newest schema."""


def roll_back_all(connection):
    connection.execute("CREATE TABLE once (x INTEGER PRIMARY KEY)")
    for _ in range(2):
        connection.execute("INSERT OR ROLLBACK INTO once (x) VALUES (1)")


class OnSqlite(StoreContract):
    driver = ""
    misuses = {  # noqa: RUF012
        "set": lambda connection: connection.execute("PRAGMA busy_timeout = 60000"),
        "attach": lambda connection: connection.execute("ATTACH ':memory:' AS other"),
        "hook": lambda connection: connection.set_authorizer(None),
        "back up": lambda connection: connection.backup(sqlite3.connect(":memory:")),
        "shadow": lambda connection: connection.execute("CREATE TEMP TABLE holdfast_run (id TEXT)"),
        "drop": lambda connection: connection.execute("DROP TABLE holdfast_budget"),
        "roll back all": roll_back_all,
    }

    @pytest.fixture
    def open_store(self, tmp_path):
        return lambda clock=None: Store(
            SqliteDatabase(tmp_path / "holdfast.db", clock=clock, driver=self.driver)
        )

    def execute(self, store, sql):
        with self.transaction(store) as connection:
            connection.execute(sql.replace("holdfast.", "holdfast_"))

    def transaction(self, store):
        return transaction(store.database.path, self.driver)


class TestStandardDriver(OnSqlite):
    driver = "sqlite3"


class TestApsw(OnSqlite):
    driver = "apsw"


def connect(path, driver):
    return closing(sqlite3.connect(path) if driver == "sqlite3" else apsw.Connection(str(path)))


@contextmanager
def transaction(path, driver):
    with connect(path, driver) as connection, connection:
        yield connection


def new(run_id="r1", **options):
    return NewRun(**{"id": run_id, "route": ROUTE, "input": b"[]", **options})


def start(store, run_id="r1", **options):
    return store.apply([StartRuns([new(run_id, **options)])])[0][0]


@pytest.fixture(params=DRIVERS)
def driver(request):
    return request.param


@pytest.fixture
def path(tmp_path):
    return tmp_path / "holdfast.db"


@pytest.fixture
def store(path, driver):
    with closing(Store(SqliteDatabase(path, driver=driver))) as store:
        yield store


class TestOpening:
    def test_a_new_file_is_made_durable(self, store, path):
        facts = store.info()

        assert facts["journal_mode"] == "wal"
        assert store.database._db.rows("PRAGMA synchronous")[0]["synchronous"] == 2
        assert (facts["database"], facts["driver"], facts["schema"]) == (
            str(path),
            store.database._db.kind,
            NEWEST,
        )
        assert facts["bytes"] > 0

    def test_what_was_written_is_there_when_it_is_opened_again(self, path, driver):
        with closing(Store(SqliteDatabase(path, driver=driver))) as store:
            start(store)
        with closing(Store(SqliteDatabase(path, driver=driver))) as store:
            assert store.runs.get("r1") is not None

    def test_an_empty_file_is_a_new_one(self, path, driver):
        path.touch()

        with closing(Store(SqliteDatabase(path, driver=driver))) as store:
            assert start(store).created

    @pytest.mark.parametrize("is_there", [False, True])
    def test_the_wal_of_a_database_that_was_moved_is_not_deleted(self, path, driver, is_there):
        with closing(Store(SqliteDatabase(path, driver=driver))) as store:
            start(store)
            path.rename(path.with_suffix(".away"))
            if is_there:
                path.touch()

            with pytest.raises(StoreUnavailable, match="put the database back"):
                Store(SqliteDatabase(path, driver=driver))

            path.with_suffix(".away").rename(path)
            with closing(Store(SqliteDatabase(path, driver=driver))) as again:
                assert again.runs.get("r1") is not None

    def test_a_connection_never_creates_a_file(self, path, driver):
        with pytest.raises(StoreUnavailable):
            driver_module.connection_type(driver)(str(path))

        assert not path.exists()

    @pytest.mark.parametrize("name", ["100%25.db", "a?mode=memory", "a#b", "é ü.db"])
    def test_a_file_may_have_any_name(self, tmp_path, driver, name):
        with closing(Store(SqliteDatabase(tmp_path / name, driver=driver))) as store:
            assert start(store).created
            assert store.runs.get("r1") is not None

        assert [file.name for file in tmp_path.iterdir() if file.suffix != ".sessions"] == [name]

    def test_a_missing_folder_is_told(self, tmp_path, driver):
        with pytest.raises(StoreUnavailable, match="there is no folder"):
            Store(SqliteDatabase(tmp_path / "none" / "holdfast.db", driver=driver))

    def test_a_folder_is_no_file(self, tmp_path, driver):
        with pytest.raises(StoreUnavailable, match="it is a folder"):
            Store(SqliteDatabase(tmp_path, driver=driver))

    def test_something_else_is_no_database(self, path, driver):
        path.write_text("Dear diary, this is no database at all. " * 100)

        with pytest.raises(StoreCorrupt):
            Store(SqliteDatabase(path, driver=driver))

    def test_a_damaged_file_is_told_when_it_is_opened_or_checked(self, path, driver):
        with closing(Store(SqliteDatabase(path, driver=driver))) as store:
            store.apply(
                [StartRuns([new(f"r{number}", input=b"x" * 3000) for number in range(200)])]
            )
        content = bytearray(path.read_bytes())
        for page in range(4096, len(content), 8192):
            content[page : page + 64] = b"\xff" * 64
        path.write_bytes(content)

        with (
            pytest.raises(StoreCorrupt),
            closing(Store(SqliteDatabase(path, driver=driver))) as store,
        ):
            assert [found for found in store.check() if "damaged" in found]
            store.runs.counts()

    def test_a_newer_schema_is_refused(self, store, path, driver):
        with transaction(path, driver) as connection:
            connection.execute("INSERT INTO holdfast_migration VALUES (9999, 'future', 'x', 1)")

        with pytest.raises(StoreTooNew) as refused:
            Store(SqliteDatabase(path, driver=driver))
        assert refused.value.facts["schema"] == 9999

    def test_a_changed_migration_is_refused(self, store, path, driver):
        with transaction(path, driver) as connection:
            connection.execute("UPDATE holdfast_migration SET checksum = 'other'")

        with pytest.raises(StoreForeign):
            Store(SqliteDatabase(path, driver=driver))

    def test_tables_of_ours_that_we_did_not_make_are_refused(self, path, driver):
        with transaction(path, driver) as connection:
            connection.execute("CREATE TABLE holdfast_run (id TEXT)")

        with pytest.raises(StoreCorrupt, match="holdfast_migration is missing"):
            Store(SqliteDatabase(path, driver=driver))

    def test_tables_of_others_live_beside_ours(self, path, driver):
        with transaction(path, driver) as connection:
            connection.execute("CREATE TABLE run (id TEXT)")
            connection.execute("INSERT INTO run VALUES ('theirs')")

        with closing(Store(SqliteDatabase(path, driver=driver))) as store:
            start(store)
            assert store.check() == []
        with connect(path, driver) as connection:
            assert connection.execute("SELECT id FROM run").fetchall() == [("theirs",)]

    def test_a_table_that_somebody_dropped_is_told(self, store, path, driver):
        with transaction(path, driver) as connection:
            connection.execute("DROP TABLE holdfast_run")

        with pytest.raises(StoreForeign):
            start(store)
        with pytest.raises(StoreForeign):
            store.runs.get("r1")

    def test_another_codec_is_refused(self, store, path, driver):
        with pytest.raises(CodecMismatch) as refused:
            Store(SqliteDatabase(path, driver=driver, codec="secret"))

        assert (refused.value.facts["stored"], refused.value.facts["given"]) == ("json", "secret")

    def test_whoever_is_refused_leaves_no_lock_behind(self, store, path, driver):
        with pytest.raises(CodecMismatch):
            Store(SqliteDatabase(path, driver=driver, codec="secret"))

        assert start(store).created

    @pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
    def test_a_file_that_cannot_be_written_is_told(self, path, driver):
        Store(SqliteDatabase(path, driver=driver)).close()
        path.chmod(0o444)
        path.parent.chmod(0o555)

        try:
            with pytest.raises((StoreReadOnly, StoreUnavailable)):
                start(Store(SqliteDatabase(path, driver=driver)))
        finally:
            path.parent.chmod(0o755)

    def test_a_database_that_cannot_be_written_is_told(self, store):
        store.database._db.rows("PRAGMA query_only = 1")

        with pytest.raises(StoreReadOnly):
            start(store)

        store.database._db.rows("PRAGMA query_only = 0")
        assert start(store).created

    def test_many_may_open_a_new_file_at_once(self, path, driver):
        barrier, opened = threading.Barrier(8), []

        def open_it():
            barrier.wait()
            opened.append(Store(SqliteDatabase(path, driver=driver)))

        in_threads(open_it, 8)

        for number, store in enumerate(opened):
            assert start(store, f"r{number}").created
        assert opened[0].runs.counts() == {"pending": 8}
        for store in opened:
            store.close()

    def test_an_unknown_driver_is_refused(self, path, monkeypatch):
        with pytest.raises(BadOption):
            Store(SqliteDatabase(path, driver="mysql"))

        monkeypatch.setenv("HOLDFAST_SQLITE", "sqlite3")
        with closing(Store(SqliteDatabase(path))) as store:
            assert store.info()["driver"] == "sqlite3"

    def test_a_new_file_is_for_its_owner_alone_and_an_old_one_keeps_its_mode(self, path, driver):
        with closing(Store(SqliteDatabase(path, driver=driver))) as store:
            start(store)
            assert {
                os.stat(f"{path}{suffix}").st_mode & 0o777 for suffix in ("", "-wal", "-shm")
            } == {0o600}
            assert not any("chmod" in warning for warning in store.info().get("warnings", []))
        os.chmod(path, 0o644)

        with closing(Store(SqliteDatabase(path, driver=driver))) as store:
            assert os.stat(path).st_mode & 0o777 == 0o644
            assert any(f"chmod 600 {path}" in warning for warning in store.info()["warnings"])

    def test_the_safest_library_is_used_where_it_is_asked_for(self, path, monkeypatch):
        pytest.importorskip("apsw")
        monkeypatch.delenv("HOLDFAST_SQLITE", raising=False)
        monkeypatch.setattr(driver_module.StandardConnection, "version", "3.51.2")
        with closing(Store(SqliteDatabase(path, driver="safest"))) as store:
            assert store.info()["driver"] == "apsw"
        with (
            closing(sqlite3.connect(path)) as connection,
            closing(Store(SqliteDatabase(path, driver="safest"))) as store,
        ):
            connection.execute("SELECT 1 FROM holdfast_run").fetchall()
            assert store.info()["driver"] == "sqlite3"
        monkeypatch.setattr(driver_module.StandardConnection, "version", "3.51.3")
        with closing(Store(SqliteDatabase(path, driver="safest"))) as store:
            assert store.info()["driver"] == "sqlite3"

    def test_a_flawed_sqlite_is_pointed_out(self, store, monkeypatch):
        monkeypatch.setattr(type(store.database._db), "version", "3.40.1")
        assert "3.51.3" in store.info()["warnings"][0]

        monkeypatch.setattr(type(store.database._db), "version", "3.53.0")
        assert "warnings" not in store.info()


def in_threads(work, count):
    """Run *work* in several threads at once; raise the error of any of them."""
    failed = []

    def guarded():
        try:
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


class TestLargeInputs:
    def test_a_run_that_changes_does_not_write_its_input_again(self, store, path):
        start(store, input=b"x" * 500_000, session_id=open_session(store))
        log = path.with_name(f"{path.name}-wal")
        before = log.stat().st_size

        end = Advance(
            run_id="r1",
            generation=1,
            status=Status.COMPLETED,
            result=b"1",
            events=[Event(EventKind.RUN_COMPLETED, seq=1)],
        )
        assert isinstance(store.apply([end])[0], Advanced)

        assert log.stat().st_size - before < 100_000
        assert (store.runs.get("r1").status, len(store.runs.get("r1").input)) == (
            Status.COMPLETED,
            500_000,
        )

    def test_one_that_an_older_version_wrote_is_read_where_it_is(self, store, path, driver):
        start(store)
        with transaction(path, driver) as connection:
            connection.execute("UPDATE holdfast_run SET input = ?", (b"y" * 5_000,))

        assert store.runs.get("r1").input == b"y" * 5_000
        assert start(store, input=b"y" * 5_000).created is False

    def test_one_that_is_gone_is_told(self, store, path, driver):
        start(store, input=b"x" * 5_000)
        with transaction(path, driver) as connection:
            connection.execute("DELETE FROM holdfast_large_input")

        assert store.check() == ["a run has its input: 1 broken, such as r1"]

    def test_none_is_left_when_its_run_is_gone_or_has_another(self, store, path, driver):
        for number in range(12):
            start(store, f"r{number}", input=b"x" * 5_000)
        with transaction(path, driver) as connection:
            connection.execute("DELETE FROM holdfast_run WHERE id < 'r5'")
            connection.execute("UPDATE holdfast_run SET input = '[1]' WHERE id > 'r8'")
            left = connection.execute(
                "SELECT run_id FROM holdfast_large_input ORDER BY run_id"
            ).fetchall()

        assert [run_id for (run_id,) in left] == ["r5", "r6", "r7", "r8"]


class TestAFullDisk:
    def fill(self, store):
        """Write until there is no room; return how many runs were started."""
        started = 0
        pages = store.database._db.rows("PRAGMA page_count")[0]["page_count"]
        store.database._db.rows(f"PRAGMA max_page_count = {pages + 40}")
        with pytest.raises(StoreFull):
            while True:
                store.apply(
                    [
                        StartRuns(
                            [
                                new(f"r{started}", input=b"x" * 3000),
                                new(f"s{started}", input=b"x" * 3000),
                            ]
                        )
                    ]
                )
                started += 1
        return started

    def make_room(self, store):
        store.database._db.rows("PRAGMA max_page_count = 1000000")

    def test_nothing_is_half_written_and_all_goes_on_when_there_is_room(self, store):
        started = self.fill(store)

        assert store.runs.counts() == {"pending": 2 * started}
        assert (store.runs.get(f"r{started}"), store.check()) == (None, [])
        self.make_room(store)
        assert start(store, f"r{started}").created

    def test_none_of_a_batch_is_written(self, store):
        started = self.fill(store)

        with pytest.raises(StoreFull):
            store.apply(
                [StartRuns([new(f"x{number}", input=b"x" * 3000)]) for number in range(200)]
            )

        assert store.runs.counts() == {"pending": 2 * started}

    def test_a_step_that_fills_the_disk_leaves_nothing(self, store, path, driver):
        with transaction(path, driver) as connection:
            connection.execute("CREATE TABLE note (text TEXT)")
        session = open_session(store)
        start(store, "held", session_id=session)
        self.fill(store)

        def body(connection):
            connection.execute("INSERT INTO note VALUES (?)", ("x" * 1_000_000,))
            return b""

        step = Advance(
            run_id="held",
            generation=1,
            events=[Event(EventKind.STEP_COMPLETED, "a", seq=1)],
            body=Body(body),
        )
        with pytest.raises(Exception, match="full"):
            answer = store.apply([step])[0]
            raise answer

        assert store.runs.history("held") == []
        self.make_room(store)
        assert isinstance(store.apply([step])[0], Advanced)


def open_session(store, session_id="s1", slot=-1):
    now = store.now()
    session = Session(
        id=session_id,
        worker="w",
        host="h",
        pid=1,
        slot=slot,
        started_at=now,
        beat_at=now,
        expires_at=now + 10**9,
        serves=b"{}",
    )
    store.apply([OpenSession(session)])
    return session_id


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
        assert (store.check(), store.runs.sessions()) == ([], [])

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
            (session,) = store.runs.sessions()
            assert (session.id, store.is_alive(session)) == (process.said, True)

            process.send_signal(signal.SIGKILL)
            process.wait()

            assert store.is_alive(session) is False

    def test_a_process_of_another_host_cannot_be_seen(self, store):
        (session,) = (open_session(store, slot=store.acquire_liveness()), store.runs.sessions())[1]

        assert store.is_alive(session) is None

    def test_nobody_gets_the_place_of_another(self, store, path, driver):
        places = [store.acquire_liveness() for _ in range(50)]

        assert len(set(places)) == 50
        for place in places:
            store.release_liveness(place)

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

        assert store.acquire_liveness() == -1

    def test_a_forked_child_opens_its_own(self, path, driver):
        with processes("fork", path, driver, 1, waits=False) as (process,):
            assert process.said == [0, ["after", "before", "child"], []]


@contextmanager
def processes(name, path, driver, count, *arguments, waits=True):
    """Run a function of processes.py in *count* processes; ``said`` is the first line of each."""
    script = str(Path(__file__).with_name("processes.py"))
    command = [sys.executable, "-W", "error", script, name, str(path), driver, *arguments]
    source = str(Path(store_database.__file__).parents[2])
    started = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": source},
        )
        for _ in range(count)
    ]
    try:
        for process in started:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            process.said = json.loads(line)
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def tell_all(many):
    """Send a line to all processes, and return the next line of each."""
    for process in many:
        process.stdin.write("\n")
        process.stdin.flush()
    answers = []
    for process in many:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        answers.append(json.loads(line))
    return answers


class TestTwoLibraries:
    """Two copies of SQLite that have a file open in one process damage it."""

    def test_python_does_not_open_what_apsw_has_open(self, path):
        with closing(Store(SqliteDatabase(path, driver="apsw"))):
            for name in (path, str(path), f"file:{path}?mode=ro"):
                with pytest.raises(BadOption, match="damage"):
                    sqlite3.connect(name, uri=True)
            with closing(sqlite3.connect(":memory:")):
                pass

        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT COUNT(*) FROM holdfast_run").fetchone() == (0,)

    @pytest.mark.skipif(
        not os.path.isdir("/proc/self/fd"), reason="the system does not tell what is open"
    )
    def test_what_python_has_open_is_opened_with_python(self, path, monkeypatch):
        monkeypatch.delenv("HOLDFAST_SQLITE", raising=False)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE theirs (id TEXT)")

            with closing(Store(SqliteDatabase(path))) as store:
                assert store.info()["driver"] == "sqlite3"
                with pytest.raises(BadOption, match="damage"):
                    Store(SqliteDatabase(path, driver="apsw"))
            with pytest.raises(BadOption, match="damage"):
                Store(SqliteDatabase(path, driver="apsw"))

        with closing(Store(SqliteDatabase(path, driver="apsw"))) as store:
            assert start(store).created

    def test_two_stores_on_one_file_use_the_same(self, path, monkeypatch):
        monkeypatch.delenv("HOLDFAST_SQLITE", raising=False)
        with closing(Store(SqliteDatabase(path, driver="apsw"))):
            with closing(Store(SqliteDatabase(path))) as other:
                assert other.info()["driver"] == "apsw"
            with pytest.raises(BadOption, match="damage"):
                Store(SqliteDatabase(path, driver="sqlite3"))

    def test_a_connection_of_the_other_one_is_refused(self, path, tmp_path):
        with (
            closing(Store(SqliteDatabase(path, driver="sqlite3"))) as store,
            connect(tmp_path / "other.db", "apsw") as other,
            pytest.raises(BadOption, match="damage"),
        ):
            store.start_within(other, [new()])


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


class TestWallClock:
    @pytest.fixture
    def machine(self, monkeypatch):
        """The wall clock and the monotonic clock of the machine, set by the test."""
        machine = SimpleNamespace(wall=1_000_000_000, tick=0)
        fake = SimpleNamespace(
            time_ns=lambda: machine.wall * 1000, monotonic_ns=lambda: machine.tick * 1000
        )
        monkeypatch.setattr(clocks, "time", fake)
        return machine

    def test_it_follows_the_wall_clock_forward(self, machine):
        clock = clocks.WallClock()
        clock.now()
        machine.wall += 5_000_000

        assert clock.now() == 1_005_000_000

    def test_it_goes_on_when_the_wall_clock_is_set_back(self, machine):
        clock = clocks.WallClock()
        before = clock.now()
        machine.wall -= 500_000_000
        machine.tick += 7

        assert clock.now() == before + 7
        machine.tick += 3
        assert clock.now() == before + 10

    def test_it_goes_on_from_an_instant_that_was_seen(self, machine):
        clock = clocks.WallClock()
        machine.tick += 1_000_000
        clock.not_before(2_000_000_000)
        machine.tick += 5

        assert clock.now() == 2_000_000_005

    def test_a_store_that_was_written_in_the_future_goes_on_from_there(self, path, driver, machine):
        machine.wall *= 2
        with closing(Store(SqliteDatabase(path, driver=driver))) as store:
            started = start(store).now
        machine.wall //= 2

        with closing(Store(SqliteDatabase(path, driver=driver))) as store:
            assert store.now() >= started


def replace_page(path, source: str, target: str) -> None:
    """Overwrite the root page of the index *target* with that of the index *source*."""
    with closing(sqlite3.connect(path)) as db:
        (size,) = db.execute("PRAGMA page_size").fetchone()
        pages = dict(db.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'index'"))
    content = bytearray(path.read_bytes())
    begin = (pages[source] - 1) * size
    content[(pages[target] - 1) * size : pages[target] * size] = content[begin : begin + size]
    path.write_bytes(content)


@pytest.mark.parametrize("driver", DRIVERS)
class TestDamagedContent:
    """``check`` finds content that SQLite accepts or does not notice, and that no row may hold."""

    def test_an_index_with_entries_that_belong_to_no_row_is_found(self, path, driver):
        with closing(Store(SqliteDatabase(path, driver=driver))) as store:
            store.apply([StartRuns([new("r1"), new("r2")])])
        replace_page(path, "holdfast_run_ready", "holdfast_graph_finished")

        with closing(Store(SqliteDatabase(path, driver=driver))) as store:
            assert [line for line in store.check() if "holdfast_graph_finished" in line]

    def test_a_text_that_is_not_unicode_is_left_out_by_name(self, path, driver):
        with closing(Store(SqliteDatabase(path, driver=driver))) as store:
            store.apply([StartRuns([new("r1"), new("r2")])])
            with transaction(path, driver) as connection:
                connection.execute(
                    "UPDATE holdfast_run SET key = CAST(x'ff41fe' AS TEXT) WHERE id = 'r1'"
                )

            assert [run.id for run in store.runs.find(RunFilter())] == ["r2"]

            with pytest.raises(RowDamaged) as raised:
                store.runs.get("r1")
            assert (raised.value.facts["key"], raised.value.facts["column"]) == ("r1", "key")
            assert [line for line in store.check() if "in run: r1, column key:" in line]

    def test_a_value_that_is_missing_is_named_and_not_copied(self, path, driver):
        with closing(Store(SqliteDatabase(path, driver=driver))) as store:
            store.apply([StartRuns([new("r1")])])
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA writable_schema = ON")
            db.execute(
                "UPDATE sqlite_master SET sql = REPLACE(sql, 'NOT NULL', '') WHERE type = 'table'"
            )
            db.commit()
        with closing(sqlite3.connect(path)) as db:
            db.execute("UPDATE holdfast_run SET generation = NULL")
            db.execute("INSERT INTO holdfast_key (kid, created_at) VALUES ('k', 1)")
            db.commit()

        with closing(Store(SqliteDatabase(path, driver=driver))) as store:
            broken = store.check()
            assert [line for line in broken if "in run: r1, column generation:" in line]
            assert [line for line in broken if "in key: k, column secret:" in line]
            with pytest.raises(RowDamaged, match="generation"):
                store.runs.snapshots("", 10, 10**6)
            with pytest.raises(RowDamaged, match="secret"):
                store.installation.rows()

    @pytest.mark.parametrize("which", ["1 = 1", "number = 1"])
    def test_a_migration_that_is_not_recorded_is_told(self, path, driver, which, monkeypatch):
        later = (2, "0002_later", "CREATE TABLE holdfast.later (id INTEGER PRIMARY KEY);")
        known = [*sql_files.migrations("sqlite"), later]
        monkeypatch.setattr(sql_files, "migrations", lambda dialect: known)
        Store(SqliteDatabase(path, driver=driver)).close()
        with closing(sqlite3.connect(path)) as db:
            db.execute(f"DELETE FROM holdfast_migration WHERE {which}")
            db.commit()

        with pytest.raises(StoreCorrupt, match="migration"):
            Store(SqliteDatabase(path, driver=driver))

    def test_an_installation_without_a_name_is_told(self, path, driver):
        with closing(Store(SqliteDatabase(path, driver=driver))) as store:
            with transaction(path, driver) as connection:
                connection.execute("DELETE FROM holdfast_setting WHERE name = 'installation'")

            assert [line for line in store.check() if "in setting: installation" in line]
