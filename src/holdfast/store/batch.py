"""What both adapters need to apply a batch: restore a transaction, and collect its hints."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Protocol

from holdfast.core.runs import Route
from holdfast.store.database import NO_HINTS, Hints, Transaction


class RouteTransaction(Transaction, Protocol):
    """A transaction that notes the routes which it has created."""

    new_routes: dict[Route, int]


class RestorePoint:
    """The state of a transaction that is kept in memory, as it was at a savepoint.

    A rollback to a savepoint undoes the rows of a refused operation. Its hints, the outcomes of
    members, its routes and the parents that it has woken must go with them: otherwise a later
    operation of the batch would skip a write that was undone.
    """

    __slots__ = ("_hints", "_new_routes", "_news", "_tx", "_woken_parents")

    def __init__(self, tx: RouteTransaction) -> None:
        self._tx = tx
        self._hints = tx.hints.copy()
        self._news = list(tx.news)
        self._new_routes = dict(tx.new_routes)
        self._woken_parents = set(tx.woken_parents)

    def restore(self) -> None:
        """Return to this state. To be called once, after the rollback to the savepoint."""
        self._tx.hints = self._hints
        self._tx.news = self._news
        self._tx.new_routes = self._new_routes
        self._tx.woken_parents = self._woken_parents


class CollectedHints:
    """The hints of all commits since they were last taken, for any thread."""

    __slots__ = ("_guard", "_has_hints", "_hints")

    def __init__(self) -> None:
        self._hints: Hints = Hints()
        self._guard: threading.Lock = threading.Lock()
        self._has_hints: bool = False

    def add(self, hints: Hints) -> None:
        """Add the hints of a commit."""
        with self._guard:
            self._hints.add(hints)
            self._has_hints = True

    def take(self) -> Hints:
        """Return and reset the hints. Without any, this takes no lock: it is called often."""
        if not self._has_hints:
            return NO_HINTS
        with self._guard:
            hints = self._hints
            self._hints = Hints()
            self._has_hints = False
        return hints


def forget_missing_routes(routes: dict[Route, int], numbers: Collection[int]) -> None:
    """Remove cached routes whose rows are damaged or gone: the next start of such a route creates
    another row."""
    for route, number in list(routes.items()):
        if number not in numbers:
            routes.pop(route, None)
