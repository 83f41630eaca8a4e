"""``RemoteTaskWorker``: a holder of leases over HTTP, with the calls of ``engine.tasks.worker``."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any

from holdfast import errors
from holdfast.core import typed_json
from holdfast.core.duration import parse
from holdfast.core.status import Status
from holdfast.errors import HoldfastError, LeaseLost, ServerUnreachable
from holdfast.remote.calls import TIMEOUT, HttpCalls, RemoteOperation
from holdfast.remote.leases import RemoteLease
from holdfast.service.tasks.lease_state import RunEnded


def _operation(method: str, path: str) -> RemoteOperation:
    return RemoteOperation(method, f"/remote-workers{path}", (), "struct", "", "")


OPEN = _operation("POST", "")
CLAIM = _operation("POST", "/{id}/claim")
COMPLETE = _operation("POST", "/{id}/complete")
RECLAIM = _operation("POST", "/{id}/reclaim")
RENEW = _operation("POST", "/{id}/renew")
REST = _operation("POST", "/{id}/rest")
CLOSE = _operation("DELETE", "/{id}")


class RemoteTaskWorker:
    """A holder of leases of a server. Its leases are valid while it is renewed, which a daemon
    thread does as long as one of them is held; when it is closed or dies, other workers may claim
    its runs."""

    def __init__(self, calls: HttpCalls, worker: str, *, renew: bool = True, **offer: Any) -> None:
        named = {name: value for name, value in offer.items() if value is not None}
        self._calls: HttpCalls = calls
        self._offer: dict[str, Any] = {"worker": worker, **named}
        self._renews: bool = renew
        self._id: str = ""
        self._every: float = 0.0
        self.session_id: str = ""
        """The id of the session; empty until it is open."""
        self._lock = threading.Lock()
        self._held: set[str] = set()
        """The proofs of the leases that have not ended."""
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> RemoteTaskWorker:
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def claim(self, limit: int = 1, *, wait: Any = None) -> list[RemoteLease]:
        """Lease up to *limit* runs; with *wait*, wait so long for the first, at most 30 s."""
        answer = self._call(CLAIM, limit=limit, wait=wait or "0s")
        return [self._lease(leased) for leased in answer["items"]]

    def reclaim(self, run_id: str) -> RemoteLease | RunEnded:
        """Lease one given run whose holder is dead or has returned it. Raises NotReclaimable,
        RunNotFound, RunFinished."""
        answer = self._call(RECLAIM, run=run_id)
        if answer.get("lease") is None:
            return RunEnded(Status(answer["status"]))
        return self._lease(answer["lease"])

    def complete_all(
        self, done: Iterable[tuple[RemoteLease, Any]]
    ) -> list[RunEnded | HoldfastError]:
        """Complete several leases, each with its result, in one commit. Return one answer per
        lease; for a refused completion it is the error with the reason."""
        pairs = list(done)
        completions = [{"proof": lease.proof, "result": result} for lease, result in pairs]
        answers = self._call(COMPLETE, completions=completions)["items"]
        for lease, _ in pairs:
            self._forget(lease.proof)
        return [_outcome(answer) for answer in answers]

    def renew(self) -> datetime:
        """Renew all leases of this holder, and return their expiry. Raises LeaseLost."""
        return typed_json.convert(self._call(RENEW)["until"], datetime)

    def rest(self) -> None:
        """Keep the current leases and claim no more."""
        self._call(REST)

    def close(self) -> None:
        """Return all leases at once and end the session."""
        self._is_over.set()
        if self._id:
            self._calls.call(CLOSE, {"id": self._id})

    def _open(self) -> str:
        with self._lock:
            if not self._id:
                opened = self._calls.call(OPEN, self._offer)
                self._id = opened["remote_worker"]
                self.session_id = opened["session"]
                self._every = parse(opened["renew_every"]) / 1_000_000
            return self._id

    def _call(self, operation: RemoteOperation, **arguments: Any) -> Any:
        return self._calls.call(operation, {"id": self._open(), **arguments}, TIMEOUT)

    # Leases

    def _lease(self, leased: dict[str, Any]) -> RemoteLease:
        proof = leased["proof"]
        with self._lock:
            self._held.add(proof)
            if self._renews and self._thread is None:
                self._thread = threading.Thread(target=self._keep_renewing, daemon=True)
                self._thread.start()
        return RemoteLease(self._calls, proof, leased, self._forget)

    def _forget(self, proof: str) -> None:
        with self._lock:
            self._held.discard(proof)

    def _keep_renewing(self) -> None:
        while not self._is_over.wait(self._every):
            with self._lock:
                if not self._held:
                    self._thread = None
                    return
            try:
                with suppress(ServerUnreachable):  # the next try may reach it in time
                    self._call(RENEW)
            except HoldfastError:
                return  # the leases are lost: the next call of their holder says so

    def __repr__(self) -> str:
        return f"<remote worker {self.session_id}>"


def _outcome(answer: dict[str, Any]) -> RunEnded | HoldfastError:
    problem = answer.get("problem")
    if problem is None:
        return RunEnded(Status(answer["status"]))
    kind = getattr(errors, problem["type"].rpartition("/")[2], LeaseLost)
    error: HoldfastError = kind(**problem.get("facts", {}))
    return error
