"""``LeaseHolder``: the session of a program that leases runs and executes them itself. Its calls
block the calling thread; ``TaskWorker`` and ``AsyncTaskWorker`` are its faces."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from holdfast.connect.components import Components
from holdfast.connect.held_lease import HeldLease
from holdfast.connect.lease_renewal import LeaseRenewal
from holdfast.core.duration import Duration, as_datetime
from holdfast.core.sessions import Session
from holdfast.core.status import Status
from holdfast.core.validation import checked_capabilities, checked_flag, checked_words
from holdfast.errors import LeaseLost, StoreError
from holdfast.service.requests import Request
from holdfast.service.runs import storable_run_id
from holdfast.service.tasks.claims import ClaimedLeases
from holdfast.service.tasks.complete_many import Answer, CompleteMany, is_unrelated
from holdfast.service.tasks.lease_state import ChildrenLeft, LeaseState, LeaseTerm, RunEnded
from holdfast.service.tasks.service import TaskService
from holdfast.service.tasks.terms import LATE
from holdfast.service.tasks.writes import write_as_holder
from holdfast.store.runs.operations import EndSession, OpenSession


class LeaseHolder:
    """The offer, the session and the leases of a holder. Several threads may call it."""

    session_id: str = ""
    _term: LeaseTerm

    def __init__(
        self,
        *,
        worker: str,
        workflows: str | Sequence[str] | None,
        lanes: str | Sequence[str] | None,
        capabilities: str | Sequence[str],
        ttl: Duration,
        horizon: Duration | None,
        claims: bool,
        renew: bool,
    ) -> None:
        self._worker: str = worker
        self._ttl: Duration = ttl
        self._horizon: Duration | None = horizon
        self._claims: bool = claims
        self._renews: bool = checked_flag("renew", renew)
        self._renewal: LeaseRenewal | None = None
        self._workflows = checked_words("workflows", workflows)
        self._lanes = checked_words("lanes", lanes)
        self._capabilities = checked_capabilities(capabilities)
        self._closed = False
        self._is_remote = False
        self._claim_key: str | None = None
        self._parts: Components
        self._service: TaskService
        # No thread holds two of these locks at the same time, so they need no order.
        self._open_lock = threading.Lock()
        self._claim_lock = threading.Lock()
        self._demand_lock = threading.Lock()
        self._stock: deque[HeldLease] = deque()
        """Leases that were claimed for other threads, or for a cancelled caller."""
        self._demand = 0
        """The number of leases that all threads in ``take`` want."""
        self._unanswered: dict[str | None, Request[list[LeaseState]]] = {}
        """Claims that failed with a StoreError and may have committed all the same, by the id of
        the run that was requested, None for ``claim``. The store recognises only the identical
        request when it is sent again."""

    # The session

    def open(self, parts: Components) -> LeaseHolder:
        """Open the session if this is the first call, and return this holder. Raises BadOption."""
        with self._open_lock:
            if not self.session_id:
                self._parts = parts
                self._service = TaskService(
                    parts.client, self._horizon, crash_limit=parts.settings.crash_limit
                )
                parts.commit(self._open_request())
        return self

    def resume(self, parts: Components, session: Session, key: str | None = None) -> LeaseHolder:
        """Continue the session of a remote worker, which another process may have opened, and
        return this holder. The session is never replaced: when it has expired, calls raise
        LeaseLost. Leases are recorded under *key*, if that is given."""
        self._parts = parts
        self._service = TaskService(
            parts.client, self._horizon, crash_limit=parts.settings.crash_limit
        )
        self.session_id = session.id
        self._term = LeaseTerm(session.expires_at, session.id, session.worker)
        self._is_remote = True
        self._claim_key = key
        return self

    def _open_request(self) -> Request[None]:
        """Return the request that opens a new session for this holder, and switch to that
        session."""
        session = self._session(claims=self._claims)
        self.session_id = session.id
        self._term = LeaseTerm(session.expires_at, session.id, session.worker)
        if self._renewal is not None:
            self._renewal.stop()
        if self._renews:
            self._renewal = LeaseRenewal(
                self._parts, self._service, session.id, self._ttl, self._term
            )
        return Request(OpenSession(session), _ignore)

    def _session(self, *, claims: bool) -> Session:
        return self._service.claims.session(
            self._worker, self._ttl, self._workflows, self._lanes, self._capabilities, claims=claims
        )

    def _is_over(self) -> bool:
        """Return whether the session has expired: a new one is needed to lease runs. Raises
        LeaseLost if this holder was closed."""
        if self._closed:
            raise LeaseLost(session=self.session_id, why="the holder of this session was closed")
        return self._service.terms.is_over(self.session_id, self._term)

    def _reopen(self) -> None:
        """Open a new session if the current one has expired, and drop the leases of the old one."""
        if self._is_over():
            if self._is_remote:
                raise LeaseLost(session=self.session_id, why=LATE)
            self._stock.clear()
            self._unanswered.clear()
            self._parts.commit(self._open_request())

    def _was_removed(self) -> bool:
        """Return whether another process has ended the session, although it has not expired."""
        if self._service.terms.expiry(self.session_id):
            return False
        self._term.until = 0
        return True

    def renew(self) -> datetime:
        """Renew all leases of this holder, and return their expiry. Raises LeaseLost."""
        renewal = self._service.terms.renew(self.session_id, self._ttl, self._term)
        return as_datetime(self._parts.commit(renewal))

    def rest(self) -> None:
        """Make the session keep its leases and claim no more, unless it has expired. Raises
        LeaseLost."""
        if self._is_over():
            return
        session = self._session(claims=False)
        session.id = self.session_id
        session.expires_at = self._term.until
        self._parts.commit(Request(OpenSession(session), _ignore))

    def close(self) -> None:
        """Return all leases at once, end the session, and refuse further claims."""
        self._closed = True
        if self._renewal is not None:
            self._renewal.stop()
        self._parts.commit(Request(EndSession(self.session_id, crashed=False), _ignore))

    # Claims

    def take(self, limit: int) -> list[HeldLease]:
        """Return leases from the stock; if that is empty, claim first, for all threads that wait
        here. One claim for all of them saves a transaction each."""
        with self._demand_lock:
            self._demand += limit
        try:
            with self._claim_lock:
                self._reopen()
                if not self._stock:
                    self._stock.extend(self._claim(max(self._demand, limit)))
                return [self._stock.popleft() for _ in range(min(limit, len(self._stock)))]
        finally:
            with self._demand_lock:
                self._demand -= limit

    def give_back(self, leases: Sequence[HeldLease]) -> None:
        """Put the leases of a cancelled caller at the front of the stock, in their order."""
        self._stock.extendleft(reversed(leases))

    def _claim(self, limit: int) -> list[HeldLease]:
        """Claim runs. If there are none, run maintenance early and claim again: a run may be
        leased to a dead session."""
        checked = self._run_maintenance()
        leases = self._lease(limit)
        if not leases and self._was_removed():
            self._reopen()
            leases = self._lease(limit)
        if not leases and not checked and self._run_maintenance(now=True):
            leases = self._lease(limit)
        return leases

    def _run_maintenance(self, *, now: bool = False) -> bool:
        """Commit the maintenance that is due. Return whether the check was made; with *now*,
        whether it found anything to do."""
        ops = self._service.claims.maintenance(self.session_id, now=now)
        for op in ops or ():
            self._parts.commit(Request(op, _ignore))
        return bool(ops) if now else ops is not None

    def _lease(self, limit: int) -> list[HeldLease]:
        """Repeat the claim whose outcome is unknown, if there is one; then claim runs of the cached
        routes, which saves a query; then of the current routes, if they differ."""
        claims = self._service.claims
        offer = (self._workflows, self._lanes, self._capabilities)
        unanswered = self._unanswered.get(None)
        states = [] if unanswered is None else self._send_claim(unanswered)
        cached_routes = claims.routes(*offer, fresh=False)
        if not states and cached_routes:
            states = self._claim_routes(cached_routes, limit)
        if not states and (routes := claims.routes(*offer)) != cached_routes:
            states = self._claim_routes(routes, limit)
        return [self._held(state) for state in states]

    def _claim_routes(self, routes: Sequence[tuple[int, str]], limit: int) -> list[LeaseState]:
        """Claim runs of these routes. If a claim found only runs that it had to park, claim again:
        there may be others behind them."""
        while True:
            request = self._service.claims.claim(
                self.session_id, routes, limit, self._term, key=self._claim_key
            )
            states = self._send_claim(request)
            if states or not isinstance(states, ClaimedLeases) or not states.parked:
                return states

    def _held(self, state: LeaseState) -> HeldLease:
        return HeldLease(self._parts, self._service, state, self._ttl, self._renewal)

    def _send_claim(
        self, request: Request[list[LeaseState]], run_id: str | None = None
    ) -> list[LeaseState]:
        """Send a claim. Keep it in ``_unanswered`` while its outcome is unknown."""
        try:
            states = self._parts.commit(request)
        except StoreError:
            self._unanswered[run_id] = request
            raise
        except BaseException:
            self._unanswered.pop(run_id, None)
            raise
        self._unanswered.pop(run_id, None)
        return states

    def reclaim(self, run_id: str) -> tuple[list[HeldLease], RunEnded | None]:
        """Lease one given run. Return its lease in a list; if the run has ended instead, an empty
        list and its end. Raises NotReclaimable, RunNotFound, RunFinished."""
        run_id = storable_run_id(run_id)
        self._reopen()
        request = self._unanswered.get(run_id)  # its lease may exist: only it can be repeated
        if request is None:
            for op in self._service.claims.end_dead_holder(run_id):
                self._parts.commit(Request(op, _ignore))
            routes = self._service.claims.routes(self._workflows, self._lanes, self._capabilities)
            request = self._service.claims.reclaim(
                self.session_id, run_id, routes, self._capabilities, self._term
            )
        states = self._send_claim(request, run_id)
        if not states:
            return [], RunEnded(self._service.claims.status(run_id))
        return [self._held(states[0])], None

    def lease_of(self, state: LeaseState) -> HeldLease:
        """Return the lease of a state that was read again."""
        return self._held(state)

    def read_again(self, proof: str) -> LeaseState:
        """Return the state of a lease by its proof. Raises BadLease, LeaseLost."""
        return self._service.from_proof(proof)

    def release(self, leases: Sequence[HeldLease]) -> None:
        """Return leases that their holder never received: the runs can be claimed at once."""
        requests = [
            write_as_holder(held.state, [], None, status=Status.PENDING, release=True)
            for held in leases
            if held.state.run.status is not Status.CANCELLING
        ]
        self._parts.commit_all(requests)

    def complete_all(self, done: Iterable[tuple[HeldLease, Any]]) -> list[RunEnded | LeaseLost]:
        """Complete several leases, each with its result, in one commit. Return one answer per
        lease; for a refused completion it is the LeaseLost error with the reason."""
        pairs = list(done)
        together = CompleteMany(self._service, [(held.state, result) for held, result in pairs])
        answers = together.answers(self._parts.commit_all(together.requests))
        for (held, _), answer in zip(pairs, answers, strict=True):
            if isinstance(answer, RunEnded | LeaseLost):
                held.close()
        # An error that says nothing about its lease may come from another one: complete it alone.
        return [
            _final(held.complete_alone(result) if is_unrelated(answer) else answer)
            for (held, result), answer in zip(pairs, answers, strict=True)
        ]


def _final(answer: Answer) -> RunEnded | LeaseLost:
    """Return the outcome of a completion. Raises every error except LeaseLost."""
    if isinstance(answer, RunEnded | LeaseLost):
        return answer
    assert not isinstance(answer, ChildrenLeft), "a completion alone asks all children to stop"
    raise answer


def _ignore(answer: object) -> None:
    return None
