"""Decide whether the session of a worker is over."""

from __future__ import annotations

from holdfast.core.sessions import Session
from holdfast.store.contract import (
    Store,
)


def session_is_dead(store: Store, session: Session, now: int) -> bool:
    """Say whether a session is over: its process is gone, or its heartbeat has stopped."""
    return store.is_alive(session) is False or heartbeat_is_overdue(store, session, now)


def heartbeat_is_overdue(store: Store, session: Session, now: int) -> bool:
    """Return whether the heartbeat of a session has stopped. A worker that could not reach the
    database is given a moment to beat again; a holder of leases is not, because leases end at their
    time."""
    if session.expires_at >= now:
        return False
    return session.pid == 0 or not store.was_away()
