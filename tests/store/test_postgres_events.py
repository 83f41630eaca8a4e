"""Events that commit late are read late but not skipped, and the events of one run are read in
order, whichever transaction waited for another."""

from __future__ import annotations

import threading
from contextlib import closing

import psycopg
import pytest

from holdfast.core.subscriptions import BEGINNING, NOW, EventCursor, EventFilter
from holdfast.store.postgres import PostgresDatabase
from holdfast.store.runs.operations import OpenSession, RequestCancel, StartRuns
from holdfast.store.store import Store
from holdfast.store.subscriptions.operations import AddCursor, Consume, Consumed, MoveCursor
from tests.store.helpers import advance, new, session, wait_until

APPEND = (
    "INSERT INTO holdfast.event (run_id, seq, kind, attempt, at) VALUES (%s, %s, 'marked', 1, 1)"
)


@pytest.fixture
def database(postgres_server):
    with postgres_server.lend() as url:
        yield url


@pytest.fixture
def store(database):
    with closing(Store(PostgresDatabase(database))) as store:
        store.apply([OpenSession(session(store))])
        store.apply([StartRuns([new(run_id, session_id="s1") for run_id in ("a", "b", "c", "d")])])
        yield store


class Reader:
    """A reader of events that continues after its last event."""

    def __init__(self, store, after=BEGINNING):
        self.store, self.place, self.seen = store, store.subscriptions.place(after), []

    def read(self):
        """Return the run and the number of each event since the last call."""
        events, self.place = self.store.subscriptions.events(self.place, EventFilter())
        self.seen += [(event.run_id, event.seq) for event in events]
        return [(event.run_id, event.seq) for event in events]


def test_an_event_that_commits_late_is_not_skipped(store, database):
    reader = Reader(store)
    with psycopg.connect(database) as late:
        late.execute(APPEND, ("a", 1))  # has the lower number, and is not committed
        store.apply([advance("b")])
        store.apply([advance("c")])
        assert reader.read() == []  # what is above it must wait
        late.commit()
    store.apply([advance("d")])

    assert sorted(reader.read()) == [("a", 1), ("b", 1), ("c", 1), ("d", 1)]
    assert reader.read() == []


def test_one_that_got_its_number_late_but_began_early_is_not_skipped(store, database):
    reader = Reader(store)
    with psycopg.connect(database) as early, psycopg.connect(database) as other:
        early.execute("SELECT pg_current_xact_id()")
        other.execute(APPEND, ("b", 1))
        early.execute(APPEND, ("a", 1))  # a higher number in an older transaction
        early.commit()
        store.apply([advance("c")])
        assert reader.read() == [("a", 1)]
        other.commit()

    assert sorted(reader.read()) == [("b", 1), ("c", 1)]


def test_what_is_rolled_back_holds_up_nobody(store, database):
    reader = Reader(store)
    with psycopg.connect(database) as late:
        late.execute(APPEND, ("a", 1))
        store.apply([advance("b")])
        assert reader.read() == []
        late.rollback()

    assert reader.read() == [("b", 1)]


def test_whoever_begins_now_hears_what_commits_late(store, database):
    with psycopg.connect(database) as late:
        late.execute(APPEND, ("a", 1))
        store.apply([advance("b")])
        reader = Reader(store, NOW)
        late.commit()

    assert sorted(reader.read()) == [("a", 1), ("b", 1)]


def test_a_callback_does_not_pass_what_commits_late(store, database):
    seen = []
    consume = Consume(
        "me",
        EventFilter(),
        BEGINNING,
        10,
        lambda connection, events: seen.extend(event.run_id for event in events),
    )
    with psycopg.connect(database) as late:
        late.execute(APPEND, ("a", 1))
        store.apply([advance("b")])
        assert store.apply([consume]) == [Consumed(0, more=False)]
        late.commit()

    assert store.apply([consume]) == [Consumed(2, more=True)]
    assert sorted(seen) == ["a", "b"]


def test_who_waited_for_the_row_of_a_run_comes_after_whom_it_waited_for(
    store, database, postgres_server
):
    """A forced cancel begins first, but writes last: its event is read last."""
    reader = Reader(store)
    with closing(Store(PostgresDatabase(database))) as other, psycopg.connect(database) as holder:
        holder.execute("SELECT id FROM holdfast.run WHERE id = 'a' FOR NO KEY UPDATE")
        cancel = threading.Thread(
            target=lambda: other.apply([RequestCancel("a", "enough", force=True)])
        )
        cancel.start()
        waiting = "SELECT 1 FROM pg_locks WHERE NOT granted"
        wait_until(lambda: postgres_server.execute(waiting, database))
        holder.execute("SELECT pg_current_xact_id()")
        holder.execute(APPEND, ("a", 1))
        holder.commit()
        cancel.join()

    assert reader.read() == [("a", 1), ("a", 2)]


def test_many_writers_and_a_reader_that_never_rests(store, database):
    reader, writers = Reader(store), 6
    stop = threading.Event()

    def write(number):
        with psycopg.connect(database) as db:
            for seq in range(1, 31):
                db.execute(APPEND, (f"w{number}", seq))
                if seq % 3 == 0:
                    db.commit()
            db.commit()

    store.apply([StartRuns([new(f"w{number}") for number in range(writers)])])
    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]

    def read_on():
        while not stop.is_set():
            reader.read()

    watching = threading.Thread(target=read_on)
    watching.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    watching.join()
    while reader.read():
        pass

    assert len(reader.seen) == len(set(reader.seen)) == writers * 30
    for number in range(writers):
        assert [seq for run_id, seq in reader.seen if run_id == f"w{number}"] == list(range(1, 31))


def test_a_restored_database_tells_its_events_again_to_whoever_read_there(
    store, database, postgres_server
):
    """The numbers of transactions are those of another server, and far ahead."""
    store.apply([advance("a"), advance("b")])
    store.apply([AddCursor("me", EventFilter(), BEGINNING)])
    reader = Reader(store)
    assert len(reader.read()) == 2
    store.apply([MoveCursor("me", reader.place)])
    store.apply([advance("c")])
    installation = store.installation.id()
    ahead = (
        "UPDATE holdfast.event SET tx = CAST(CAST(CAST(CAST(tx AS TEXT) AS BIGINT) + 5000000 AS"
        " TEXT) AS xid8)"
    )
    postgres_server.execute(ahead, database)
    postgres_server.execute(
        "UPDATE holdfast.subscription SET after_tx = after_tx + 5000000", database
    )

    with closing(Store(PostgresDatabase(database))) as restored:
        restored.apply([advance("d")])
        mine = restored.subscriptions.get("me")
        assert isinstance(mine.place, EventCursor)
        told = [
            (event.run_id, event.seq)
            for event in restored.subscriptions.events(mine.place, EventFilter())[0]
        ]
        assert told == [("c", 1), ("d", 1)]
        assert len(Reader(restored).read()) == 4
        assert restored.installation.id() != installation
