"""A clock that stands still until a test moves it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime

from holdfast.core import duration
from holdfast.core.duration import Duration

START = datetime(2026, 1, 1, tzinfo=UTC)
"""When virtual time begins, unless a test says otherwise."""


class VirtualClock:
    """Time as a test wants it: it passes when it is told to, and never goes back."""

    flows = False

    def __init__(self, start: datetime = START) -> None:
        self._guard = threading.Lock()
        self._now = int(start.timestamp() * 1_000_000)
        self._listeners: list[Callable[[], None]] = []

    def now(self) -> int:
        """Return the time in microseconds since 1970."""
        with self._guard:
            return self._now

    def advance(self, by: Duration) -> int:
        """Let time pass, tell all who wait for it, and return the time."""
        return self.advance_to(self.now() + duration.parse(by))

    def advance_to(self, instant: int) -> int:
        """Let time pass until *instant*, if that is still to come."""
        with self._guard:
            self._now = max(self._now, instant)
            now, listeners = self._now, list(self._listeners)
        for moved in listeners:  # without the lock: they ask for the time
            moved()
        return now

    def not_before(self, instant: int) -> None:
        """Never answer less than *instant*."""
        with self._guard:
            self._now = max(self._now, instant)

    def listen(self, moved: Callable[[], None]) -> None:
        """Call *moved* whenever time has passed."""
        with self._guard:
            self._listeners.append(moved)

    def unlisten(self, moved: Callable[[], None]) -> None:
        """Do not call it any more."""
        with self._guard:
            self._listeners = [one for one in self._listeners if one != moved]

    def __repr__(self) -> str:
        return (
            f"<virtual clock at {datetime.fromtimestamp(self.now() / 1_000_000, UTC).isoformat()}>"
        )
