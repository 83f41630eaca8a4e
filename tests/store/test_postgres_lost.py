"""A connection may be lost at any message. Nothing is written twice, and no answered write is
lost."""

import itertools
import threading
from contextlib import closing, contextmanager

import msgspec
import psycopg
import pytest

from holdfast.core.runs import RunRecord
from holdfast.core.status import Status
from holdfast.core.streams.model import CloseReason
from holdfast.errors import StoreReadOnly, StoreUnavailable
from holdfast.store.budgets.operations import BudgetSpent
from holdfast.store.database import Started
from holdfast.store.graphs.operations import ResolvedGraphs, StagedGraph
from holdfast.store.liveness import session_is_dead
from holdfast.store.postgres import PostgresDatabase, reader
from holdfast.store.postgres import liveness as postgres_liveness
from holdfast.store.runs.operations import (
    Advanced,
    Body,
    EndRun,
    EndSession,
    Heartbeat,
    OpenSession,
    RequestCancel,
    StartChildren,
    StartRuns,
)
from holdfast.store.signals.operations import SignalRun
from holdfast.store.store import Store
from holdfast.store.streams.operations import CloseStreams
from holdfast.store.tasks.operations import LeasedTask
from tests.store.helpers import (
    WAITS,
    advance,
    claim,
    ends,
    furnished,
    in_threads,
    new,
    note,
    session,
    stage,
    start,
    wait_until,
)
from tests.store.wire import ANSWER, REQUEST, SILENCE, wire

CHILD = {"parent_id": "a", "parent_step": "call", "root_id": "a", "session_id": "s1"}
KINDS = {
    "a step": lambda store: [advance("a")],
    "many steps": lambda store: [advance("a", (1, 2)), advance("b"), advance("c")],
    "an end": lambda store: [advance("a", status=Status.COMPLETED, result=b"1")],
    "parking": lambda store: [
        advance("a", status=Status.WAITING, waits=WAITS, revision=0, release=True)
    ],
    "parking in memory": lambda store: [
        advance("a", status=Status.WAITING, waits=WAITS, revision=0)
    ],
    "letting go": lambda store: [
        advance("a", (), status=Status.WAITING, waits=WAITS, revision=0, release=True)
    ],
    "giving back": lambda store: [advance("a", (), status=Status.PENDING, release=True)],
    "giving back a lease": lambda store: [
        advance(
            "a",
            (),
            status=Status.PENDING,
            release=True,
            effects=[CloseStreams(CloseReason.RETRIED)],
        )
    ],
    "giving back many": lambda store: [
        advance(run_id, (), status=Status.PENDING, release=True) for run_id in "abc"
    ],
    "going on": lambda store: [advance("a", (), status=Status.RUNNING, revision=0)],
    "a start": lambda store: [StartRuns([new(session_id="s1")])],
    "a start with tags": lambda store: [
        StartRuns([new(session_id="s1", tags={"a": "b"}, key="k")])
    ],
    "many starts": lambda store: [StartRuns([new("n1"), new("n2", tags={"a": "b"})])],
    "a signal": lambda store: [SignalRun("a", "paid", b"1")],
    "a signal with a key": lambda store: [SignalRun("a", "paid", b"1", key="k")],
    "a transactional step": lambda store: [advance("a", body=Body(note))],
    "the end of a child": lambda store: [
        advance(
            "child",
            status=Status.COMPLETED,
            result=b"1",
            effects=[EndRun(parent=("parent", "map", 0))],
        )
    ],
    "a birth": lambda store: [advance("a", effects=[StartChildren([new("second", **CHILD)])])],
    "a cancel": lambda store: [RequestCancel("parent", "enough")],
    "a claim": lambda store: [claim(store)],
    "graphs": lambda store: [stage("g", "h")],
    "ends in graphs": lambda store: ends(store, "g", "h"),
    "the end of a session": lambda store: [EndSession("s1", crashed=True)],
    "a batch": lambda store: [
        advance("a"),
        StartRuns([new()]),
        SignalRun("b", "paid", b"1"),
        advance("c", status=Status.FAILED, error=b"{}"),
    ],
}


