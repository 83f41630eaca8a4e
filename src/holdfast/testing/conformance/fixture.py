"""Fixtures and helpers of the conformance suite: a store, a clock that is moved by hand, and
methods that apply the most common operations."""

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
from holdfast.store.database import Operation, Started
from holdfast.store.effects import Effect
from holdfast.store.runs.operations import (
    Advance,
    Claim,
    EndSession,
    OpenSession,
    StartRuns,
    end_of,
)
from holdfast.store.store import Store
from holdfast.testing.clock import VirtualClock

SECOND = 1_000_000
MINUTE = 60 * SECOND
MORNING = 1_750_000_000 * SECOND
ROUTE = Route("default", "greet", "1", "default")
WAITS = b'[{"kind":"signal","name":"paid"}]'
STUCK = b'{"type":"Diverged","message":"it is another program"}'


class HandClock(VirtualClock):
    """A clock that moves only when ``move`` is called; its unit is the microsecond."""

    def __init__(self, instant: int = MORNING) -> None:
        super().__init__(datetime.fromtimestamp(instant // SECOND, UTC))

    def move(self, by: int) -> None:
        """Move the clock forward *by* microseconds."""
        self.advance_to(self.now() + by)


class OpenStore(Protocol):
    """Open a store on the database of the test, which is empty at the first call.

    Each further call opens the same database, as another process would.
    """

    def __call__(self, clock: Clock | None = None) -> Store: ...


class StoreFixture:
    """Declare the methods that a store must supply to the suite, and the helpers of the tests.

    A subclass implements ``open_store``, ``execute`` and ``transaction``.
    """

    @pytest.fixture
    def open_store(self) -> OpenStore:
        """Return a function that opens stores on one database, which is new for each test."""
        raise NotImplementedError

    def execute(self, store: Store, sql: str) -> None:
        """Execute a statement on the database without the store, and commit.

        Tables are written ``holdfast.run``: translate the prefix if the database has no schemas.
        """
        raise NotImplementedError

    def transaction(self, store: Store) -> AbstractContextManager[Any]:
        """Return a context manager that yields a user's connection with an open transaction.

        The connection is to the database of *store*. Leaving the block commits; an exception
        rolls back.
        """
        raise NotImplementedError

    def notices_commit(self, store: Store) -> bool:
        """Return whether the store notices that another process has committed.

        Override it if the store notices with a delay: then wait for the notification.
        """
        return store.changed()

    @pytest.fixture
    def clock(self) -> HandClock:
        return HandClock()

    @pytest.fixture
    def bare_store(self, open_store: OpenStore, clock: HandClock) -> Iterator[Store]:
        """A store whose laws are not checked at the end, for tests that break them."""
        store = open_store(clock)
        yield store
        store.close()

    @pytest.fixture
    def store(self, bare_store: Store) -> Iterator[Store]:
        """A store whose laws must all hold at the end of the test."""
        yield bare_store
        assert bare_store.check() == []

    @pytest.fixture
    def reopen(self, store: Store, open_store: OpenStore) -> Iterator[OpenStore]:
        """A function that opens the database of the test again, as another process would."""
        opened: list[Store] = []

        def reopen(clock: Clock | None = None) -> Store:
            opened.append(open_store(clock))
            return opened[-1]

        yield reopen
        for other in opened:
            other.close()

    def do(self, store: Store, op: Operation) -> Any:
        """Apply one operation and return its answer; raise the answer if it is an error."""
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
        """Open a session that expires after 15 seconds."""
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
        """Start a run that is leased to a session from its start; open the session if necessary."""
        if session_id not in {session.id for session in store.sessions.all()}:
            self.open(store, session_id)
        self.start(store, run_id, session_id=session_id, **options)
        return self.get(store, run_id)

    def end_sessions(self, store: Store) -> None:
        """End all sessions: a store refuses a copy while a worker has a session."""
        for session in store.sessions.all():
            self.do(store, EndSession(session.id, crashed=False))

    def claim(
        self,
        store: Store,
        session_id: str = "s1",
        limit: int = 100,
        routes: Sequence[Route] | None = None,
    ) -> list[RunRecord]:
        """Claim ready runs of *routes*, or of all routes, for a session.

        Opens the session if necessary.
        """
        if session_id not in {session.id for session in store.sessions.all()}:
            self.open(store, session_id)
        served = [
            (number, route.lane)
            for number, route in store.runs.routes().items()
            if routes is None or route in routes
        ]
        runs: list[RunRecord] = self.do(store, Claim(session_id, served, limit))
        return runs

    def claimed(self, store: Store, session_id: str = "s1", limit: int = 100) -> list[str]:
        return [run.id for run in self.claim(store, session_id, limit)]

    def get(self, store: Store, run_id: str = "r1") -> RunRecord:
        run = store.runs.get(run_id)
        assert run is not None
        return run

    def event(
        self, store: Store, run_id: str = "r1", kind: str = EventKind.MARKED, **options: Any
    ) -> Event:
        """Return the next event of the history of a run."""
        return Event(
            **{"kind": kind, "step": f"{kind} {len(store.runs.history(run_id)) + 1}", **options},
            seq=self.seq(store, run_id),
        )

    def seq(self, store: Store, run_id: str) -> int:
        return len(store.runs.history(run_id)) + 1

    def advance(self, store: Store, run: RunRecord, **options: Any) -> Any:
        """Apply an ``Advance`` as the holder of *run*, by default with one event."""
        options.setdefault("events", [self.event(store, run.id)])
        options.setdefault("graph_id", run.graph_id)
        return self.do(store, Advance(run_id=run.id, generation=run.generation, **options))

    def finish(
        self,
        store: Store,
        run: RunRecord,
        status: Status = Status.COMPLETED,
        *,
        had_children: bool = False,
        effects: Sequence[Effect] = (),
        **options: Any,
    ) -> Any:
        """End a run as its holder: with a result if *status* is ``COMPLETED``, else an error."""
        end = end_of(run, had_children=had_children)
        if end is not None:
            effects = [*effects, end]
        done = status is Status.COMPLETED
        outcome = {"result": b"1"} if done else {"error": b'{"type":"ValueError","message":"no"}'}
        events = [
            self.event(store, run.id, EventKind.RUN_COMPLETED if done else EventKind.RUN_FAILED)
        ]
        return self.advance(
            store, run, status=status, events=events, effects=effects, **outcome, **options
        )

    def park(self, store: Store, run: RunRecord, *, keep: bool = False, **options: Any) -> Any:
        """Park a run, as its holder, on the signal ``paid``; *keep* keeps the lease."""
        waits = {
            "status": Status.WAITING,
            "waits": WAITS,
            "revision": self.get(store, run.id).revision,
        }
        return self.advance(store, run, release=not keep, **{**waits, **options})

    def parked(self, store: Store, run_id: str = "r1", **options: Any) -> RunRecord:
        """Start a run, park it and release its lease."""
        run = self.hold(store, run_id, **options)
        self.park(store, run)
        return self.get(store, run_id)

    def stuck(self, store: Store, run_id: str = "r1") -> RunRecord:
        """Start a run, make it stuck and release its lease."""
        run = self.hold(store, run_id)
        events = [self.event(store, run_id, EventKind.RUN_STUCK)]
        self.advance(store, run, status=Status.STUCK, error=STUCK, events=events, release=True)
        return self.get(store, run_id)

    def child_of(self, parent: RunRecord, run_id: str, **options: Any) -> NewRun:
        """Return a new child of *parent*, started by its step ``call``."""
        lineage = {
            "parent_id": parent.id,
            "parent_step": "call",
            "root_id": parent.root_id or parent.id,
        }
        return self.new(run_id, **{**lineage, **options})

    def status(self, store: Store, run_id: str = "r1") -> Status:
        return self.get(store, run_id).status

    def kinds(self, store: Store, run_id: str = "r1") -> list[str]:
        return [event.kind for event in store.runs.history(run_id)]
