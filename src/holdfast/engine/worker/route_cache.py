"""What a worker knows of routes and lanes: read again only when there may be others."""

from __future__ import annotations

from holdfast.core.runs import Route
from holdfast.store.contract import Hints, Store


class RouteCache:
    """The routes that there are, and which lanes have limits."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._routes: dict[int, Route] = {}
        self._limited: set[str] = set()
        self.stale = True
        """Whether there may be others than were read. May be set by any thread."""

    def hinted(self, hints: Hints) -> None:
        """A commit of this process touched something."""
        if hints.routes:
            self.stale = True

    def routes(self) -> dict[int, Route]:
        """Return all routes by their numbers, and learn which lanes have limits."""
        if self.stale:
            self.stale = False  # before looking, not after
            try:
                self._routes, lanes = self._store.routes(), self._store.lanes()
            except BaseException:
                self.stale = True  # it was not learned
                raise
            self._limited = {
                lane.name
                for lane in lanes
                if lane.concurrency is not None or lane.by_share or lane.paused
            }
        return self._routes

    def is_limited(self, lane: str) -> bool:
        """Say whether the runs of a lane take places of which there are only so many."""
        return lane in self._limited
