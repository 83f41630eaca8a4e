"""What every test of the suite works with: a store, a clock moved by hand, and short words for what
is done to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, Protocol

import pytest

from holdfast.core.events import Event, EventKind
from holdfast.core.runs import NewRun, Route, RunRecord
from holdfast.core.sessions import Session
from holdfast.core.status import Status
from holdfast.store.clock import Clock
from holdfast.store.contract import Operation, Store
from holdfast.store.contract.runs import Advance, Claim, EndSession, OpenSession, Started, StartRuns
from holdfast.testing.clock import VirtualClock

SECOND = 1_000_000
MINUTE = 60 * SECOND
MORNING = 1_750_000_000 * SECOND
ROUTE = Route("default", "greet", "1", "default")
WAITS = b'[{"kind":"signal","name":"paid"}]'
STUCK = b'{"type":"Diverged","message":"it is another program"}'


class HandClock(VirtualClock):
    """A clock that moves only by hand, told in microseconds."""

    def __init__(self, instant: int = MORNING) -> None:
        super().__init__(datetime.fromtimestamp(instant // SECOND, UTC))

    def move(self, by: int) -> None:
        """Let time pass."""
        self.advance_to(self.now() + by)


class OpenStore(Protocol):
    """Opens a store on the database of the test, which is empty at first."""

    def __call__(self, clock: Clock | None = None) -> Store: ...


class StoreFixture:
    """What a subclass must give, and short words for what the tests do all the time."""

    @pytest.fixture
    def open_store(self) -> OpenStore:
        """Return what opens stores on one database, new for each test."""
        raise NotImplementedError

    def execute(self, store: Store, sql: str) -> None:
        """Execute a statement on the database behind the store's back and commit; tables are
        written ``holdfast.run``."""
        raise NotImplementedError

    def transaction(self, store: Store) -> AbstractContextManager[Any]:
        """Return a user's connection to the same database with a transaction open; an exception
        rolls it back."""
        raise NotImplementedError

    def hears(self, store: Store) -> bool:
        """Say whether the store notices that another process has committed. Override it where that
        takes a moment."""
        return store.changed()

    @pytest.fixture
    def clock(self) -> HandClock:
        return HandClock()

    @pytest.fixture
    def bare_store(self, open_store: OpenStore, clock: HandClock) -> Iterator[Store]:
        """A store that may break laws."""
        store = open_store(clock)
        yield store
        store.close()

    @pytest.fixture
    def store(self, bare_store: Store) -> Iterator[Store]:
        """A store that keeps all laws in every test."""
        yield bare_store
        assert bare_store.check() == []

    @pytest.fixture
    def reopen(self, store: Store, open_store: OpenStore) -> Iterator[OpenStore]:
        """What opens the database of the test once more, as another process would."""
        opened: list[Store] = []

        def reopen(clock: Clock | None = None) -> Store:
            opened.append(open_store(clock))
            return opened[-1]

        yield reopen
        for other in opened:
            other.close()

    def do(self, store: Store, op: Operation) -> Any:
        """Apply one transition and return its answer, or raise what refused it."""
        answer = store.apply([op])[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def new(self, run_id: str = "r1", **options: Any) -> NewRun:
        return NewRun(**{"id": run_id, "route": ROUTE, "input": b"[1]", **options})

    def start(self, store: Store, run_id: str = "r1", **options: Any) -> Started:
        started: Started = self.do(store, StartRuns([self.new(run_id, **options)]))[0]
        return started

    def open(
        self, store: Store, session_id: str = "s1", *, worker: str = "w", slot: int = -1
    ) -> Session:
        now = store.now()
        session = Session(
            id=session_id,
            worker=worker,
            host="h",
            pid=1,
            slot=slot,
            started_at=now,
            beat_at=now,
            expires_at=now + 15 * SECOND,
            serves=b"{}",
        )
        self.do(store, OpenSession(session))
        return session

    def hold(
        self, store: Store, run_id: str = "r1", session_id: str = "s1", **options: Any
    ) -> RunRecord:
        """Start a run that is born leased."""
        if session_id not in {session.id for session in store.sessions()}:
            self.open(store, session_id)
        self.start(store, run_id, session_id=session_id, **options)
        return self.get(store, run_id)

    def end_sessions(self, store: Store) -> None:
        """End all sessions: nobody may work on a store into which others are copied."""
        for session in store.sessions():
            self.do(store, EndSession(session.id, crashed=False))

    def claim(
        self,
        store: Store,
        session_id: str = "s1",
        limit: int = 100,
        routes: Sequence[Route] | None = None,
    ) -> list[RunRecord]:
        """Claim for a session, which is opened if need be, what is ready on all routes, or on
        these."""
        if session_id not in {session.id for session in store.sessions()}:
            self.open(store, session_id)
        served = [
            (number, route.lane)
            for number, route in store.routes().items()
            if routes is None or route in routes
        ]
        runs: list[RunRecord] = self.do(store, Claim(session_id, served, limit))
        return runs

    def claimed(self, store: Store, session_id: str = "s1", limit: int = 100) -> list[str]:
        return [run.id for run in self.claim(store, session_id, limit)]

    def get(self, store: Store, run_id: str = "r1") -> RunRecord:
        run = store.run(run_id)
        assert run is not None
        return run

    def event(
        self, store: Store, run_id: str = "r1", kind: str = EventKind.MARKED, **options: Any
    ) -> Event:
        """Return the next line of a history."""
        return Event(
            **{"kind": kind, "step": f"{kind} {len(store.history(run_id)) + 1}", **options},
            seq=self.seq(store, run_id),
        )

    def seq(self, store: Store, run_id: str) -> int:
        return len(store.history(run_id)) + 1

    def advance(self, store: Store, run: RunRecord, **options: Any) -> Any:
        """Write as the holder of *run*; one event, unless told otherwise."""
        options.setdefault("events", [self.event(store, run.id)])
        return self.do(store, Advance(run_id=run.id, generation=run.generation, **options))

    def finish(
        self, store: Store, run: RunRecord, status: Status = Status.COMPLETED, **options: Any
    ) -> Any:
        parent = (
            None
            if run.parent_id is None
            else (run.parent_id, run.parent_step or "", run.parent_index)
        )
        done = status is Status.COMPLETED
        said = {"result": b"1"} if done else {"error": b'{"type":"ValueError","message":"no"}'}
        events = [
            self.event(store, run.id, EventKind.RUN_COMPLETED if done else EventKind.RUN_FAILED)
        ]
        return self.advance(
            store, run, status=status, parent=parent, events=events, **said, **options
        )

    def park(self, store: Store, run: RunRecord, *, keep: bool = False, **options: Any) -> Any:
        """Park a run, as its holder, on a signal called paid."""
        waits = {
            "status": Status.WAITING,
            "waits": WAITS,
            "revision": self.get(store, run.id).revision,
        }
        return self.advance(store, run, keep=keep, **{**waits, **options})

    def parked(self, store: Store, run_id: str = "r1", **options: Any) -> RunRecord:
        """Start a run and park it, held by nobody."""
        run = self.hold(store, run_id, **options)
        self.park(store, run)
        return self.get(store, run_id)

    def stuck(self, store: Store, run_id: str = "r1") -> RunRecord:
        run = self.hold(store, run_id)
        events = [self.event(store, run_id, EventKind.RUN_STUCK)]
        self.advance(store, run, status=Status.STUCK, error=STUCK, keep=False, events=events)
        return self.get(store, run_id)

    def child_of(self, parent: RunRecord, run_id: str, **options: Any) -> NewRun:
        below = {
            "parent_id": parent.id,
            "parent_step": "call",
            "root_id": parent.root_id or parent.id,
        }
        return self.new(run_id, **{**below, **options})

    def status(self, store: Store, run_id: str = "r1") -> Status:
        return self.get(store, run_id).status

    def kinds(self, store: Store, run_id: str = "r1") -> list[str]:
        return [event.kind for event in store.history(run_id)]
