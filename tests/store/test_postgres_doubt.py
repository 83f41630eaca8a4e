"""Commits in doubt: a crashed server reuses the numbers of lost transactions, so rows decide
whether a commit succeeded."""

import os
import signal
import threading
from contextlib import ExitStack, closing, contextmanager

import psycopg
import pytest

from holdfast import Engine
from holdfast.core.budgets.rules import UNIT, limits_from
from holdfast.core.events import Event, EventKind
from holdfast.core.status import Status
from holdfast.errors import StoreUnavailable
from holdfast.store.budgets.operations import SetBudget, SpendRunBudget
from holdfast.store.postgres import PostgresDatabase, reader
from holdfast.store.postgres.commit_markers import KEPT, OLD, CommitMarkers
from holdfast.store.postgres.connection import Connection
from holdfast.store.runs.operations import Advanced, Heartbeat, OpenSession, Prune
from holdfast.store.store import Store
from holdfast.store.tasks.operations import ClaimLeases, CompleteLeases, TaskCompletion
from holdfast.testing.postgres import postgres
from tests.store.helpers import advance, claim, furnished, session, start, wait_until
from tests.store.test_postgres_lost import KINDS, gist, picture
from tests.store.wire import ANSWER, REQUEST, wire

COMMIT = b"COMMIT\0"
NEXT_NUMBER = "SELECT CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS TEXT) AS BIGINT)"
OPEN = "SELECT pid FROM pg_stat_activity WHERE backend_xid IS NOT NULL"
WAL_WRITER = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"
SETTINGS = (
    "fsync=off",
    "full_page_writes=off",
    "autovacuum=off",
    "bgwriter_lru_maxpages=0",
    "checkpoint_timeout=1h",
)
"""Only processes crash here, so written data survives without a sync. The WAL writer is the only
process that writes for others."""


def completed(store):
    store.apply([OpenSession(session(store, "s2"))])
    store.apply([claim(store, "s2")])
    return [CompleteLeases([TaskCompletion("ready", 1, 0, b"1")])]


def spending(store):
    store.apply([SetBudget(name="wallet", limits=limits_from({"cents": 10}))])
    paid = Event(EventKind.BUDGET_SPENT, "pay", seq=1)
    return [
        SpendRunBudget(
            run_id="a",
            generation=1,
            budgets=("wallet",),
            amounts={"cents": 3 * UNIT},
            event=paid,
            key="k",
        )
    ]


def finished(store):
    store.apply([advance("a", status=Status.COMPLETED, result=b"1")])
    return [Prune(before=store.now() + 1, statuses=["completed"])]


EVERY_KIND = KINDS | {
    "a heartbeat": lambda store: [Heartbeat("s1", 10**9)],
    "a claim of leases": lambda store: [ClaimLeases("s1", claim(store).routes, 5)],
    "completed leases": completed,
    "a payment": spending,
    "pruning": finished,
}


@pytest.fixture(scope="module")
def server():
    with postgres(durable=True, settings=SETTINGS) as server:
        yield server


@pytest.fixture(scope="module")
def expected(server, tmp_path_factory):
    return {kind: undisturbed(server, tmp_path_factory.mktemp("w"), kind) for kind in EVERY_KIND}


@contextmanager
def unwritten(server):
    """Stop the WAL writer during the block, then crash the server and reuse the numbers of the lost
    transactions."""
    ((writer,),) = server.execute(WAL_WRITER)
    os.kill(writer, signal.SIGSTOP)
    yield
    wait_until(lambda: not server.execute(OPEN))
    ((lost,),) = server.execute(NEXT_NUMBER)
    ((postmaster,),) = server.execute("SELECT pg_postmaster_start_time()")
    os.kill(writer, signal.SIGKILL)
    wait_until(lambda: has_recovered(server, writer))
    assert server.execute("SELECT pg_postmaster_start_time()") == [(postmaster,)]
    ((again,),) = server.execute(NEXT_NUMBER)
    assert again < lost, "the numbers of the lost transactions must be free again"
    for _ in range(again, lost):
        server.execute("SELECT pg_current_xact_id()")
    assert server.execute(f"SELECT pg_xact_status(CAST('{lost - 1}' AS xid8))") == [("committed",)]


