"""Renew the leases of a session while they are held, and notice when they are lost.

A holder whose work takes longer than the lifetime of its leases must renew them. This happens in
the background, every third of that lifetime: in a daemon thread, which ends with its process, or,
with a clock that is moved by hand, whenever that clock moves.
"""

from __future__ import annotations

import logging
import threading
from typing import Protocol

from holdfast.connect.components import Components
from holdfast.core.duration import Duration
from holdfast.core.runs import RunRecord
from holdfast.errors import EngineClosed, HoldfastError, LeaseLost
from holdfast.service.tasks.lease_state import LeaseState, LeaseTerm
from holdfast.service.tasks.service import TaskService
from holdfast.service.tasks.terms import lifetime_of

log = logging.getLogger("holdfast")

PER_LIFETIME = 3
"""How often leases are renewed within their lifetime: a late renewal or a failed one loses none."""


class WatchedLease(Protocol):
    """A lease that is to be renewed."""

    state: LeaseState

    @property
    def is_open(self) -> bool:
        """Whether it has neither ended nor been lost, as far as its holder knows."""

    def lose(self, error: LeaseLost) -> None:
        """Learn that the lease is lost."""


class LeaseRenewal:
    """Renews the leases of one session as long as one of them is held. Threads may share it."""

    def __init__(
        self,
        parts: Components,
        service: TaskService,
        session_id: str,
        ttl: Duration,
        term: LeaseTerm,
    ) -> None:
        self._parts: Components = parts
        self._service: TaskService = service
        self._session_id: str = session_id
        self._ttl: Duration = ttl
        self._term: LeaseTerm = term
        self._interval: int = lifetime_of(ttl) // PER_LIFETIME
        self._lock = threading.Lock()
        self._held: dict[str, WatchedLease] = {}
        self._running: bool = False
        self._stopped = threading.Event()

    def watch(self, held: WatchedLease) -> None:
        """Renew the leases from now on, because of this one."""
        with self._lock:
            self._held[str(held.state.proof)] = held
            if self._running or self._stopped.is_set():
                return
            self._running = True
        if self.stop not in self._parts.on_close:
            self._parts.on_close.append(self.stop)
        if not self._parts.clock.flows:
            self._parts.clock.listen(self.check)
            return
        name = f"holdfast renewal {self._session_id}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def forget(self, held: WatchedLease) -> None:
        """Do not renew because of this lease any more: it has ended."""
        with self._lock:
            self._held.pop(str(held.state.proof), None)

    def stop(self) -> None:
        """Renew nothing any more."""
        self._stopped.set()
        with self._lock:
            self._held.clear()
        self._parts.clock.unlisten(self.check)
        if self.stop in self._parts.on_close:
            self._parts.on_close.remove(self.stop)

    def _run(self) -> None:
        while not self._stopped.wait(self._interval / 1_000_000):
            with self._lock:
                if not self._held:  # the next lease starts another thread
                    self._running = False
                    return
            self.check()

    def check(self) -> None:
        """Renew the leases if a third of their lifetime has passed, and tell the holders of those
        that are lost."""
        with self._lock:
            held = list(self._held.values())
        if not held or self._stopped.is_set():
            return
        try:
            renewed_at = self._term.until - lifetime_of(self._ttl)
            if self._parts.store.now() - renewed_at >= self._interval:
                self._renew(held)
        except EngineClosed:
            self.stop()
        except HoldfastError as error:  # tried again after the interval
            log.warning("the leases of session %s were not renewed: %s", self._session_id, error)

    def _renew(self, held: list[WatchedLease]) -> None:
        """Renew the session, and look for runs that were taken from it."""
        terms = self._service.terms
        try:
            self._parts.commit(terms.renew(self._session_id, self._ttl, self._term))
        except LeaseLost:
            for lease in held:
                lease.lose(terms.lost(lease.state))
            return
        runs = self._parts.client.get_many([lease.state.run.id for lease in held])
        for lease in held:
            proof = lease.state.proof
            run = runs.get(proof.run_id)
            mine = isinstance(run, RunRecord) and (run.session_id, run.generation) == (
                proof.session_id,
                proof.generation,
            )
            if not mine and lease.is_open:
                lease.lose(terms.lost(lease.state))
