"""Explicit leases: ``engine.leases(...)``, for programs that are no Python functions."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from holdfast.connect.areas.calls import AsyncCalls, Calls
from holdfast.connect.areas.lease import AsyncDo, AsyncLease, Do, Lease
from holdfast.connect.parts import seconds_of
from holdfast.core.duration import Duration
from holdfast.core.options import checked_capabilities, checked_count, checked_words
from holdfast.core.records import Session
from holdfast.core.status import Status
from holdfast.engine.client import Request
from holdfast.engine.completing import Answer, Completions, is_trouble
from holdfast.engine.holding import Ended, Term
from holdfast.engine.leases import LeaseDesk
from holdfast.engine.work import Work
from holdfast.errors import BadOption, LeaseLost
from holdfast.store import contract as c

L = TypeVar("L", Lease, AsyncLease)
DoAll = Callable[[list[Request]], list[Any]]


def _ignore(answer: object) -> None:
    return None


def _alone(lease: Lease, result: Any) -> Answer:
    try:
        return lease.complete(result)
    except LeaseLost as lost:
        return lost


def _pairs(done: Iterable[tuple[L, Any]], kind: type[L]) -> list[tuple[L, Any]]:
    """Return leases, each with its result. Raises BadOption."""
    pairs = list(done) if isinstance(done, Iterable) else [done]
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], kind):
            raise BadOption(option="done", value=pair, why="give pairs: a lease, and its result")
    return [(lease, result) for lease, result in pairs]


def _final(answer: Answer) -> Ended | LeaseLost:
    if isinstance(answer, Ended | LeaseLost):
        return answer
    raise answer


class _Holder:
    """What holders of leases offer, and their session."""

    session_id: str
    _term: Term

    def __init__(
        self, desk: LeaseDesk, *, worker: str = "", workflows: str | Sequence[str] | None = None,
        lanes: str | Sequence[str] | None = None, capabilities: str | Sequence[str] = (), ttl: Duration = "30s",
        claims: bool = True,
    ) -> None:  # fmt: skip
        self._desk, self._worker, self._ttl, self._claims = desk, worker, ttl, claims
        self._workflows, self._lanes = checked_words("workflows", workflows), checked_words("lanes", lanes)
        self._capabilities = checked_capabilities(capabilities)
        self._closed = False

    def _beginning(self) -> Request:
        """Return what opens a session for this holder."""
        session = self._session(claims=self._claims)
        self.session_id, self._term = session.id, Term(session.expires_at)
        return Request(c.OpenSession(session), _ignore)

    def _session(self, *, claims: bool) -> Session:
        return self._desk.session(self._worker, self._ttl, self._workflows, self._lanes, self._capabilities, claims=claims)

    def _resting(self) -> Request | None:
        """Return what says that this holder claims nothing more, and only holds what it has; None if it has run out."""
        if self._is_over():
            return None
        session = self._session(claims=False)
        session.id, session.expires_at = self.session_id, self._term.until
        return Request(c.OpenSession(session), _ignore)

    def _is_over(self) -> bool:
        """Say whether the session has run out, so that another one is needed to lease anything. Raises LeaseLost."""
        if self._closed:
            raise LeaseLost(session=self.session_id, why="this holder was closed")
        return self._desk.is_over(self.session_id, self._term)

    def _ending(self) -> Request:
        self._closed = True
        return Request(c.EndSession(self.session_id, crashed=False), _ignore)


class Leases(_Holder):
    """A holder of leases. All of them live while it is renewed; when it is closed, or dies, they go back."""

    def __init__(self, desk: LeaseDesk, do: Do, do_all: DoAll, work: Work, **offer: Any) -> None:
        super().__init__(desk, **offer)
        self._do, self._do_all, self._work = do, do_all, work
        self._claiming, self._guard = threading.Lock(), threading.Lock()
        self._stock: deque[Lease] = deque()
        self._hungry = 0
        do(self._beginning())

    def __enter__(self) -> Leases:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def claim(self, limit: int = 1, *, wait: Duration | None = None) -> list[Lease]:
        """Lease up to *limit* runs, best first; with *wait* wait that long for the first. Several threads may call it. A holder
        that was not renewed in time has lost what it held, and begins anew."""
        patience, limit = seconds_of(wait) or 0.0, checked_count("limit", limit)
        found = self._take(limit)
        if found or patience <= 0:
            return found
        until, told = time.monotonic() + patience, threading.Event()
        self._work.enter(told.set)
        try:
            while True:
                told.clear()  # before looking, not after
                found = self._take(limit)
                left = until - time.monotonic()
                if found or left <= 0:
                    return found
                self._work.wait(told, left)
        finally:
            self._work.leave(told.set)

    def _open(self) -> None:
        """Open another session when this one has run out."""
        if self._is_over():
            self._stock.clear()
            self._do(self._beginning())

    def _take(self, limit: int) -> list[Lease]:
        """Take what is in stock, or claim for all who are waiting for this moment."""
        with self._guard:
            self._hungry += limit
        try:
            with self._claiming:
                self._open()
                if not self._stock:
                    self._stock.extend(self._claim(max(self._hungry, limit)))
                return [self._stock.popleft() for _ in range(min(limit, len(self._stock)))]
        finally:
            with self._guard:
                self._hungry -= limit

    def _claim(self, limit: int) -> list[Lease]:
        looked = self._look_after_others()
        found = self._lease(limit)
        if not found and not looked and self._look_after_others(now=True):
            found = self._lease(limit)
        return found

    def _look_after_others(self, *, now: bool = False) -> bool:
        ops = self._desk.duties(self.session_id, now=now)
        for op in ops or ():
            self._do(Request(op, _ignore))
        return bool(ops) if now else ops is not None

    def _lease(self, limit: int) -> list[Lease]:
        offer = (self._workflows, self._lanes, self._capabilities)
        routes = self._desk.routes(*offer, fresh=False)
        found = self._do(self._desk.claim(self.session_id, routes, limit, self._term)) if routes else []
        if not found and (now := self._desk.routes(*offer)) != routes:
            found = self._do(self._desk.claim(self.session_id, now, limit, self._term))
        return [Lease(held, self._desk, self._do, self._ttl) for held in found]

    def reclaim(self, run_id: str) -> Lease | Ended:
        """Lease this very run, whose holder is gone or has given it back, whatever else could be leased. It counts as lost; past
        the policy's ``reclaims`` the run has failed, and that is the answer. Raises NotReclaimable, RunNotFound, RunFinished."""
        self._open()
        for op in self._desk.gone_holder(run_id):
            self._do(Request(op, _ignore))
        routes = self._desk.routes(self._workflows, self._lanes, self._capabilities)
        found = self._do(self._desk.reclaim(self.session_id, run_id, routes, self._capabilities, self._term))
        return Lease(found[0], self._desk, self._do, self._ttl) if found else Ended(self._desk.status(run_id))

    def complete_all(self, done: Iterable[tuple[Lease, Any]]) -> list[Ended | LeaseLost]:
        """Complete several leases, each with its result, in one commit. Of those that were refused the answer says why."""
        pairs = _pairs(done, Lease)
        together = Completions(self._desk, [(lease._holding, result) for lease, result in pairs])
        answers = together.answers(self._do_all(together.requests))
        return [_final(_alone(*pair) if is_trouble(answer) else answer) for pair, answer in zip(pairs, answers, strict=True)]

    def renew(self) -> int:
        """Keep all leases of this holder; return until when, in microseconds since 1970. Raises LeaseLost when it is too late."""
        until: int = self._do(self._desk.renew(self.session_id, self._ttl, self._term))
        return until

    def rest(self) -> None:
        """Claim nothing more, and only hold what is held: `holdfast why` counts on this holder no longer."""
        resting = self._resting()
        if resting is not None:
            self._do(resting)

    def close(self) -> None:
        """Give back what is still held, at once."""
        self._do(self._ending())