def has_recovered(server, old_writer):
    try:
        rows = server.execute(WAL_WRITER)
    except psycopg.Error:
        return False
    return bool(rows) and rows[0][0] != old_writer


class Doomed:
    """Operations whose last message is lost: the request, so that they were never committed, or the
    answer to it."""

    def __init__(self, stack, server, folder, kind, loses):
        self.kind, self.url = kind, stack.enter_context(server.lend())
        self.line = stack.enter_context(wire(server, folder))
        self.store = stack.enter_context(furnished(self.url, self.line.url(self.url)))
        self.ops, self.loses = EVERY_KIND[kind](self.store), loses

    def send(self, word):
        self.line.cut(word, self.loses)
        self.line.dead = True
        with pytest.raises(StoreUnavailable):
            self.store.apply(self.ops)
        assert self.line.was_cut

    def ask_again(self):
        self.line.dead = False
        return gist(self.store.apply(self.ops)), picture(self.url)


def undisturbed(server, folder, kind):
    """Return which message commits a kind of write, its answers, and the resulting database."""
    with ExitStack() as stack:
        one = Doomed(stack, server, folder, kind, REQUEST)
        one.line.cut(-1, REQUEST)
        answers = gist(one.store.apply(one.ops))
        said = one.line.said
        alone = [number for number, word in enumerate(said, 1) if b"notify_channel" not in word]
        last = COMMIT if any(COMMIT in word for word in said) else alone[-1]
        return last, answers, picture(one.url)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("loses", [REQUEST, ANSWER])
def test_what_was_on_its_way_when_the_server_crashed_is_written_once(
    server, expected, tmp_path_factory, monkeypatch, loses
):
    with ExitStack() as stack:
        doomed = [
            Doomed(stack, server, tmp_path_factory.mktemp("w"), kind, loses) for kind in EVERY_KIND
        ]
        monkeypatch.setattr(reader, "PATIENCE", 0.05)
        if loses == REQUEST:
            with unwritten(server):
                for one in doomed:
                    one.send(expected[one.kind][0])
        else:
            for one in doomed:
                one.send(expected[one.kind][0])
            server.restart("immediate")
        monkeypatch.undo()
        for one in doomed:
            answers, found = one.ask_again()
            assert (one.kind, answers) == (one.kind, expected[one.kind][1])
            assert (one.kind, found) == (one.kind, expected[one.kind][2])


@pytest.mark.timeout(300)
def test_a_claim_that_was_lost_with_the_server_leaves_the_run_to_another_worker(
    server, tmp_path, monkeypatch
):
    url = server.new_store()
    with (
        wire(server, tmp_path) as line,
        closing(Store(PostgresDatabase(line.url(url)))) as one,
        closing(Store(PostgresDatabase(url))) as two,
    ):
        for name, store in (("s1", one), ("s2", two)):
            store.apply([OpenSession(session(store, name))])
        start(two, "r1")
        asked = claim(one, "s1")
        with unwritten(server):
            line.cut(COMMIT, REQUEST)
            line.dead = True
            monkeypatch.setattr(reader, "PATIENCE", 0.05)
            with pytest.raises(StoreUnavailable):
                one.apply([asked])
            monkeypatch.undo()
        (claimed,) = two.apply([claim(two, "s2")])
        line.dead = False

        assert [run.id for run in claimed] == ["r1"]
        assert list(one.apply([asked])[0]) == []
        assert isinstance(two.apply([advance("r1")])[0], Advanced)
        assert one.runs.get("r1").session_id == "s2"
        assert one.check() == []


