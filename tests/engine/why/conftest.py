"""A store in which a test puts runs where it wants them, to ask why they are there."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.runs import NewRun, Route
from holdfast.core.sessions import Session
from holdfast.core.status import Status
from holdfast.service.why import why
from holdfast.store.runs.operations import Advance, Claim, OpenSession, StartRuns
from holdfast.store.sqlite import SqliteDatabase
from holdfast.store.store import Store
from holdfast.testing.clock import VirtualClock

SECOND = 1_000_000


class Bench:
    """Moves runs by the transitions of the store alone; no worker is at work."""

    def __init__(self, store, clock):
        self.store, self.clock = store, clock

    def do(self, op):
        answer = self.store.apply([op])[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def start(self, id="r1", workflow="shop", **options):
        route = Route(
            options.pop("namespace", "default"),
            workflow,
            options.pop("version", "1"),
            options.pop("lane", "default"),
            options.pop("capabilities", ()),
        )
        self.do(StartRuns([NewRun(id=id, route=route, input=b"[]", **options)]))
        return id

    def worker(self, name="w1", *, slot=-1, host="elsewhere", pid=77, **offer):
        serves = {
            "workflows": {"shop": None},
            "lanes": None,
            "capabilities": [],
            "namespace": None,
            "concurrency": 10,
            **offer,
        }
        now = self.store.now()
        session = Session(
            id=f"session-{name}",
            worker=name,
            host=host,
            pid=pid,
            slot=slot,
            started_at=now,
            beat_at=now,
            expires_at=now + 15 * SECOND,
            serves=msgspec.json.encode(serves),
        )
        self.do(OpenSession(session))
        return session.id

    def claim(self, session="session-w1", limit=1):
        routes = [(number, route.lane) for number, route in self.store.runs.routes().items()]
        return self.do(Claim(session, routes, limit))

    def advance(self, id="r1", *events, **options):
        run = self.store.runs.get(id)
        seq = len(self.store.runs.history(id))
        for number, event in enumerate(events, start=seq + 1):
            event.seq = number
        self.do(Advance(run_id=id, generation=run.generation, events=list(events), **options))

    def park(self, *waits, id="r1", keep=False):
        until = min((wait["until"] for wait in waits if wait.get("until")), default=None)
        options = {
            "status": Status.WAITING,
            "waits": msgspec.json.encode(waits),
            "wake_at": until,
            "release": not keep,
        }
        self.advance(id, **options)

    def begun(self, id="r1", **options):
        self.start(id, **options)
        self.worker()
        self.claim()

    def why(self, id="r1"):
        return why(self.store, self.store.runs.get(id))


@pytest.fixture
def bench(tmp_path):
    clock = VirtualClock()
    store = Store(SqliteDatabase(tmp_path / "why.db", clock=clock))
    yield Bench(store, clock)
    assert store.check() == []
    store.close()