class LeaseCalls(Calls):
    """What an ``Engine`` does with leases."""

    def leases(self, worker: str = "", *, horizon: Duration | None = None, **options: Any) -> Leases:
        """Hold leases, as a program that is no Python function: ``with engine.leases(...) as leases: leases.claim(10)``.
        Options: workflows, lanes, capabilities, ttl ("30s"); *horizon* ("366d") is how far away the end of a wait may lie."""
        desk = LeaseDesk(self._parts.client, horizon)
        return Leases(desk, self._do, self._do_all, self._parts.work, worker=worker, **options)

    def _do_all(self, requests: list[Request]) -> list[Any]:
        """Commit together what is asked, and return the answers, refusals among them."""
        parts = self._parts
        answers = parts.writer.call_all([parts.vault.seal(request.op) for request in requests])
        return [
            answer if isinstance(answer, BaseException) else request.understand(answer)
            for request, answer in zip(requests, answers, strict=True)
        ]

    def lease(self, proof: str, *, ttl: Duration = "30s", horizon: Duration | None = None) -> Lease:
        """Take up a lease by its proof. Raises BadLease; what can no longer be done raises LeaseLost when it is tried."""
        desk = LeaseDesk(self._parts.client, horizon)
        return Lease(desk.again(proof), desk, self._do, ttl)

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