@pytest.mark.parametrize("method", ["claim", "reclaim"])
@pytest.mark.parametrize("loses", [REQUEST, ANSWER])
def test_a_holder_is_handed_what_it_has_leased_while_the_server_was_lost(
    server, tmp_path, monkeypatch, method, loses
):
    url = server.new_store()
    with ExitStack() as stack:
        line = stack.enter_context(wire(server, tmp_path))
        engine = stack.enter_context(closing(Engine(line.url(url))))
        leases = stack.enter_context(
            engine.tasks.worker("render-1", workflows=["render"], ttl="1h")
        )
        ask = leases.claim if method == "claim" else lambda: [leases.reclaim(run.id)]
        assert (
            leases.claim() == []
        )  # it has looked at everything, so that only the claim itself is lost
        run = engine.start("render", 1)
        assert engine.workers.list()
        line.cut(COMMIT, loses)
        line.dead = True
        monkeypatch.setattr(reader, "PATIENCE", 0.05)
        with pytest.raises(StoreUnavailable):
            ask()
        monkeypatch.undo()
        assert line.was_cut
        line.dead = False
        (lease,) = ask()

        assert (lease.run.id, lease.run.generation) == (run.id, 1)
        assert lease.complete(2).status == "completed"


class TestMarkers:
    @pytest.fixture
    def url(self, server):
        return server.new_store()

    @pytest.fixture
    def store(self, url):
        with closing(Store(PostgresDatabase(url))) as store:
            yield store

    @pytest.fixture
    def other(self, store):
        with closing(Connection(store.database.address)) as other:
            yield other

    def ask(self, db, marker, found):
        return threading.Thread(
            target=lambda: found.append(CommitMarkers().has_committed(db, marker, 1))
        )

    @pytest.mark.parametrize("commits", [True, False])
    def test_a_transaction_that_has_not_ended_yet_is_awaited(self, store, other, server, commits):
        markers, found = CommitMarkers(), []
        marker, db = markers.new_id(), store.database._writer
        db.begin()
        db.change("INSERT INTO holdfast.setting (name, value) VALUES ('x', 'y')")
        db.script(markers.statements(db, marker, 1))
        asking = self.ask(other, marker, found)
        asking.start()
        wait_until(
            lambda: server.execute(
                "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'transactionid'"
            )
        )
        db.commit() if commits else db.rollback()
        asking.join()

        assert found == [commits]

    def test_a_transaction_that_was_found_not_to_have_committed_cannot_do_so_later(
        self, store, other
    ):
        markers = CommitMarkers()
        marker, db = markers.new_id(), store.database._writer
        db.begin()
        db.change("INSERT INTO holdfast.setting (name, value) VALUES ('x', 'y')")

        assert not markers.has_committed(other, marker, 1)
        assert not markers.has_committed(other, marker, 1), "the answer stays the same"
        with pytest.raises(psycopg.errors.UniqueViolation):
            db.raw.execute(markers.statements(db, marker, 1) + "; COMMIT")
        db.rollback()

        assert other.rows("SELECT value FROM holdfast.setting WHERE name = 'x'") == []

    def test_a_transaction_that_wrote_nothing_has_no_marker(self, store, other):
        store.apply([OpenSession(session(store))])
        before = self.count(other)
        store.apply([Heartbeat("nobody", 1)])

        assert self.count(other) == before

    def test_markers_are_few_while_a_store_is_open_and_gone_when_it_is_closed(self, store, other):
        for _ in range(2 * KEPT + 10):
            store.apply([OpenSession(session(store))])

        assert 0 < self.count(other) <= KEPT + 1
        store.close()
        assert self.count(other) == 0

    def test_those_of_killed_processes_are_deleted_by_who_opens_the_database_later(
        self, url, store, other
    ):
        row = "INSERT INTO holdfast.commit_marker (id, at) VALUES (1, %(old)s), (2, %(new)s)"
        now = store.now()
        other.change(row, {"old": now - OLD - 1_000_000, "new": now})

        Store(PostgresDatabase(url)).close()

        assert other.rows("SELECT id FROM holdfast.commit_marker WHERE id < 3") == [{"id": 2}]

    def count(self, db):
        return db.rows("SELECT COUNT(*) AS count FROM holdfast.commit_marker")[0]["count"]
