"""Decide whether the session of a worker is dead."""

from __future__ import annotations

from holdfast.core.sessions import Session
from holdfast.store.store import Store


def session_is_dead(store: Store, session: Session, now: int) -> bool:
    """Return whether the process of a session is gone, or its heartbeat has stopped."""
    return store.liveness.is_alive(session) is False or heartbeat_is_overdue(store, session, now)


def heartbeat_is_overdue(store: Store, session: Session, now: int) -> bool:
    """Return whether the heartbeat of a session has stopped. A worker that could not reach the
    database gets a moment to send it again; a remote holder of leases does not, because leases end
    at their time."""
    if session.expires_at >= now:
        return False
    return session.pid == 0 or not store.liveness.was_away()
