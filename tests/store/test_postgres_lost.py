"""A connection may be lost at any word. Nothing is written twice, nothing that was answered is lost."""

from contextlib import closing, contextmanager

import psycopg
import pytest

from holdfast.core.records import Event, Fanout, Kind, NewRun, Route, Session
from holdfast.core.status import Status
from holdfast.errors import EngineClosed, LeaseLost, StoreUnavailable
from holdfast.store import contract as c
from holdfast.store.postgres import PostgresStore, reader
from holdfast.testing.postgres import postgres
from tests.store.wire import ANSWER, REQUEST, wire

ROUTE = Route("default", "greet", "1", "default")
WAITS = b'[{"kind":"signal","name":"paid"}]'


def new(run_id="new", **options):
    return NewRun(**{"id": run_id, "route": ROUTE, "input": b"[1]", **options})


def session(store, session_id="s1", slot=-1):
    now = store.now()
    return Session(
        id=session_id, worker="w", host="h", pid=1, slot=slot, started_at=now, beat_at=now, expires_at=now + 10**9, serves=b"{}"
    )


def event(seq, kind=Kind.STEP_COMPLETED, **options):
    return Event(kind, f"step {seq}", b"1", seq=seq, **options)


def advance(run_id, seqs=(1,), **options):
    return c.Advance(run_id=run_id, generation=1, events=[event(seq) for seq in seqs], **options)


def write(connection):
    connection.execute("INSERT INTO note (text) VALUES ('paid')")
    return b"7"


@contextmanager
def furnished(server, folder):
    """A store whose writing connection goes through a wire, with a few runs held by a session."""
    with server.lend() as url, wire(server, folder) as line, closing(PostgresStore(line.url(url))) as store:
        held = [new(run_id, session_id="s1") for run_id in ("a", "b", "c", "parent")]
        child = new("child", session_id="s1", parent_id="parent", parent_step="map", parent_index=0, root_id="parent")
        store.apply([c.OpenSession(session(store))])
        store.apply([c.StartRuns(held), advance("parent", children=[child], fanouts=[Fanout("map", 1, False)])])
        store.apply([c.StartRuns([new("ready")])])
        with psycopg.connect(url) as db:
            db.execute("CREATE TABLE note (text TEXT)")
        yield store, url, line
        assert store.check() == []


def steps(store):
    return [advance("a")]


def many_steps(store):
    return [advance("a", (1, 2)), advance("b"), advance("c")]


def finish(store):
    return [advance("a", status=Status.COMPLETED, result=b"1")]


def park(store):
    return [advance("a", status=Status.WAITING, waits=WAITS, revision=0, keep=False)]


def keep_parked(store):
    return [advance("a", status=Status.WAITING, waits=WAITS, revision=0)]


def start(store):
    return [c.StartRuns([new(session_id="s1")])]


def start_with_tags(store):
    return [c.StartRuns([new(session_id="s1", tags={"a": "b"}, key="k")])]


def start_many(store):
    return [c.StartRuns([new("n1"), new("n2", tags={"a": "b"})])]


def signal(store):
    return [c.SignalRun("a", "paid", b"1")]


def signal_with_key(store):
    return [c.SignalRun("a", "paid", b"1", key="k")]


def body(store):
    return [advance("a", body=write)]


def child_ends(store):
    return [advance("child", status=Status.COMPLETED, result=b"1", parent=("parent", "map", 0))]


def have_a_child(store):
    born = new("second", session_id="s1", parent_id="a", parent_step="call", root_id="a")
    return [advance("a", children=[born])]


def cancel(store):
    return [c.RequestCancel("parent", "enough")]


def claim(store):
    return [c.Claim("s1", [(number, "default") for number in store.routes()], 5)]


def end(store):
    return [c.EndSession("s1", crashed=True)]


def mixed(store):
    return [advance("a"), c.StartRuns([new()]), c.SignalRun("b", "paid", b"1"), advance("c", status=Status.FAILED, error=b"{}")]


KINDS = [
    steps, many_steps, finish, park, keep_parked, start, start_with_tags, start_many, signal, signal_with_key, body, child_ends,
    have_a_child, cancel, claim, end, mixed,
]  # fmt: skip


def picture(store, url):
    """All that the database holds, but for times and numbers that a second try may change."""
    with psycopg.connect(url) as db:
        runs = "SELECT id, status, generation, revision, session_id, rank IS NULL, waits, result, error, crashes FROM holdfast.run"
        asked = {
            "runs": f"{runs} ORDER BY id",
            "events": "SELECT run_id, seq, kind, step, data, error FROM holdfast.event ORDER BY run_id, seq",
            "signals": "SELECT run_id, name, payload, key, taken FROM holdfast.signal ORDER BY run_id, id",
            "tags": "SELECT run_id, name, value FROM holdfast.tag ORDER BY run_id, name",
            "fanouts": "SELECT run_id, step, remaining FROM holdfast.fanout ORDER BY run_id, step",
            "knocks": "SELECT session_id, run_id FROM holdfast.knock ORDER BY run_id",
            "sessions": "SELECT id FROM holdfast.session ORDER BY id",
            "notes": "SELECT text FROM note",
        }
        return {name: db.execute(sql).fetchall() for name, sql in asked.items()}


def gist(answers):
    """What answers say, but for the time."""
    return [
        [(one.id, one.created, one.leased) for one in answer] if isinstance(answer, list) and answer and isinstance(answer[0], c.Started)
        else [run.id for run in answer] if isinstance(answer, list) and answer and not isinstance(answer[0], str)
        else (answer.data, [one.leased for one in answer.started]) if isinstance(answer, c.Advanced)
        else answer
        for answer in answers
    ]  # fmt: skip


def play(server, folder, kind, word=0, loses=REQUEST):
    """Write, with the wire cut at a word, and say how many words it took, what was answered, and what is there then."""
    with furnished(server, folder) as (store, url, line):
        ops = kind(store)
        line.cut(word or -1, loses)
        answers = store.apply(ops)
        assert line.was_cut is bool(word)
        return line.words, gist(answers), picture(store, url)


@pytest.mark.parametrize("loses", [REQUEST, ANSWER])
@pytest.mark.parametrize("kind", KINDS)
def test_wherever_the_connection_is_lost_it_is_as_if_it_had_not_been(postgres_server, tmp_path_factory, kind, loses):
    words, answers, expected = play(postgres_server, tmp_path_factory.mktemp("wire"), kind)

    for word in range(1, words + 1):
        _, told, found = play(postgres_server, tmp_path_factory.mktemp("wire"), kind, word, loses)
        assert (word, told) == (word, answers)
        assert (word, found) == (word, expected)
