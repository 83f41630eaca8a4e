"""``RemoteHolder``: a remote worker, whose session any process of an installation can continue.

Everything about it is in the row of its session: the offer, the digest of its secret, and its
lifetime, which is the distance of its expiry from its last renewal.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from holdfast.connect.components import Components
from holdfast.connect.held_lease import HeldLease
from holdfast.connect.lease_holder import LeaseHolder
from holdfast.core import typed_json
from holdfast.core.duration import Duration
from holdfast.core.sessions import Session
from holdfast.core.status import Status
from holdfast.core.validation import checked_capabilities, checked_words
from holdfast.errors import BadLease, HoldfastError, RemoteWorkerNotFound
from holdfast.service.requests import Request, identity
from holdfast.service.tasks.lease_state import LeaseState, RunEnded
from holdfast.service.tasks.service import TaskService
from holdfast.store.runs.operations import OpenSession


class RemoteOffer(msgspec.Struct):
    """The part of a session's offer that a remote worker needs again."""

    workflows: dict[str, Any] | None = None
    lanes: list[str] | None = None
    capabilities: list[str] = []
    namespace: str | None = None
    remote: str = ""
    """The digest of its secret."""
    horizon: str | None = None


def open_remote(
    parts: Components,
    *,
    worker: str,
    workflows: str | Sequence[str] | None,
    lanes: str | Sequence[str] | None,
    capabilities: str | Sequence[str],
    ttl: Duration,
    horizon: str | None,
    claims: bool = True,
) -> tuple[str, Session]:
    """Open the session of a remote worker. Return its id, which contains its secret, and the
    session. Raises BadOption."""
    service = TaskService(parts.client, horizon, crash_limit=parts.settings.crash_limit)
    session = service.claims.session(
        worker,
        ttl,
        checked_words("workflows", workflows),
        checked_words("lanes", lanes),
        checked_capabilities(capabilities),
        claims=claims,
    )
    secret = secrets.token_hex(16)
    offer = msgspec.json.decode(session.serves)
    offer |= {"remote": _digest(secret), "horizon": horizon}
    session.serves = msgspec.json.encode(offer)
    parts.commit(Request(OpenSession(session), identity))
    return f"{session.id}-{secret}", session


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


class RemoteHolder:
    """A remote worker in this process, for one request. Its calls block the calling thread."""

    def __init__(self, parts: Components, remote_id: str, key: str | None = None) -> None:
        """Find the session of a remote worker. Raises RemoteWorkerNotFound."""
        session_id, _, secret = remote_id.rpartition("-")
        session = parts.tasks.terms.session(session_id)
        offer = RemoteOffer() if session is None else _offer_of(session)
        is_known = hmac.compare_digest(offer.remote.encode(), _digest(secret).encode())
        if session is None or not is_known or offer.namespace != parts.client.namespace:
            raise RemoteWorkerNotFound()
        self._parts: Components = parts
        self.session: Session = session
        self._key: str | None = key
        self.ttl: timedelta = timedelta(microseconds=session.expires_at - session.beat_at)
        self._holder = LeaseHolder(
            worker=session.worker,
            workflows=None if offer.workflows is None else list(offer.workflows),
            lanes=offer.lanes,
            capabilities=offer.capabilities,
            ttl=self.ttl,
            horizon=offer.horizon,
            claims=True,
            renew=False,
        ).resume(parts, session, key)

    def claimed_before(self) -> list[HeldLease]:
        """Return the leases that an equal claim has got, as far as they are still held."""
        if self._key is None:
            return []
        known = self._parts.store.tasks.claimed(self.session.id, self._key)
        held = {run_id: generation for run_id, generation, _ in self._held_runs()}
        return [
            self._holder.lease_of(self._holder.read_again(self._proof(run_id, generation)))
            for run_id, generation in known
            if held.get(run_id) == generation
        ]

    def _held_runs(self) -> list[tuple[str, int, int]]:
        return self._parts.store.sessions.held_by(self.session.id)

    def _proof(self, run_id: str, generation: int) -> str:
        return f"{run_id}.{generation}.{self.session.id}"

    def take(self, limit: int) -> list[HeldLease]:
        """Lease up to *limit* runs. Raises LeaseLost if the session has expired."""
        return self._holder.take(limit)

    def release(self, leases: Sequence[HeldLease]) -> None:
        """Return leases that the remote worker never received."""
        self._holder.release(leases)

    def complete(
        self, results: Sequence[tuple[str, Any]], known: Mapping[str, LeaseState]
    ) -> list[RunEnded | HoldfastError]:
        """Complete leases by their proofs, in one commit, and return one answer each. *known* are
        states of leases that this process has kept."""
        answers: list[RunEnded | HoldfastError | None] = []
        pairs: list[tuple[HeldLease, Any]] = []
        for proof, result in results:
            try:
                pairs.append((self._lease(proof, known), result))
                answers.append(None)
            except HoldfastError as error:
                answers.append(error)
        done = iter(self._holder.complete_all(pairs))
        return [next(done) if answer is None else answer for answer in answers]

    def _lease(self, proof: str, known: Mapping[str, LeaseState]) -> HeldLease:
        if not proof.endswith(f".{self.session.id}"):
            raise BadLease(lease=proof, why="it belongs to another remote worker")
        state = known.get(proof) or self._holder.read_again(proof)
        return self._holder.lease_of(state)

    def reclaim(self, run_id: str) -> HeldLease | RunEnded:
        """Lease one given run, whose holder is gone. Raises NotReclaimable, RunNotFound,
        RunFinished, LeaseLost."""
        leases, ended = self._holder.reclaim(run_id)
        return leases[0] if ended is None else ended

    def rest(self) -> None:
        """Keep the leases and claim no more: explanations no longer count on this worker."""
        offer = msgspec.json.decode(self.session.serves)
        session = msgspec.structs.replace(
            self.session, serves=msgspec.json.encode({**offer, "claims": False})
        )
        self._parts.commit(Request(OpenSession(session), identity))

    def renew(self) -> tuple[datetime, list[str]]:
        """Renew all leases. Return their expiry and the ids of the runs that were asked to stop.
        Raises LeaseLost."""
        until = self._holder.renew()
        ids = [run_id for run_id, _, _ in self._held_runs()]
        runs = self._parts.client.get_many(ids).values()
        stopping = [
            run.id
            for run in runs
            if not isinstance(run, HoldfastError) and run.status is Status.CANCELLING
        ]
        return until, stopping

    def close(self) -> None:
        """Return all leases at once and end the session."""
        self._holder.close()


def _offer_of(session: Session) -> RemoteOffer:
    try:
        return typed_json.decode(session.serves, RemoteOffer)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return RemoteOffer()
