"""The PostgreSQL store passes the conformance suite."""

import time
from contextlib import ExitStack, closing, contextmanager

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from holdfast.store.postgres import PostgresDatabase, notifier
from holdfast.store.store import Store
from holdfast.testing.conformance import StoreContract, StoreFixture
from tests.store.test_model import StoreMachine


@pytest.fixture(autouse=True)
def no_slow_look(monkeypatch):
    monkeypatch.setattr(notifier, "LOOK_EVERY", 3600.0)


class OnPostgres(StoreFixture):
    @pytest.fixture
    def url(self, postgres_server):
        with postgres_server.lend() as url:
            yield url

    @pytest.fixture
    def open_store(self, url):
        return lambda clock=None: Store(PostgresDatabase(url, clock=clock))

    def execute(self, store, sql):
        with self.transaction(store) as connection:
            connection.execute(sql)

    @contextmanager
    def transaction(self, store):
        with psycopg.connect(store.database.address.conninfo) as connection:
            yield connection

    def notices_commit(self, store):
        deadline = time.monotonic() + 60
        while not store.changed():
            if time.monotonic() > deadline:
                return False
        return True


class OnPolledPostgres(OnPostgres):
    """PostgreSQL without notifications: the store polls, and the test decides when."""

    @pytest.fixture(autouse=True)
    def no_look(self, monkeypatch):
        monkeypatch.setattr(notifier, "POLL_EVERY", 3600.0)

    def notices_commit(self, store):
        with pytest.MonkeyPatch.context() as time_passes:
            time_passes.setattr(notifier, "POLL_EVERY", 0.0)
            return super().notices_commit(store)


def begin_again(connection):
    connection.pgconn.exec_(b"COMMIT")
    connection.pgconn.exec_(b"BEGIN")


QUIETLY = "DO $$ BEGIN PERFORM set_config('statement_timeout', '1s', false); END $$"


class TestPostgres(OnPostgres, StoreContract):
    misuses = {  # noqa: RUF012
        "set": lambda connection: connection.execute("SET statement_timeout TO '1s'"),
        "set quietly": lambda connection: connection.execute(QUIETLY),
        "forget statements": lambda connection: connection.execute("DEALLOCATE ALL"),
        "roll back all": lambda connection: connection.execute(
            "SELECT pg_terminate_backend(pg_backend_pid())"
        ),
        "close cursors": lambda connection: connection.execute("CLOSE ALL"),
        "commit below the driver": lambda connection: connection.pgconn.exec_(b"COMMIT"),
        "roll back below the driver": lambda connection: connection.pgconn.exec_(b"ROLLBACK"),
        "begin again below the driver": begin_again,
        "close cursors below the driver": lambda connection: connection.pgconn.exec_(b"CLOSE ALL"),
    }


def test_whatever_is_done_the_store_does_what_the_model_says(postgres_server):
    class Machine(StoreMachine):
        def new_store(self):
            self.lent = ExitStack()
            url = self.lent.enter_context(postgres_server.lend())
            return self.lent.enter_context(closing(Store(PostgresDatabase(url, clock=self.clock))))

        def teardown(self):
            self.lent.close()

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=15,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