def picture(url):
    """Return the content of the database without times and numbers that a retry may change."""
    runs = (
        "SELECT id, status, generation, revision, session_id, rank IS NULL, waits, result, error,"
        " crashes FROM holdfast.run"
    )
    asked = {
        "runs": f"{runs} ORDER BY id",
        "events": (
            "SELECT run_id, seq, kind, step, data, error FROM holdfast.event ORDER BY run_id, seq"
        ),
        "signals": (
            "SELECT run_id, name, payload, key, taken FROM holdfast.signal ORDER BY run_id, id"
        ),
        "tags": "SELECT run_id, name, value FROM holdfast.tag ORDER BY run_id, name",
        "fanouts": "SELECT run_id, step, remaining FROM holdfast.fanout ORDER BY run_id, step",
        "notifications": "SELECT session_id, run_id FROM holdfast.run_notification ORDER BY run_id",
        "sessions": "SELECT id FROM holdfast.session ORDER BY id",
        "notes": "SELECT text FROM note",
        "graphs": (
            "SELECT id, status, revision, members, live, events FROM holdfast.graph ORDER BY id"
        ),
        "members": (
            "SELECT run_id, state, missing, input FROM holdfast.graph_member ORDER BY run_id"
        ),
        "groups": (
            "SELECT run_id, number, done, lost, state FROM holdfast.graph_group ORDER BY run_id,"
            " number"
        ),
        "edges": (
            "SELECT upstream, dependent, number FROM holdfast.graph_edge ORDER BY upstream,"
            " dependent"
        ),
        "trails": (
            "SELECT graph_id, seq, kind, member, data FROM holdfast.graph_event ORDER BY"
            " graph_id, seq"
        ),
        "news": "SELECT run_id, status FROM holdfast.graph_outbox ORDER BY run_id",
    }
    with psycopg.connect(url) as db:
        return {name: db.execute(sql).fetchall() for name, sql in asked.items()}


def gist(answer):
    """Return the content of an answer without its time."""
    if isinstance(answer, list):
        return [gist(item) for item in answer]
    if isinstance(answer, Started):
        return (answer.id, answer.created, answer.leased)
    if isinstance(answer, Advanced):
        return (answer.data, gist(answer.started))
    if isinstance(answer, StagedGraph | ResolvedGraphs):
        return [(born.run.id, gist(born.started)) for born in answer.born]
    if isinstance(answer, BudgetSpent):
        return (answer.counted, answer.breach)
    if isinstance(answer, LeasedTask):
        return gist(answer.run)
    return answer.id if isinstance(answer, RunRecord) else answer


@contextmanager
def wired(server, folder):
    """Yield a furnished store, the URL of its database, and the wire to it."""
    with server.lend() as url, wire(server, folder) as line, furnished(url, line.url(url)) as store:
        yield store, url, line


def play(server, folder, kind, word=0, loses=REQUEST):
    """Write with the wire cut at a message; return the number of messages, the answers, and the
    resulting database."""
    with wired(server, folder) as (store, url, line):
        ops = KINDS[kind](store)
        line.cut(word or -1, loses)
        answers = store.apply(ops)
        return line.words, gist(answers), picture(url)


