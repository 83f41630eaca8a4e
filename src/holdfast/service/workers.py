"""Find the sessions of a worker that an operator declares dead."""

from __future__ import annotations

from holdfast.core.sessions import Session
from holdfast.core.validation import checked_string
from holdfast.core.why.workers import offer_of
from holdfast.errors import NamespaceBound, WorkerNotFound
from holdfast.service.runs import RunService


def sessions_of(client: RunService, worker: str) -> list[Session]:
    """Return the sessions of a worker, by its name or by the id of one session. An engine that is
    bound to a namespace reaches only the workers of that namespace. Raises BadOption,
    WorkerNotFound, NamespaceBound."""
    wanted = checked_string("worker", worker)
    sessions = [
        session for session in client.store.sessions.all() if wanted in (session.id, session.worker)
    ]
    if client.only is not None:
        offers = {session.id: offer_of(session).namespace for session in sessions}
        sessions = [session for session in sessions if offers[session.id] in (None, client.only)]
        if None in [offers[session.id] for session in sessions]:
            raise NamespaceBound(
                namespace=client.only,
                worker=wanted,
                why="the worker also serves other namespaces",
            )
    if not sessions:
        raise WorkerNotFound(worker=wanted)
    return sessions
