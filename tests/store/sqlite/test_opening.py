"""Opening a SQLite file: settings, migrations, and files that are refused."""

import os
import sqlite3
import threading
from contextlib import closing

import pytest

from holdfast.errors import (
    BadOption,
    CodecMismatch,
    StoreCorrupt,
    StoreForeign,
    StoreReadOnly,
    StoreTooNew,
    StoreUnavailable,
)
from holdfast.store import sql_files
from holdfast.store.runs.operations import StartRuns
from holdfast.store.sqlite import SqliteDatabase
from holdfast.store.sqlite import connection as driver_module
from holdfast.store.store import Store
from tests.store.sqlite.helpers import connect, in_threads, new, start, transaction

NEWEST = sql_files.migrations("sqlite")[-1][0]
"""The newest schema."""


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
            assert [problem for problem in store.check() if "damaged" in problem]
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
