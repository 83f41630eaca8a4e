"""Collect changes of many rows, to make those of one kind together."""

from __future__ import annotations

from holdfast.store.database import Transaction


class DeferredChanges:
    """Collects changes, to make those of one kind with one statement."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self.now = tx.now
        self.hints = tx.hints
        self._noted: dict[str, list[dict[str, object]]] = {}

    def change(self, query: str, **values: object) -> int:
        self._noted.setdefault(query, []).append(values)
        return 1

    def make(self) -> None:
        """Make all the changes."""
        for query, values in self._noted.items():
            self._tx.many(query, values)
        self._noted.clear()
