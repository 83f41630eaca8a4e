"""Explicit leases, ``engine.leases(...)``: claim runs in a program that executes them itself."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from holdfast.connect.calls import AsyncCalls, Calls
from holdfast.connect.components import seconds_of
from holdfast.connect.lease import AsyncLease, Do, Lease
from holdfast.core.duration import Duration
from holdfast.core.sessions import Session
from holdfast.core.status import Status
from holdfast.core.validation import checked_capabilities, checked_count, checked_words
from holdfast.engine.runtime.notifier import CommitNotifier, WorkReady
from holdfast.errors import BadOption, LeaseLost, StoreError
from holdfast.service.runs import Request, run_named
from holdfast.service.tasks.complete_many import Answer, CompleteMany, is_unrelated
from holdfast.service.tasks.lease_state import LeaseState, LeaseTerm, RunEnded
from holdfast.service.tasks.service import TaskService
from holdfast.store.runs.operations import EndSession, OpenSession

L = TypeVar("L", Lease, AsyncLease)
P = ParamSpec("P")
T = TypeVar("T")
DoAll = Callable[[list[Request]], list[Any]]


def _ignore(answer: object) -> None:
    return None


def _complete_alone(lease: Lease, result: Any) -> Answer:
    """Complete one lease. Return LeaseLost instead of raising it."""
    try:
        return lease.complete(result)
    except LeaseLost as lost:
        return lost


def _pairs(done: Iterable[tuple[L, Any]], kind: type[L]) -> list[tuple[L, Any]]:
    """Return *done* as a list of pairs of a lease and its result. Raises BadOption."""
    pairs = list(done) if isinstance(done, Iterable) else [done]
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], kind):
            raise BadOption(option="done", value=pair, why="pass pairs of a lease and its result")
    return [(lease, result) for lease, result in pairs]


def _final(answer: Answer) -> RunEnded | LeaseLost:
    """Return the outcome of a completion. Raises every error except LeaseLost."""
    if isinstance(answer, RunEnded | LeaseLost):
        return answer
    raise answer


class _LeaseHolder:
    """The offer and the session of a holder of leases."""

    session_id: str
    _term: LeaseTerm

    def __init__(
        self,
        service: TaskService,
        *,
        worker: str = "",
        workflows: str | Sequence[str] | None = None,
        lanes: str | Sequence[str] | None = None,
        capabilities: str | Sequence[str] = (),
        ttl: Duration = "30s",
        claims: bool = True,
    ) -> None:
        self._service = service
        self._worker = worker
        self._ttl = ttl
        self._claims = claims
        self._workflows = checked_words("workflows", workflows)
        self._lanes = checked_words("lanes", lanes)
        self._capabilities = checked_capabilities(capabilities)
        self._closed = False

    def _open_request(self) -> Request:
        """Return the request that opens a new session for this holder, and switch to that
        session."""
        session = self._session(claims=self._claims)
        self.session_id = session.id
        self._term = LeaseTerm(session.expires_at)
        return Request(OpenSession(session), _ignore)

    def _session(self, *, claims: bool) -> Session:
        return self._service.session(
            self._worker, self._ttl, self._workflows, self._lanes, self._capabilities, claims=claims
        )

    def _rest_request(self) -> Request | None:
        """Return the request that makes the session keep its leases and claim no more; None if it
        has expired. Raises LeaseLost."""
        if self._is_over():
            return None
        session = self._session(claims=False)
        session.id = self.session_id
        session.expires_at = self._term.until
        return Request(OpenSession(session), _ignore)

    def _is_over(self) -> bool:
        """Return whether the session has expired: a new one is needed to lease runs. Raises
        LeaseLost if this holder was closed."""
        if self._closed:
            raise LeaseLost(session=self.session_id, why="the holder of this session was closed")
        return self._service.is_over(self.session_id, self._term)

    def _end_request(self) -> Request:
        """Return the request that ends the session, and refuse further claims of this holder."""
        self._closed = True
        return Request(EndSession(self.session_id, crashed=False), _ignore)


class TaskWorker(_LeaseHolder):
    """A holder of leases. All its leases are valid while it is renewed; when it is closed or dies,
    other workers may claim its runs."""

    def __init__(
        self, service: TaskService, do: Do, do_all: DoAll, notifier: CommitNotifier, **offer: Any
    ) -> None:
        super().__init__(service, **offer)
        self._do: Do = do
        self._do_all: DoAll = do_all
        self._notifier: CommitNotifier = notifier
        # No thread holds both locks at the same time, so they need no order.
        self._claim_lock = threading.Lock()
        self._demand_lock = threading.Lock()
        self._stock: deque[Lease] = deque()
        """Leases that were claimed for other threads, or for a cancelled caller."""
        self._demand = 0
        """The number of leases that all threads in ``_take`` want."""
        self._unanswered: dict[str | None, Request] = {}
        """Claims that failed with a StoreError and may have committed all the same, by the id of
        the run that was requested, None for ``claim``. The store recognises only the identical
        request when it is sent again."""
        do(self._open_request())

    def __enter__(self) -> TaskWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def claim(self, limit: int = 1, *, wait: Duration | None = None) -> list[Lease]:
        """Lease up to *limit* runs, in claim order; with *wait*, wait so long for the first.
        Several threads may call this. A holder that was not renewed in time has lost its leases,
        and gets a new session here. Raises LeaseLost if the holder was closed."""
        seconds = seconds_of(wait) or 0.0
        limit = checked_count("limit", limit)
        leases = self._take(limit)
        if leases or seconds <= 0:
            return leases
        until = time.monotonic() + seconds
        listener = self._notifier.subscribe(WorkReady)
        try:
            while True:
                leases = self._take(limit)
                left = until - time.monotonic()
                if leases or left <= 0:
                    return leases
                listener.wait(left)
        finally:
            listener.close()

    def _open(self) -> None:
        """Open a new session if the current one has expired, and drop the leases of the old one."""
        if self._is_over():
            self._stock.clear()
            self._unanswered.clear()
            self._do(self._open_request())

    def _take(self, limit: int) -> list[Lease]:
        """Return leases from the stock; if that is empty, claim first, for all threads that wait
        here. One claim for all of them saves a transaction each."""
        with self._demand_lock:
            self._demand += limit
        try:
            with self._claim_lock:
                self._open()
                if not self._stock:
                    self._stock.extend(self._claim(max(self._demand, limit)))
                return [self._stock.popleft() for _ in range(min(limit, len(self._stock)))]
        finally:
            with self._demand_lock:
                self._demand -= limit

    def _claim(self, limit: int) -> list[Lease]:
        """Claim runs. If there are none, run maintenance early and claim again: a run may be
        leased to a dead session."""
        checked = self._run_maintenance()
        leases = self._lease(limit)
        if not leases and not checked and self._run_maintenance(now=True):
            leases = self._lease(limit)
        return leases

    def _run_maintenance(self, *, now: bool = False) -> bool:
        """Commit the maintenance that is due. Return whether the check was made; with *now*,
        whether it found anything to do."""
        ops = self._service.maintenance(self.session_id, now=now)
        for op in ops or ():
            self._do(Request(op, _ignore))
        return bool(ops) if now else ops is not None

    def _lease(self, limit: int) -> list[Lease]:
        """Repeat the claim whose outcome is unknown, if there is one; then claim runs of the cached
        routes, which saves a query; then of the current routes, if they differ."""
        service = self._service
        offer = (self._workflows, self._lanes, self._capabilities)
        unanswered = self._unanswered.get(None)
        states = [] if unanswered is None else self._send_claim(unanswered)
        cached_routes = service.routes(*offer, fresh=False)
        if not states and cached_routes:
            claim = service.claim(self.session_id, cached_routes, limit, self._term)
            states = self._send_claim(claim)
        if not states and (routes := service.routes(*offer)) != cached_routes:
            states = self._send_claim(service.claim(self.session_id, routes, limit, self._term))
        return [Lease(state, service, self._do, self._ttl) for state in states]

    def _send_claim(self, request: Request, run_id: str | None = None) -> list[LeaseState]:
        """Send a claim. Keep it in ``_unanswered`` while its outcome is unknown."""
        try:
            states: list[LeaseState] = self._do(request)
        except StoreError:
            self._unanswered[run_id] = request
            raise
        except BaseException:
            self._unanswered.pop(run_id, None)
            raise
        self._unanswered.pop(run_id, None)
        return states

    def reclaim(self, run_id: str) -> Lease | RunEnded:
        """Lease one given run whose holder is dead or has returned it, regardless of priorities.

        The former lease counts as lost. If more leases were lost than the policy's ``reclaims``
        allows, the run fails, and its RunEnded is returned. Raises NotReclaimable, RunNotFound,
        RunFinished.
        """
        run_id = run_named(run_id)
        self._open()
        request = self._unanswered.get(run_id)  # its lease may exist: only it can be repeated
        if request is None:
            for op in self._service.gone_holder(run_id):
                self._do(Request(op, _ignore))
            routes = self._service.routes(self._workflows, self._lanes, self._capabilities)
            request = self._service.reclaim(
                self.session_id, run_id, routes, self._capabilities, self._term
            )
        states = self._send_claim(request, run_id)
        if not states:
            return RunEnded(self._service.status(run_id))
        return Lease(states[0], self._service, self._do, self._ttl)

    def complete_all(self, done: Iterable[tuple[Lease, Any]]) -> list[RunEnded | LeaseLost]:
        """Complete several leases, each with its result, in one commit. Return one answer per
        lease; for a refused completion it is the LeaseLost error with the reason. Raises
        BadOption."""
        pairs = _pairs(done, Lease)
        together = CompleteMany(self._service, [(lease._state, result) for lease, result in pairs])
        answers = together.answers(self._do_all(together.requests))
        # An error that says nothing about its lease may come from another one: complete it alone.
        return [
            _final(_complete_alone(*pair) if is_unrelated(answer) else answer)
            for pair, answer in zip(pairs, answers, strict=True)
        ]

    def renew(self) -> int:
        """Renew all leases of this holder, and return their expiry in microseconds since 1970.
        Raises LeaseLost if they have expired."""
        until: int = self._do(self._service.renew(self.session_id, self._ttl, self._term))
        return until

    def rest(self) -> None:
        """Keep the current leases and announce that this holder claims no more: `holdfast why` no
        longer counts it among the workers that serve a run."""
        resting = self._rest_request()
        if resting is not None:
            self._do(resting)

    def close(self) -> None:
        """Return all leases at once and end the session."""
        self._do(self._end_request())


class LeaseCalls(Calls):
    """The calls of ``Engine`` on leases."""

    def leases(
        self, worker: str = "", *, horizon: Duration | None = None, **options: Any
    ) -> TaskWorker:
        """Open a holder of leases, for a program that executes runs itself: ``with
        engine.leases(...) as leases: leases.claim(10)``.

        Options: workflows, lanes, capabilities, ttl ("30s"). *horizon* ("366d") is the longest time
        that a wait may last. Raises BadOption.
        """
        service = TaskService(
            self._parts.client, horizon, crash_limit=self._parts.settings.crash_limit
        )
        return TaskWorker(
            service, self._do, self._do_all, self._parts.notifier, worker=worker, **options
        )

    def _do_all(self, requests: list[Request]) -> list[Any]:
        """Commit several requests together, and return their answers; the answer of a refused
        request is its error."""
        parts = self._parts
        answers = parts.writer.call_all([parts.sealer.seal(request.op) for request in requests])
        return [
            answer if isinstance(answer, BaseException) else request.decode(answer)
            for request, answer in zip(requests, answers, strict=True)
        ]

    def lease(self, proof: str, *, ttl: Duration = "30s", horizon: Duration | None = None) -> Lease:
        """Continue a lease by its proof. Raises BadLease. If the lease is no longer valid, its
        calls raise LeaseLost."""
        service = TaskService(self._parts.client, horizon)
        return Lease(service.from_proof(proof), service, self._do, ttl)

    def revoke(
        self, run_id: str, reason: str = "revoked by an operator", *, session_id: str | None = None
    ) -> bool:
        """Revoke the lease of a run, whose holder can then no longer write it. Return False if the
        run has no holder. With *session_id*, revoke only the lease of that session."""
        revoked: bool = self._do(TaskService(self._parts.client).revoke(run_id, reason, session_id))
        return revoked

    def prioritise(self, run_id: str, priority: int) -> int:
        """Change the priority of an unfinished run and return the old priority. Raises
        BadOption."""
        old: int = self._do(TaskService(self._parts.client).priority(run_id, priority))
        return old

    def override(
        self, run_id: str, reason: str, *, result: Any = None, failed: bool = False
    ) -> Status:
        """End an unfinished run by an operator's decision, even if it has a holder: completed with
        *result*, or failed. Return its status. Raises BadOption."""
        status: Status = self._do(
            TaskService(self._parts.client).override(run_id, reason, result=result, failed=failed)
        )
        return status


class AsyncTaskWorker:
    """A holder of leases in an asyncio program. ``async with`` opens and closes it. Each call is a
    call of ``TaskWorker``, made in a thread; only waiting for claimable runs happens on the
    loop."""

    def __init__(
        self, calls: AsyncCalls, worker: str, horizon: Duration | None, **offer: Any
    ) -> None:
        # Check the offer now: the session is opened, in a thread, only at the first call.
        _LeaseHolder(cast(TaskService, None), worker=worker, **offer)
        self._calls = calls
        self._offer: dict[str, Any] = {"worker": worker, "horizon": horizon, **offer}
        self._holder_lock = threading.Lock()
        self._holder: TaskWorker | None = None

    @property
    def session_id(self) -> str:
        """The id of the session; empty until it is open."""
        return "" if self._holder is None else self._holder.session_id

    async def __aenter__(self) -> AsyncTaskWorker:
        await self._call(TaskWorker._open)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _call(
        self, method: Callable[Concatenate[TaskWorker, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        engine = await self._calls._opened()
        return await self._calls._aside(
            self._call_holder, engine, lambda holder: method(holder, *args, **kwargs)
        )

    def _call_holder(self, engine: Any, call: Callable[[TaskWorker], T]) -> T:
        """Open the session at the first call, then make the call, in the calling thread."""
        with self._holder_lock:
            if self._holder is None:
                self._holder = engine.leases(**self._offer)
        return call(self._holder)

    async def claim(self, limit: int = 1, *, wait: Duration | None = None) -> list[AsyncLease]:
        """Lease up to *limit* runs, in claim order; with *wait*, wait so long for the first.
        Several tasks may call this. Raises LeaseLost if the holder was closed."""
        seconds = seconds_of(wait) or 0.0
        limit = checked_count("limit", limit)
        leases = await self._take(limit)
        if leases or seconds <= 0:
            return leases
        until = time.monotonic() + seconds
        notifier = (await self._calls._opened())._parts.notifier
        listener = notifier.subscribe_async(WorkReady, self._calls._aside)
        try:
            while True:
                leases = await self._take(limit)
                left = until - time.monotonic()
                if leases or left <= 0:
                    return leases
                await listener.wait(left)
        finally:
            listener.close()

    async def _take(self, limit: int) -> list[AsyncLease]:
        return await self._uncancelled(self._call(_take_async, limit, self._calls))

    async def _uncancelled(
        self, leasing: Coroutine[Any, Any, list[AsyncLease]]
    ) -> list[AsyncLease]:
        """Await *leasing* to its end even if the caller is cancelled: then its leases go to the
        stock, for the next caller that claims."""
        task = asyncio.ensure_future(leasing)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(self._put_back)
            raise

    def _put_back(self, task: asyncio.Task[list[AsyncLease]]) -> None:
        """Put the leases of a cancelled caller at the front of the stock, in their order."""
        if self._holder is not None and not task.cancelled() and task.exception() is None:
            self._holder._stock.extendleft(lease._lease for lease in reversed(task.result()))

    async def reclaim(self, run_id: str) -> AsyncLease | RunEnded:
        """Lease one given run whose holder is dead or has returned it, as ``TaskWorker.reclaim``
        does. Raises NotReclaimable, RunNotFound, RunFinished."""
        ended: list[RunEnded] = []
        leases = await self._uncancelled(self._call(_reclaim_async, run_id, self._calls, ended))
        return leases[0] if leases else ended[0]

    async def complete_all(
        self, done: Iterable[tuple[AsyncLease, Any]]
    ) -> list[RunEnded | LeaseLost]:
        """Complete several leases, each with its result, in one commit. Return one answer per
        lease; for a refused completion it is the LeaseLost error with the reason. Raises
        BadOption."""
        pairs = [(lease._lease, result) for lease, result in _pairs(done, AsyncLease)]
        return await self._call(TaskWorker.complete_all, pairs)

    async def renew(self) -> int:
        """Renew all leases of this holder, and return their expiry in microseconds since 1970.
        Raises LeaseLost if they have expired."""
        return await self._call(TaskWorker.renew)

    async def rest(self) -> None:
        """Keep the current leases and announce that this holder claims no more."""
        await self._call(TaskWorker.rest)

    async def close(self) -> None:
        """Return all leases at once and end the session."""
        await self._call(TaskWorker.close)


def _take_async(holder: TaskWorker, limit: int, calls: AsyncCalls) -> list[AsyncLease]:
    return [AsyncLease(lease, calls) for lease in holder._take(limit)]


def _reclaim_async(
    holder: TaskWorker, run_id: str, calls: AsyncCalls, ended: list[RunEnded]
) -> list[AsyncLease]:
    """Reclaim a run in a thread. Return its lease in a list; if the run has ended instead, an empty
    list, and append the outcome to *ended*."""
    answer = holder.reclaim(run_id)
    if isinstance(answer, RunEnded):
        ended.append(answer)
        return []
    return [AsyncLease(answer, calls)]


def _continue_lease(
    engine: Any, proof: str, ttl: Duration, horizon: Duration | None, calls: AsyncCalls
) -> AsyncLease:
    return AsyncLease(engine.lease(proof, ttl=ttl, horizon=horizon), calls)


class AsyncLeaseCalls(AsyncCalls):
    """The calls of ``AsyncEngine`` on leases."""

    def leases(
        self, worker: str = "", *, horizon: Duration | None = None, **options: Any
    ) -> AsyncTaskWorker:
        """Open a holder of leases: ``async with engine.leases(...) as leases: await
        leases.claim(10)``. The options are those of ``Engine.leases``. Raises BadOption."""
        return AsyncTaskWorker(self, worker, horizon, **options)

    async def lease(
        self, proof: str, *, ttl: Duration = "30s", horizon: Duration | None = None
    ) -> AsyncLease:
        """Continue a lease by its proof. Raises BadLease. If the lease is no longer valid, its
        calls raise LeaseLost."""
        return await self._call(_continue_lease, proof, ttl, horizon, self)

    async def revoke(
        self, run_id: str, reason: str = "revoked by an operator", *, session_id: str | None = None
    ) -> bool:
        """Revoke the lease of a run, whose holder can then no longer write it. Return False if the
        run has no holder. With *session_id*, revoke only the lease of that session."""
        return await self._call(LeaseCalls.revoke, run_id, reason, session_id=session_id)

    async def prioritise(self, run_id: str, priority: int) -> int:
        """Change the priority of an unfinished run and return the old priority. Raises
        BadOption."""
        return await self._call(LeaseCalls.prioritise, run_id, priority)

    async def override(
        self, run_id: str, reason: str, *, result: Any = None, failed: bool = False
    ) -> Status:
        """End an unfinished run by an operator's decision, even if it has a holder: completed with
        *result*, or failed. Return its status. Raises BadOption."""
        return await self._call(LeaseCalls.override, run_id, reason, result=result, failed=failed)
