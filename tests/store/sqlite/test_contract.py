"""The store on a SQLite file keeps the contract with both drivers."""

import sqlite3

import pytest

from holdfast.store.sqlite import SqliteDatabase
from holdfast.store.store import Store
from holdfast.testing.conformance import StoreContract
from tests.store.sqlite.helpers import transaction


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
