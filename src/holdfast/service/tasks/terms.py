"""Renew explicit leases, and refuse writes under leases that have expired.

A lease ends at its time, even if no process has processed its expiry yet."""

from __future__ import annotations

from holdfast.core import duration
from holdfast.core.duration import Duration
from holdfast.core.runs import RunRecord
from holdfast.core.sessions import Session
from holdfast.core.status import FINAL
from holdfast.core.tasks.policy import LeaseProof
from holdfast.core.text import is_storable
from holdfast.errors import BadOption, LeaseLost
from holdfast.service.requests import Request
from holdfast.service.runs import RunService
from holdfast.service.tasks.lease_state import LeaseState, LeaseTerm
from holdfast.store.store import Store
from holdfast.store.tasks.operations import RenewLeases

LATE = "the lease was not renewed in time"


def lifetime_of(ttl: Duration) -> int:
    """Return the lifetime of a lease in microseconds. Raises BadDuration, BadOption."""
    lifetime = duration.parse(ttl)
    if lifetime <= 0:
        raise BadOption(option="ttl", value=ttl, why="the lifetime of a lease must be positive")
    return lifetime


class LeaseTerms:
    """Knows how long leases last, and why they have ended."""

    def __init__(self, client: RunService) -> None:
        self._store: Store = client.store
        self._namespace: str = client.namespace

    def find_run(self, proof: LeaseProof) -> RunRecord:
        """Return the run of a lease, which may have ended. Raises LeaseLost if there is none."""
        if is_storable(proof.run_id):
            run = self._store.runs.get(proof.run_id)
            if run is not None and run.namespace == self._namespace:
                return run
        raise LeaseLost(run=proof.run_id, generation=proof.generation, why="there is no such lease")

    def renew(
        self, session_id: str, ttl: Duration, term: LeaseTerm, held: LeaseState | None = None
    ) -> Request[int]:
        """Renew all leases of a session; with *held*, only if that lease is still valid. The answer
        is their new expiry, in microseconds since 1970. Decoding it raises LeaseLost."""
        op = RenewLeases(session_id=session_id, lifetime=lifetime_of(ttl))
        if held is not None:
            op.run_id = held.run.id
            op.generation = held.proof.generation

        def decode(until: int | None) -> int:
            if until is None and held is not None:
                raise self.lost(held)
            if until is None:
                raise LeaseLost(session=session_id, why=LATE)
            term.until = until
            return until

        return Request(op, decode)

    def is_over(self, session_id: str, term: LeaseTerm) -> bool:
        """Return whether the leases of a session have expired, even if no process has processed
        that yet."""
        now = self._store.now()
        # The stored expiry is read only now: saves a query per write while the lease is valid.
        if term.until < now:
            term.until = self.expiry(session_id)
        return term.until < now

    def expiry(self, session_id: str) -> int:
        """Return the stored expiry of the leases of a session; 0 if the session has ended."""
        session = self.session(session_id)
        return 0 if session is None else session.expires_at

    def session(self, session_id: str) -> Session | None:
        """Return a session; None if it has ended."""
        sessions = self._store.sessions.all()
        return next((session for session in sessions if session.id == session_id), None)

    def late(self, held: LeaseState) -> LeaseLost | None:
        """Return the error that refuses a write of the holder if its lease has expired; None if it
        has not."""
        if not self.is_over(held.proof.session_id, held.term):
            return None
        return LeaseLost(run=held.run.id)

    def lost(self, held: LeaseState) -> LeaseLost:
        """Return the error that says why a lease is no longer valid."""
        proof = held.proof
        run = self.find_run(proof)
        why = "the lease was revoked, or expired"
        if run.status in FINAL:
            why = "the run has ended"
        elif (run.generation, run.session_id) == (proof.generation, proof.session_id):
            why = LATE
        elif run.generation == proof.generation:
            why = "the holder has released the lease"
        return LeaseLost(run=run.id, generation=proof.generation, why=why, status=run.status.value)

    def check_stands(self, held: LeaseState) -> None:
        """Raise LeaseLost if the lease is no longer valid. A lease that its holder has released,
        with no later holder, passes: a repeated call gets the answer of the first."""
        run = self.find_run(held.proof)
        mine = run.generation == held.proof.generation and run.session_id in (
            None,
            held.proof.session_id,
        )
        if not mine or (
            run.session_id is not None and self.is_over(held.proof.session_id, held.term)
        ):
            raise self.lost(held)
