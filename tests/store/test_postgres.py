"""The store on PostgreSQL keeps the contract."""

import time
from contextlib import contextmanager

import psycopg
import pytest

from holdfast.store.postgres import PostgresStore, messenger
from holdfast.testing.conformance import StoreContract


@pytest.fixture(autouse=True)
def no_slow_look(monkeypatch):
    monkeypatch.setattr(messenger, "LOOK_EVERY", 3600.0)


class TestPostgres(StoreContract):
    @pytest.fixture
    def url(self, postgres_server):
        with postgres_server.lend() as url:
            yield url

    @pytest.fixture
    def open_store(self, url):
        return lambda clock=None: PostgresStore(url, clock=clock)

    def execute(self, store, sql):
        with self.transaction(store) as connection:
            connection.execute(sql)

    @contextmanager
    def transaction(self, store):
        with psycopg.connect(store.address.conninfo) as connection:
            yield connection

    def hears(self, store):
        deadline = time.monotonic() + 5
        while not store.changed():
            if time.monotonic() > deadline:
                return False
        return True
