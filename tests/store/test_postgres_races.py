"""Two transactions of different features that meet on the rows of one of them."""

import threading
from contextlib import contextmanager

import psycopg
import pytest

from holdfast.core.api_keys import ApiKey, Grant, Login, Role
from holdfast.core.definitions import StoredDefinition, digest_of
from holdfast.core.runs import NewRun, Route
from holdfast.store.api_keys.operations import AddApiKey, RevokeApiKey
from holdfast.store.logins.operations import AddLogin
from holdfast.store.postgres.dialect import SQL
from holdfast.store.postgres.transaction import PostgresTransaction
from holdfast.store.request_keys.operations import ClaimRequestKey
from holdfast.store.runs.operations import Prune, RequestCancel, StartRuns
from tests.store.helpers import furnished, wait_until

WAITS_FOR_A_LOCK = (
    "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname ="
    " current_database()"
)


@pytest.fixture
def url(postgres_server):
    with postgres_server.lend() as url:
        yield url


@pytest.fixture
def store(url):
    with furnished(url) as store:
        yield store


@contextmanager
def meanwhile(url, store, op):
    """Apply an operation in a thread, until it has ended or waits for a lock; wait for its end
    after the block."""
    applied = threading.Thread(target=store.apply, args=([op],))
    applied.start()
    with psycopg.connect(url, autocommit=True) as watcher:
        wait_until(lambda: not applied.is_alive() or watcher.execute(WAITS_FOR_A_LOCK).fetchall())
    yield
    applied.join()


def test_an_idempotency_key_is_released_while_it_is_claimed_again(store, url, monkeypatch):
    claim = ClaimRequestKey("caller start k", b"d" * 32)
    store.apply([claim])
    change = PostgresTransaction.change

    def released_in_between(tx, query, **values):
        changed = change(tx, query, **values)
        if query == "insert_request_key" and not changed:
            with psycopg.connect(url) as other:
                other.execute("DELETE FROM holdfast.request_key")
        return changed

    monkeypatch.setattr(PostgresTransaction, "change", released_in_between)

    (claimed,) = store.apply([claim])

    assert claimed.is_new


def started(name):
    """Return a run that keeps a definition. The definitions of all names have the same content."""
    content = b"call build"
    definition = StoredDefinition(
        namespace="default",
        kind="wf",
        name=name,
        version="1",
        digest=digest_of(content),
        content=content,
    )
    route = Route("default", name, "1", "default")
    return NewRun(id=name, route=route, input=b"[]", definition=definition)


def test_a_definition_is_kept_while_an_unused_one_of_its_content_is_deleted(store, url):
    store.apply([StartRuns([started("old")])])
    store.apply([RequestCancel("old", "enough", force=True)])
    prune = Prune(store.now() + 1, ["cancelled"])
    store.apply([prune])
    with psycopg.connect(url) as db:
        db.execute("UPDATE holdfast.definition SET used_at = 1")
        db.commit()
        store.database.start_within(db, [started("new")])

        with meanwhile(url, store, prune):
            db.commit()

    assert store.check() == []
    assert [name for name, _ in store.definitions.active_names(None)] == []
    (kept,) = store.definitions.of_route("default", "new", "1")
    assert (kept.name, kept.content) == ("new", b"call build")


def test_a_browser_logs_in_with_an_api_key_while_it_is_revoked(store, url):
    grant = Grant("ci", (Role.VIEWER,))
    store.apply([AddApiKey(ApiKey("k1", b"d" * 32, grant, 0))])
    login = {"id": "l1", "digest": b"d" * 32, "is_link": 0, "api_key_id": "k1", "name": "ci"}
    login |= {"roles": "viewer", "namespace": None, "gate_roles": "", "sees_values": 1}
    times = {"created_at": store.now(), "expires_at": store.now() + 10**9}
    with psycopg.connect(url) as db:
        assert db.execute(SQL["usable_api_key"], {"id": "k1"}).fetchall()
        db.execute(SQL["insert_login"], {**login, **times})

        with meanwhile(url, store, RevokeApiKey("ci")):
            db.commit()

    assert store.logins.sessions() == []
    late = Login("l2", b"d" * 32, grant, False, 0, 0, "k1")
    assert store.apply([AddLogin(late, 10**9)]) == [None]