class AsyncLeases(_Holder):
    """A holder of leases in an asyncio program. ``async with`` opens and closes it."""

    def __init__(self, desk: LeaseDesk, do: AsyncDo, work: Work, **offer: Any) -> None:
        super().__init__(desk, **offer)
        self._do, self._work = do, work
        self._opening: Request | None = self._beginning()
        self._claiming = asyncio.Lock()
        self._stock: deque[AsyncLease] = deque()
        self._hungry = 0

    async def __aenter__(self) -> AsyncLeases:
        await self._open()
        return self

    async def _open(self) -> None:
        """Open the session, or, when it has run out, another one."""
        if self._is_over():
            self._stock.clear()
            self._opening = self._beginning()
        opening, self._opening = self._opening, None
        if opening is not None:
            await self._do(opening)

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def claim(self, limit: int = 1, *, wait: Duration | None = None) -> list[AsyncLease]:
        """Lease up to *limit* runs, best first; with *wait* wait that long for the first. Several tasks may call it."""
        patience, limit = seconds_of(wait) or 0.0, checked_count("limit", limit)
        found = await self._take(limit)
        if found or patience <= 0:
            return found
        until, told, loop = time.monotonic() + patience, asyncio.Event(), asyncio.get_running_loop()

        def tell() -> None:
            loop.call_soon_threadsafe(told.set)

        self._work.enter(tell)
        try:
            while True:
                told.clear()
                found = await self._take(limit)
                left = until - time.monotonic()
                if found or left <= 0:
                    return found
                await self._work.wait_async(told, left)
        finally:
            self._work.leave(tell)

    async def _take(self, limit: int) -> list[AsyncLease]:
        return await self._whole(self._taken(limit))

    async def _whole(self, leasing: Coroutine[Any, Any, list[AsyncLease]]) -> list[AsyncLease]:
        """Lease, also when whoever asked is cancelled meanwhile: what was leased for them is there for the next who claims."""
        task = asyncio.ensure_future(leasing)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(self._put_back)
            raise

    def _put_back(self, task: asyncio.Task[list[AsyncLease]]) -> None:
        if not task.cancelled() and task.exception() is None:
            self._stock.extendleft(reversed(task.result()))

    async def _taken(self, limit: int) -> list[AsyncLease]:
        self._hungry += limit
        try:
            async with self._claiming:
                await self._open()
                if not self._stock:
                    self._stock.extend(await self._claim(max(self._hungry, limit)))
                return [self._stock.popleft() for _ in range(min(limit, len(self._stock)))]
        finally:
            self._hungry -= limit

    async def _claim(self, limit: int) -> list[AsyncLease]:
        looked = await self._look_after_others()
        found = await self._lease(limit)
        if not found and not looked and await self._look_after_others(now=True):
            found = await self._lease(limit)
        return found

    async def _look_after_others(self, *, now: bool = False) -> bool:
        ops = self._desk.duties(self.session_id, now=now)
        for op in ops or ():
            await self._do(Request(op, _ignore))
        return bool(ops) if now else ops is not None

    async def _lease(self, limit: int) -> list[AsyncLease]:
        offer = (self._workflows, self._lanes, self._capabilities)
        routes = self._desk.routes(*offer, fresh=False)
        found = await self._do(self._desk.claim(self.session_id, routes, limit, self._term)) if routes else []
        if not found and (now := self._desk.routes(*offer)) != routes:
            found = await self._do(self._desk.claim(self.session_id, now, limit, self._term))
        return [AsyncLease(held, self._desk, self._do, self._ttl) for held in found]

    async def reclaim(self, run_id: str) -> AsyncLease | Ended:
        """Lease this very run, whose holder is gone or has given it back. Raises NotReclaimable, RunNotFound, RunFinished."""
        found = await self._whole(self._reclaimed(run_id))
        return found[0] if found else Ended(self._desk.status(run_id))

    async def _reclaimed(self, run_id: str) -> list[AsyncLease]:
        await self._open()
        for op in self._desk.gone_holder(run_id):
            await self._do(Request(op, _ignore))
        routes = self._desk.routes(self._workflows, self._lanes, self._capabilities)
        found = await self._do(self._desk.reclaim(self.session_id, run_id, routes, self._capabilities, self._term))
        return [AsyncLease(held, self._desk, self._do, self._ttl) for held in found]

    async def complete_all(self, done: Iterable[tuple[AsyncLease, Any]]) -> list[Ended | LeaseLost]:
        """Complete several leases, each with its result, in one commit. Of those that were refused the answer says why."""
        pairs = _pairs(done, AsyncLease)
        together = Completions(self._desk, [(lease._holding, result) for lease, result in pairs])
        asked = await asyncio.gather(*map(self._do, together.requests), return_exceptions=True)
        answers = together.answers(asked)
        for place, ((lease, result), answer) in enumerate(zip(pairs, answers, strict=True)):
            if is_trouble(answer):
                (answers[place],) = await asyncio.gather(lease.complete(result), return_exceptions=True)
        return [_final(answer) for answer in answers]

    async def renew(self) -> int:
        """Keep all leases of this holder; return until when. Raises LeaseLost when it is too late."""
        until: int = await self._do(self._desk.renew(self.session_id, self._ttl, self._term))
        return until

    async def rest(self) -> None:
        """Claim nothing more, and only hold what is held."""
        resting = self._resting()
        if resting is not None:
            await self._do(resting)

    async def close(self) -> None:
        """Give back what is still held, at once."""
        await self._do(self._ending())


class AsyncLeaseCalls(AsyncCalls):
    """What an ``AsyncEngine`` does with leases."""

    def leases(self, worker: str = "", *, horizon: Duration | None = None, **options: Any) -> AsyncLeases:
        """Hold leases: ``async with engine.leases(...) as leases: await leases.claim(10)``."""
        return AsyncLeases(LeaseDesk(self._parts.client, horizon), self._do, self._parts.work, worker=worker, **options)

    def lease(self, proof: str, *, ttl: Duration = "30s", horizon: Duration | None = None) -> AsyncLease:
        """Take up a lease by its proof. Raises BadLease; what can no longer be done raises LeaseLost when it is tried."""
        desk = LeaseDesk(self._parts.client, horizon)
        return AsyncLease(desk.again(proof), desk, self._do, ttl)

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
