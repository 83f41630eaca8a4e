"""Content of a SQLite file that something else has damaged."""

import sqlite3
from contextlib import closing

import pytest

from holdfast.errors import RowDamaged, StoreCorrupt
from holdfast.store import sql_files
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.runs.operations import StartRuns
from holdfast.store.sqlite import SqliteDatabase
from holdfast.store.store import Store
from tests.store.sqlite.helpers import DRIVERS, new, transaction


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
                store.run_snapshots.page("", 10, 10**6)
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
