"""Two copies of the SQLite library in one process."""

import os
import sqlite3
from contextlib import closing

import pytest

from holdfast.errors import BadOption
from holdfast.store.sqlite import SqliteDatabase
from holdfast.store.store import Store
from tests.store.sqlite.helpers import connect, new, start


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
