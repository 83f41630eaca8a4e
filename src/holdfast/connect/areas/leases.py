"""Explicit leases: ``engine.leases(...)``, for programs that are no Python functions."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from holdfast.connect.areas.calls import AsyncCalls, Calls
from holdfast.connect.parts import seconds_of
from holdfast.core.duration import Duration
from holdfast.core.records import Run, Signal
from holdfast.core.status import Status
from holdfast.engine.client import Moment, Request
from holdfast.engine.leases import Ended, Holding, LeaseDesk, Put, Retried
from holdfast.errors import LeaseLost
from holdfast.store import contract as c

FASTEST, SLOWEST = 0.002, 0.05
"""Seconds between two looks for work that another process may have left."""

Do = Callable[[Request], Any]


class Lease:
    """The right to write one run. Each call that ends it says what came of it; made again, it is answered the same."""

    def __init__(self, holding: Holding, desk: LeaseDesk, do: Do, renew: Callable[[], None]) -> None:
        self._holding, self._desk, self._do, self._renew = holding, desk, do, renew

    @property
    def proof(self) -> str:
        """A text that shows the lease: ``engine.lease(proof)`` takes it up again, in this process or in another."""
        return str(self._holding.proof)

    @property
    def run(self) -> Run:
        """The run, as it was when it was leased."""
        return self._holding.run

    @property
    def input(self) -> Any:
        """The arguments of the run: a list, or an object with ``args`` and ``kwargs``."""
        return self._desk.input(self._holding.run)

    @property
    def attempt(self) -> int:
        """Which attempt this is; the first is 1. A lost one does not count."""
        return self._holding.failures.retried + 1

    @property
    def signals(self) -> Sequence[Signal]:
        """The signals that ended its wait, if it waited."""
        return self._holding.signals

    @property
    def timed_out(self) -> bool:
        """Whether it waited, and no signal came in time."""
        return self._holding.timed_out

    def renew(self) -> None:
        """Keep the lease, and all others of this holder. Raises LeaseLost when it is too late."""
        self._renew()

    def complete(self, result: Any = None) -> Ended:
        """End the run with a result."""
        ended: Ended = self._write(self._desk.complete(self._holding, result))
        return ended

    def fail(self, kind: str, message: str, details: Mapping[str, Any] | None = None) -> Retried | Ended:
        """Say that this attempt failed: transient, timeout, infrastructure, permanent or cancelled."""
        answer: Retried | Ended = self._write(self._desk.fail(self._holding, kind, message, details))
        return answer

    def delay(self, until: Moment) -> Put:
        """Put the run off for a time, or until one; that is no failure."""
        answer: Put = self._write(self._desk.delay(self._holding, until))
        return answer

    def suspend(self, *signals: str, timeout: Duration | None = None) -> Put:
        """Let the run wait for one of these signals; whoever claims it then sees which came, or that none did in time."""
        while True:
            answer = self._write(self._desk.suspend(self._holding, signals, timeout))
            if isinstance(answer, Put):
                return answer  # else something reached the run meanwhile: look again

    def cancel(self, reason: str = "cancelled by its holder") -> Ended:
        """Stop the run."""
        answer = self.fail("cancelled", reason)
        assert isinstance(answer, Ended)
        return answer

    def _write(self, request: Request) -> Any:
        try:
            return self._do(request)
        except LeaseLost as refused:
            return self._desk.explain(self._holding, request, refused)

    def __repr__(self) -> str:
        return f"<lease {self.proof}>"


class Leases:
    """A holder of leases. All of them live while it is renewed; when it is closed, or dies, they go back."""

    def __init__(
        self, desk: LeaseDesk, do: Do, *, worker: str = "", workflows: Sequence[str] | None = None,
        lanes: Sequence[str] | None = None, capabilities: Sequence[str] = (), ttl: Duration = "30s",
    ) -> None:  # fmt: skip
        self._desk, self._do = desk, do
        self._workflows, self._lanes, self._capabilities = workflows, lanes, tuple(capabilities)
        session, self._lifetime = desk.session(worker, ttl, workflows, lanes)
        self.session_id = session.id
        self._claiming, self._guard = threading.Lock(), threading.Lock()
        self._stock: deque[Lease] = deque()
        self._hungry = 0
        do(Request(c.OpenSession(session), lambda answer: None))

    def __enter__(self) -> Leases:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def claim(self, limit: int = 1, *, wait: Duration | None = None) -> list[Lease]:
        """Lease up to *limit* runs, best first; with *wait* wait that long for the first. Several threads may call it."""
        patience = seconds_of(wait) or 0.0
        until, pause = time.monotonic() + patience, FASTEST
        while True:
            found = self._take(limit)
            left = until - time.monotonic()
            if found or left <= 0:
                return found
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, SLOWEST)

    def _take(self, limit: int) -> list[Lease]:
        """Take what is in stock, or claim for all who are waiting for this moment."""
        with self._guard:
            self._hungry += limit
        try:
            with self._claiming:
                if not self._stock:
                    self._stock.extend(self._claim(max(self._hungry, limit)))
                return [self._stock.popleft() for _ in range(min(limit, len(self._stock)))]
        finally:
            with self._guard:
                self._hungry -= limit

    def _claim(self, limit: int) -> list[Lease]:
        for ended in self._desk.dead_sessions(self.session_id):
            self._do(Request(ended, lambda answer: None))
        routes = self._desk.routes(self._workflows, self._lanes, self._capabilities)
        if not routes:
            return []
        leased = self._do(Request(c.ClaimLeases(self.session_id, routes, limit), lambda answer: answer))
        return [self._begin(self._desk.holding(self.session_id, one)) for one in leased]

    def _begin(self, holding: Holding) -> Lease:
        awoken = self._desk.awoken(holding)
        if awoken is not None:
            self._do(awoken)
        return Lease(holding, self._desk, self._do, self.renew)

    def renew(self) -> None:
        """Keep all leases of this holder. Raises LeaseLost when it is too late."""
        if not self._do(Request(c.Beat(self.session_id, self._lifetime), bool)):
            raise LeaseLost(session=self.session_id, why="it was not renewed in time; what it held went to others")

    def close(self) -> None:
        """Give back what is still held, at once."""
        self._do(Request(c.EndSession(self.session_id, crashed=False), lambda answer: None))


class LeaseCalls(Calls):
    """What an ``Engine`` does with leases."""

    def leases(self, worker: str = "", **options: Any) -> Leases:
        """Hold leases, as a program that is no Python function: ``with engine.leases(...) as leases: leases.claim(10)``.
        Options: workflows, lanes, capabilities, ttl ("30s")."""
        return Leases(LeaseDesk(self._parts.client), self._do, worker=worker, **options)

    def lease(self, proof: str, *, ttl: Duration = "30s") -> Lease:
        """Take up a lease by its proof. Raises BadLease; what can no longer be done raises LeaseLost when it is tried."""
        desk = LeaseDesk(self._parts.client)
        holding = desk.again(proof)
        session_id = holding.proof.session_id

        def renew() -> None:
            if not self._do(Request(c.Beat(session_id, int((seconds_of(ttl) or 0) * 1_000_000)), bool)):
                raise LeaseLost(session=session_id, why="it was not renewed in time; what it held went to others")

        return Lease(holding, desk, self._do, renew)

    def revoke(self, run_id: str, reason: str = "revoked by an operator", *, session_id: str | None = None) -> bool:
        """Take a run from whoever holds it; False when nobody does. Its late writes are refused."""
        found: bool = self._do(LeaseDesk(self._parts.client).revoke(run_id, reason, session_id))
        return found

    def prioritise(self, run_id: str, priority: int) -> int:
        """Change the priority of a live run and return the old one."""
        old: int = self._do(LeaseDesk(self._parts.client).priority(run_id, priority))
        return old

    def override(self, run_id: str, reason: str, *, result: Any = None, failed: bool = False) -> Status:
        """End a live run as you say, whoever holds it: completed with *result*, or failed."""
        status: Status = self._do(LeaseDesk(self._parts.client).override(run_id, reason, result=result, failed=failed))
        return status


AsyncDo = Callable[[Request], Awaitable[Any]]


class AsyncLease:
    """The right to write one run, for asyncio programs."""

    def __init__(self, holding: Holding, desk: LeaseDesk, do: AsyncDo, renew: Callable[[], Awaitable[None]]) -> None:
        self._holding, self._desk, self._do, self._renew = holding, desk, do, renew

    proof, run, input, attempt = Lease.proof, Lease.run, Lease.input, Lease.attempt
    signals, timed_out, __repr__ = Lease.signals, Lease.timed_out, Lease.__repr__

    async def renew(self) -> None:
        """Keep the lease, and all others of this holder. Raises LeaseLost when it is too late."""
        await self._renew()

    async def complete(self, result: Any = None) -> Ended:
        """End the run with a result."""
        ended: Ended = await self._write(self._desk.complete(self._holding, result))
        return ended

    async def fail(self, kind: str, message: str, details: Mapping[str, Any] | None = None) -> Retried | Ended:
        """Say that this attempt failed: transient, timeout, infrastructure, permanent or cancelled."""
        answer: Retried | Ended = await self._write(self._desk.fail(self._holding, kind, message, details))
        return answer

    async def delay(self, until: Moment) -> Put:
        """Put the run off for a time, or until one; that is no failure."""
        answer: Put = await self._write(self._desk.delay(self._holding, until))
        return answer

    async def suspend(self, *signals: str, timeout: Duration | None = None) -> Put:
        """Let the run wait for one of these signals; whoever claims it then sees which came, or that none did in time."""
        while True:
            answer = await self._write(self._desk.suspend(self._holding, signals, timeout))
            if isinstance(answer, Put):
                return answer

    async def cancel(self, reason: str = "cancelled by its holder") -> Ended:
        """Stop the run."""
        answer = await self.fail("cancelled", reason)
        assert isinstance(answer, Ended)
        return answer

    async def _write(self, request: Request) -> Any:
        try:
            return await self._do(request)
        except LeaseLost as refused:
            return self._desk.explain(self._holding, request, refused)


class AsyncLeases:
    """A holder of leases in an asyncio program. ``async with`` opens and closes it."""

    def __init__(
        self, desk: LeaseDesk, do: AsyncDo, *, worker: str = "", workflows: Sequence[str] | None = None,
        lanes: Sequence[str] | None = None, capabilities: Sequence[str] = (), ttl: Duration = "30s",
    ) -> None:  # fmt: skip
        self._desk, self._do = desk, do
        self._workflows, self._lanes, self._capabilities = workflows, lanes, tuple(capabilities)
        self._session, self._lifetime = desk.session(worker, ttl, workflows, lanes)
        self.session_id = self._session.id
        self._claiming = asyncio.Lock()
        self._stock: deque[AsyncLease] = deque()
        self._hungry = 0

    async def __aenter__(self) -> AsyncLeases:
        await self._do(Request(c.OpenSession(self._session), lambda answer: None))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def claim(self, limit: int = 1, *, wait: Duration | None = None) -> list[AsyncLease]:
        """Lease up to *limit* runs, best first; with *wait* wait that long for the first. Several tasks may call it."""
        until, pause = time.monotonic() + (seconds_of(wait) or 0.0), FASTEST
        while True:
            found = await self._take(limit)
            left = until - time.monotonic()
            if found or left <= 0:
                return found
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 1.5, SLOWEST)

    async def _take(self, limit: int) -> list[AsyncLease]:
        self._hungry += limit
        try:
            async with self._claiming:
                if not self._stock:
                    self._stock.extend(await self._claim(max(self._hungry, limit)))
                return [self._stock.popleft() for _ in range(min(limit, len(self._stock)))]
        finally:
            self._hungry -= limit

    async def _claim(self, limit: int) -> list[AsyncLease]:
        for ended in self._desk.dead_sessions(self.session_id):
            await self._do(Request(ended, lambda answer: None))
        routes = self._desk.routes(self._workflows, self._lanes, self._capabilities)
        if not routes:
            return []
        leased = await self._do(Request(c.ClaimLeases(self.session_id, routes, limit), lambda answer: answer))
        return [await self._begin(self._desk.holding(self.session_id, one)) for one in leased]

    async def _begin(self, holding: Holding) -> AsyncLease:
        awoken = self._desk.awoken(holding)
        if awoken is not None:
            await self._do(awoken)
        return AsyncLease(holding, self._desk, self._do, self.renew)

    async def renew(self) -> None:
        """Keep all leases of this holder. Raises LeaseLost when it is too late."""
        if not await self._do(Request(c.Beat(self.session_id, self._lifetime), bool)):
            raise LeaseLost(session=self.session_id, why="it was not renewed in time; what it held went to others")

    async def close(self) -> None:
        """Give back what is still held, at once."""
        await self._do(Request(c.EndSession(self.session_id, crashed=False), lambda answer: None))


class AsyncLeaseCalls(AsyncCalls):
    """What an ``AsyncEngine`` does with leases."""

    def leases(self, worker: str = "", **options: Any) -> AsyncLeases:
        """Hold leases: ``async with engine.leases(...) as leases: await leases.claim(10)``."""
        return AsyncLeases(LeaseDesk(self._parts.client), self._do, worker=worker, **options)

    async def revoke(self, run_id: str, reason: str = "revoked by an operator", *, session_id: str | None = None) -> bool:
        """Take a run from whoever holds it; False when nobody does. Its late writes are refused."""
        found: bool = await self._do(LeaseDesk(self._parts.client).revoke(run_id, reason, session_id))
        return found

    async def prioritise(self, run_id: str, priority: int) -> int:
        """Change the priority of a live run and return the old one."""
        old: int = await self._do(LeaseDesk(self._parts.client).priority(run_id, priority))
        return old

    async def override(self, run_id: str, reason: str, *, result: Any = None, failed: bool = False) -> Status:
        """End a live run as you say, whoever holds it: completed with *result*, or failed."""
        status: Status = await self._do(LeaseDesk(self._parts.client).override(run_id, reason, result=result, failed=failed))
        return status
