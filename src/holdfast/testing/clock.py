"""A virtual clock, which stands still until a test moves it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime

from holdfast.core import duration
from holdfast.core.duration import Duration

START = datetime(2026, 1, 1, tzinfo=UTC)
"""The default start of virtual time."""


class VirtualClock:
    """A clock that a test moves forward by hand; it never goes back. It is safe for threads."""

    flows = False

    def __init__(self, start: datetime = START) -> None:
        self._lock = threading.Lock()
        self._now = int(start.timestamp() * 1_000_000)
        self._listeners: list[Callable[[], None]] = []

    def now(self) -> int:
        """Return the time in microseconds since 1970."""
        with self._lock:
            return self._now

    def advance(self, by: Duration) -> int:
        """Move time forward, notify the listeners, and return the new time."""
        return self.advance_to(self.now() + duration.parse(by))

    def advance_to(self, instant: int) -> int:
        """Move time to *instant*, unless that has passed, notify the listeners, and return the
        time."""
        with self._lock:
            self._now = max(self._now, instant)
            now = self._now
            listeners = list(self._listeners)
        for moved in listeners:  # after the lock is released: listeners call now()
            moved()
        return now

    def not_before(self, instant: int) -> None:
        """Move time to *instant*, unless that has passed, without notifying the listeners."""
        with self._lock:
            self._now = max(self._now, instant)

    def listen(self, moved: Callable[[], None]) -> None:
        """Call *moved* whenever time has moved."""
        with self._lock:
            self._listeners.append(moved)

    def unlisten(self, moved: Callable[[], None]) -> None:
        """Stop calling *moved*."""
        with self._lock:
            self._listeners = [listener for listener in self._listeners if listener != moved]

    def __repr__(self) -> str:
        return (
            f"<virtual clock at {datetime.fromtimestamp(self.now() / 1_000_000, UTC).isoformat()}>"
        )
