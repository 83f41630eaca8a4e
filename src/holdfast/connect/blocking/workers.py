# Generated from connect/workers.py by tools/generate_blocking.py: do not edit.
"""``engine.workers``: the workers of an installation, and the runs that none of them serves."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.connect.calls import Calls
from holdfast.connect.components import Components
from holdfast.core.sessions import Session
from holdfast.service.requests import Request, identity
from holdfast.service.workers import sessions_of
from holdfast.store.runs.operations import EndSession
from holdfast.views.workers import RemovedWorkerView, UnservedView, WorkerView


class Workers:
    """The workers that an ``Engine`` can see."""

    def __init__(self, calls: Calls) -> None:
        self._calls: Calls = calls

    def list(self) -> list[WorkerView]:
        """Return all workers, alive or dead. If the engine is bound to a namespace, return only
        the workers that serve it."""
        return self._calls.call(lambda parts: parts.workers())

    def remove(self, worker: str, *, by: str | None = None) -> Sequence[RemovedWorkerView]:
        """Declare a worker dead, by its name or by the id of its session: it loses its runs and
        leases at once, and other workers may claim them. If it lives after all, its writes to them
        are refused, and it continues with a new session. Return the removed sessions. Raises
        WorkerNotFound, NamespaceBound."""
        return self._calls.call(lambda parts: _remove(parts, worker, by))

    def unserved(self) -> Sequence[UnservedView]:
        """Return the routes with claimable runs that no live worker serves: the number of runs, the
        offer that is missing, and the remedy."""
        return self._calls.call(lambda parts: parts.unserved())


def _remove(parts: Components, worker: str, by: str | None) -> Sequence[RemovedWorkerView]:
    sessions = sessions_of(parts.client, worker)
    parts.note_action(by, "workers.remove", worker)
    return [_end(parts, session) for session in sessions]


def _end(parts: Components, session: Session) -> RemovedWorkerView:
    """End a session as crashed, part by part if it holds very many runs."""
    lost: list[str] = []
    session_id: str | None = session.id
    while session_id is not None:
        freed = parts.commit(Request(EndSession(session_id, crashed=True), identity))
        lost += freed
        session_id = freed.rest
    return RemovedWorkerView(worker=session.worker, session=session.id, runs=lost)
