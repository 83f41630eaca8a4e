"""How long explicit leases last: they are renewed, or run out at their time, whoever has looked
after them since."""

from __future__ import annotations

from holdfast.core import duration
from holdfast.core.duration import Duration
from holdfast.core.runs import RunRecord
from holdfast.core.status import FINAL
from holdfast.core.tasks.policy import LeaseProof
from holdfast.errors import BadOption, LeaseLost
from holdfast.service.runs import Request
from holdfast.service.tasks.lease_state import LeaseState, LeaseTerm
from holdfast.store.contract import Store
from holdfast.store.contract.leases import RenewLeases

LATE = "it was not renewed in time"


def lifetime_of(ttl: Duration) -> int:
    """Return how long a lease lasts. Raises BadDuration, BadOption."""
    lifetime = duration.parse(ttl)
    if lifetime <= 0:
        raise BadOption(option="ttl", value=ttl, why="a lease lasts longer than nothing")
    return lifetime


class LeaseTerms:
    """What a desk for leases knows of their terms."""

    store: Store

    def _run(self, proof: LeaseProof) -> RunRecord:
        raise NotImplementedError

    def renew(
        self, session_id: str, ttl: Duration, term: LeaseTerm, held: LeaseState | None = None
    ) -> Request:
        """Keep the leases of a session; the answer is until when. With a lease only if that stands.
        Raises LeaseLost."""
        op = RenewLeases(session_id=session_id, lifetime=lifetime_of(ttl))
        if held is not None:
            op.run_id, op.generation = held.run.id, held.proof.generation

        def decode(until: int | None) -> int:
            if until is None:
                raise (
                    self.lost(held) if held is not None else LeaseLost(session=session_id, why=LATE)
                )
            term.until = until
            return until

        return Request(op, decode)

    def is_over(self, session_id: str, term: LeaseTerm) -> bool:
        """Say whether the leases of a session have run out, whoever has looked after them since."""
        now = self.store.now()
        if term.until < now:
            term.until = self._expiry(session_id)
        return term.until < now

    def _expiry(self, session_id: str) -> int:
        return next((one.expires_at for one in self.store.sessions() if one.id == session_id), 0)

    def late(self, held: LeaseState) -> LeaseLost | None:
        """Return the refusal of whatever the holder wants to write, if its lease has run out."""
        return (
            LeaseLost(run=held.run.id) if self.is_over(held.proof.session_id, held.term) else None
        )

    def lost(self, held: LeaseState) -> LeaseLost:
        """Say why a lease does not stand."""
        run, proof = self._run(held.proof), held.proof
        why = "the lease was taken back, or ran out"
        if run.status in FINAL:
            why = "the run has ended"
        elif (run.generation, run.session_id) == (proof.generation, proof.session_id):
            why = LATE
        elif run.generation == proof.generation:
            why = "its holder has let it go"
        return LeaseLost(run=run.id, generation=proof.generation, why=why, status=run.status.value)

    def check_stands(self, held: LeaseState) -> None:
        """Refuse whoever holds the run no more; one who let it go itself, and whom nobody followed,
        may be told what he was told before. Raises LeaseLost."""
        run = self._run(held.proof)
        mine = run.generation == held.proof.generation and run.session_id in (
            None,
            held.proof.session_id,
        )
        if not mine or (
            run.session_id is not None and self.is_over(held.proof.session_id, held.term)
        ):
            raise self.lost(held)
