"""Cache of routes and lane limits, read again only when they may have changed."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.core.runs import Route
from holdfast.store.database import Hints
from holdfast.store.store import Store


class RouteCache:
    """The known routes, and which lanes have limits."""

    def __init__(self, store: Store, on_read: Callable[[], None]) -> None:
        self._store = store
        self._on_read = on_read
        self._routes: dict[int, Route] = {}
        self._limited: set[str] = set()
        self.stale = True
        """Whether the routes may have changed since they were read. May be set by any thread."""

    def note_commit(self, hints: Hints) -> None:
        """Note a commit of this process."""
        if hints.routes:
            self.stale = True

    def routes(self) -> dict[int, Route]:
        """Return all routes by their numbers."""
        if self.stale:
            self.stale = False  # before the read: a change during the read must set it again
            try:
                routes = self._store.runs.routes()
                lanes = self._store.lanes.all()
                self._on_read()
            except BaseException:
                self.stale = True
                raise
            self._routes = routes
            self._limited = {
                lane.name
                for lane in lanes
                if lane.concurrency is not None or lane.by_share or lane.paused
            }
        return self._routes

    def is_limited(self, lane: str) -> bool:
        """Return whether the runs of a lane occupy a limited number of places."""
        return lane in self._limited
