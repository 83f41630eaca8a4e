"""Helpers for tests of the PostgreSQL store: functions that build operations, and a database with a
few runs."""

from __future__ import annotations

import threading
import time
from contextlib import closing, contextmanager

import msgspec
import psycopg

from holdfast.core.events import Event, EventKind
from holdfast.core.graphs.model import GraphPatch, MemberSpec, NewGroup, NewMember, run_of
from holdfast.core.runs import Fanout, NewRun, Route
from holdfast.core.sessions import Session
from holdfast.core.status import Status
from holdfast.store.graphs.operations import GraphStage, ResolveGraphs, StageGraphs
from holdfast.store.postgres import PostgresDatabase
from holdfast.store.runs.operations import Advance, Claim, OpenSession, StartChildren, StartRuns
from holdfast.store.store import Store

ROUTE = Route("default", "greet", "1", "default")
WAITS = b'[{"kind":"signal","name":"paid"}]'


def new(run_id="new", **options):
    return NewRun(**{"id": run_id, "route": ROUTE, "input": b"[1]", **options})


def start(store, run_id="r1", **options):
    return store.apply([StartRuns([new(run_id, **options)])])[0][0]


def session(store, session_id="s1", slot=-1):
    now = store.now()
    return Session(
        id=session_id,
        worker="w",
        host="h",
        pid=1,
        slot=slot,
        started_at=now,
        beat_at=now,
        expires_at=now + 10**9,
        serves=b"{}",
    )


def advance(run_id, seqs=(1,), **options):
    events = [Event(EventKind.STEP_COMPLETED, f"step {seq}", b"1", seq=seq) for seq in seqs]
    return Advance(run_id=run_id, generation=1, events=events, **options)


def claim(store, session_id="s1", limit=5):
    return Claim(
        session_id, [(number, route.lane) for number, route in store.runs.routes().items()], limit
    )


def note(connection):
    """Insert a row, as the body of a transactional step."""
    connection.execute("INSERT INTO note (text) VALUES ('paid')")
    return b"7"


def stage(*graphs):
    """Return an operation that stages *graphs*, each with three members, for the session ``s1``.

    The third member waits for the two others and takes their results.
    """
    first = [NewMember(name=name, spec=MemberSpec(route=ROUTE), input=b"[1]") for name in "xy"]
    last = NewMember(
        name="z",
        spec=MemberSpec(route=ROUTE, takes=("x", "y")),
        input=b"[1]",
        groups=(NewGroup(("x", "y"), 2),),
    )
    patch = GraphPatch((*first, last))
    stages = [
        GraphStage(id=graph, namespace="default", name="test", fingerprint="f", patch=patch)
        for graph in graphs
    ]
    return StageGraphs(stages=stages, compose=compose, lease=lambda route: "s1")


def ends(store, *graphs):
    """Stage *graphs*; return a batch that ends the first two members of each and resolves the
    graphs."""
    store.apply([stage(*graphs)])
    return [
        *(
            advance(run_of(graph, name), status=Status.COMPLETED, result=b"1", graph_id=graph)
            for graph in graphs
            for name in "xy"
        ),
        ResolveGraphs(compose=compose, lease=lambda route: "s1"),
    ]


def compose(run_id, data, results, fetch):
    return msgspec.json.encode(
        [msgspec.json.decode(results[name][1]) for name in sorted(results)]
    ), []


@contextmanager
def furnished(url, through=None):
    """Yield a store with a few runs that a session holds; check the laws at the end.

    *through* is another URL of the same database, by which the store connects to it.
    """
    with closing(Store(PostgresDatabase(through or url))) as store:
        held = [new(run_id, session_id="s1") for run_id in ("a", "b", "c", "parent")]
        child = new(
            "child",
            session_id="s1",
            parent_id="parent",
            parent_step="map",
            parent_index=0,
            root_id="parent",
        )
        store.apply([OpenSession(session(store))])
        store.apply(
            [
                StartRuns(held),
                advance("parent", effects=[StartChildren([child], [Fanout("map", 1, False)])]),
            ]
        )
        store.apply([StartRuns([new("ready")])])
        with psycopg.connect(url) as db:
            db.execute("CREATE TABLE IF NOT EXISTS note (text TEXT)")
        yield store
        assert store.check() == []


def wait_until(found, seconds=60.0):
    """Poll *found* until it returns a true value, and return that value; fail after *seconds*."""
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not (value := found()):
        assert time.monotonic() < deadline, "it did not come to pass"
        pause.wait(0.005)
    return value


def in_threads(*works):
    """Run all *works* concurrently in threads; raise the first error of any of them."""
    failed = []

    def guarded(work):
        try:
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