@pytest.mark.parametrize("loses", [REQUEST, ANSWER])
@pytest.mark.parametrize("kind", KINDS)
def test_wherever_the_connection_is_lost_it_is_as_if_it_had_not_been(
    postgres_server, tmp_path_factory, kind, loses
):
    words, answers, expected = play(postgres_server, tmp_path_factory.mktemp("wire"), kind)

    for word in range(1, words + 1):
        _, told, found = play(postgres_server, tmp_path_factory.mktemp("wire"), kind, word, loses)
        assert (word, told) == (word, answers)
        assert (word, found) == (word, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_crash_between_two_writes_the_first_use_of_a_statement_reconnects(
    postgres_server, tmp_path_factory, kind
):
    _, answers, expected = play(postgres_server, tmp_path_factory.mktemp("wire"), kind)

    with wired(postgres_server, tmp_path_factory.mktemp("wire")) as (store, url, line):
        ops = KINDS[kind](store)
        line.crash()
        store.apply([Heartbeat("s1", 10**9)])
        line.crash()

        told = store.apply(ops)

        assert (gist(told), picture(url)) == (answers, expected)


@pytest.fixture
def scene(postgres_server, tmp_path):
    with wired(postgres_server, tmp_path) as found:
        yield found


@pytest.fixture
def store(scene):
    return scene[0]


@pytest.fixture
def other(scene):
    """A second store on the same database, in place of another process."""
    with closing(Store(PostgresDatabase(scene[1]))) as other:
        yield other


def kill(server, pid):
    """Terminate a server session as an administrator would, and wait until it has ended."""
    server.execute(f"SELECT pg_terminate_backend({pid}, 5000)")


class TestALostServer:
    @pytest.mark.parametrize(
        "kind", ["a step", "a start", "a signal", "a transactional step", "a batch"]
    )
    @pytest.mark.parametrize("loses", [REQUEST, ANSWER])
    def test_whoever_asks_again_later_gets_the_answer_and_nothing_is_written_twice(
        self, scene, postgres_server, tmp_path_factory, monkeypatch, kind, loses
    ):
        words, answers, expected = play(postgres_server, tmp_path_factory.mktemp("wire"), kind)
        store, url, line = scene
        ops = KINDS[kind](store)
        line.cut(words, loses)
        line.dead = True
        monkeypatch.setattr(reader, "PATIENCE", 0.2)  # keep the test short

        with pytest.raises(StoreUnavailable, match="no server answers"):
            store.apply(ops)
        monkeypatch.undo()
        line.dead = False

        assert store.apply([advance("parent", [2])])[0].now
        assert gist(store.apply(ops)) == answers
        events = [event for event in picture(url)["events"] if event[:2] != ("parent", 2)]
        assert events == expected["events"]

    def test_a_session_that_does_not_know_that_it_was_lost_keeps_nobody_waiting(self, scene):
        store, _, line = scene
        line.cut(3, SILENCE)

        assert [answer.new for answer in store.apply([SignalRun("a", "paid", b"1")])] == [True]

        assert len(store.signals.of_run("a")) == 1


class TestKilled:
    def test_between_two_writes(self, store, postgres_server):
        for seq in (1, 2, 3):
            kill(postgres_server, store.database._writer.pid)
            assert isinstance(store.apply([advance("a", [seq])])[0], Advanced)

        assert [event.seq for event in store.runs.history("a")] == [1, 2, 3]

    def test_in_the_middle_of_user_code_which_is_called_again_and_takes_effect_once(
        self, scene, postgres_server
    ):
        store, url, _ = scene
        calls = []

        def body(connection):
            calls.append(note(connection))
            if len(calls) == 1:
                kill(postgres_server, store.database._writer.pid)
                connection.execute("SELECT 1")
            return b"7"

        answers = store.apply([advance("a", body=Body(body)), advance("b")])

        assert [type(answer) for answer in answers] == [Advanced, Advanced]
        assert (len(calls), picture(url)["notes"]) == (2, [("paid",)])

    def test_who_reads_does_not_notice(self, store, postgres_server):
        for _ in range(3):
            assert store.runs.get("a") is not None
            for idle in store.database._reader.idle:
                kill(postgres_server, idle.pid)

        assert store.runs.get("a") is not None
        assert len(store.database._reader.idle) == 1

    def test_who_listens_looks_once_and_goes_on_listening(self, store, other, postgres_server):
        assert store.changed()
        kill(postgres_server, store.database._notifier._db.pid)
        wait_until(store.changed)

        other.apply([StartRuns([new("x")])])
        wait_until(store.changed)

    def test_who_was_alive_is_alive(self, store, other, postgres_server):
        slot = store.liveness.acquire()
        watched = session(other, slot=slot)
        assert other.liveness.is_alive(watched) is True
        kill(postgres_server, store.database._notifier._db.pid)

        assert other.liveness.is_alive(watched) is not False
        wait_until(lambda: other.liveness.is_alive(watched))
        store.liveness.release(slot)
        wait_until(lambda: other.liveness.is_alive(watched) is False)

    def test_who_beats_without_a_lock_is_alive(self, store):
        silent = session(store, slot=4711)  # locked by no connection
        wait_until(lambda: store.liveness.is_alive(silent) is False)

        beating = msgspec.structs.replace(silent, beat_at=silent.beat_at + 1)

        assert store.liveness.is_alive(beating) is None
        wait_until(lambda: store.liveness.is_alive(beating) is False)

    def test_a_lock_that_is_missing_after_the_server_was_lost_shows_no_death(
        self, other, postgres_server, monkeypatch
    ):
        absent = session(other, slot=4711)  # locked by no connection
        assert other.liveness.is_alive(absent) is None
        for idle in other.database._reader.idle:
            kill(postgres_server, idle.pid)
        monkeypatch.setattr(postgres_liveness, "GRACE", 0.0)
        monkeypatch.setattr(postgres_liveness, "SEEN", -1.0)

        assert other.liveness.is_alive(absent) is None
        monkeypatch.setattr(postgres_liveness, "RETURN", 0.0)
        wait_until(lambda: other.liveness.is_alive(absent) is False)

    def test_a_heartbeat_that_is_overdue_after_the_server_was_lost_shows_no_death(
        self, other, postgres_server, monkeypatch
    ):
        late = msgspec.structs.replace(session(other), expires_at=other.now() - 1)
        holder = msgspec.structs.replace(late, pid=0)
        assert other.runs.get("a") is not None
        assert session_is_dead(other, late, other.now())
        for idle in other.database._reader.idle:
            kill(postgres_server, idle.pid)
        assert other.runs.get("a") is not None

        assert not session_is_dead(other, late, other.now())
        assert session_is_dead(other, holder, other.now()), "leases end at their time"
        monkeypatch.setattr(postgres_liveness, "GRACE", 0.0)
        monkeypatch.setattr(postgres_liveness, "RETURN", 0.0)
        assert session_is_dead(other, late, other.now())

    def test_a_lost_lock_is_taken_again(self, store, other):
        slot = store.liveness.acquire()
        watched = session(other, slot=slot)
        notifier = store.database._notifier
        notifier._run_job(lambda db: notifier._unlock(db, slot), 10.0)

        wait_until(lambda: store.liveness.keep(slot))

        wait_until(lambda: other.liveness.is_alive(watched))
        store.liveness.release(slot)
        wait_until(lambda: other.liveness.is_alive(watched) is False)


class TestRestarted:
    @pytest.mark.parametrize("mode", ["immediate", "fast"])
    def test_all_that_was_answered_is_there_once(self, restartable_server, mode):
        url, told, over = restartable_server.new_store(), [], threading.Event()

        def work(store, name):
            store.apply([OpenSession(session(store, name))])
            start(store, name, session_id=name)
            for seq in itertools.count(1):
                if over.is_set():
                    return
                assert isinstance(store.apply([advance(name, [seq])])[0], Advanced)
                told.append((name, seq))

        def restart():
            wait_until(lambda: len(told) > 20)
            restartable_server.restart(mode)
            before = len(told)
            wait_until(lambda: len(told) > before + 20)
            over.set()

        with (
            closing(Store(PostgresDatabase(url))) as one,
            closing(Store(PostgresDatabase(url))) as two,
        ):
            in_threads(lambda: work(one, "one"), lambda: work(two, "two"), restart)
            assert one.check() == []
            for name in ("one", "two"):
                assert [(name, event.seq) for event in two.runs.history(name)] == sorted(
                    one for one in told if one[0] == name
                )

    def test_a_server_that_is_a_standby_now_is_told_and_forgotten_when_it_is_none(
        self, restartable_server
    ):
        signal = restartable_server.data / "standby.signal"
        with closing(Store(PostgresDatabase(restartable_server.new_store()))) as store:
            start(store, "before")
            restartable_server.stop("fast")
            signal.touch()
            restartable_server.start()

            with pytest.raises(StoreReadOnly, match="standby"):
                start(store, "r1")
            assert store.runs.get("before") is not None
            with pytest.raises(StoreReadOnly, match="primary"):
                Store(
                    PostgresDatabase(restartable_server.url(store.database._writer.raw.info.dbname))
                )

            restartable_server.stop("fast")
            signal.unlink()
            restartable_server.start()
            assert start(store, "r1").created
