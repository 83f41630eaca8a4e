"""Queries about subscriptions, and about the events of all runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.core.subscriptions import (
    BEGINNING,
    DeadLetter,
    EventCursor,
    EventFilter,
    RunEvent,
    Subscription,
)
from holdfast.errors import RowDamaged
from holdfast.store.reader import Queries
from holdfast.store.transitions.subscribing import page, subscription_from


class EventQueries(Queries):
    """Queries about subscriptions, and about the events of all runs."""

    _installation = ""

    def installation(self) -> str:
        if not self._installation:
            rows = self._rows("setting", name="installation")
            if not rows:
                raise RowDamaged(
                    table="setting", key="installation", column="name", why="the row is missing"
                )
            self._installation = str(rows[0]["value"])
        return self._installation

    def place(self, start: EventCursor | str) -> EventCursor:
        if isinstance(start, EventCursor):
            return start
        row = self._rows("first_place" if start == BEGINNING else "last_place")[0]
        return EventCursor(row["tx"], row["id"])

    def events(
        self, after: EventCursor, which: EventFilter, window: int = 500
    ) -> tuple[list[RunEvent], EventCursor]:
        return page(_QueryTransaction(self), after, which, window, self.installation())

    def subscription(self, name: str) -> Subscription | None:
        return self._one(subscription_from, "subscription", name=name)

    def subscriptions(self) -> list[Subscription]:
        return self._listed(subscription_from, "subscriptions")

    def letters(self, name: str, *, again: bool = False, limit: int = 1000) -> list[DeadLetter]:
        return self._listed(_letter, "letters", name=name, again=int(again), limit=limit)


def _letter(row: Any) -> DeadLetter:
    return DeadLetter(**{**dict(row), "body": bytes(row["body"]), "again": bool(row["again"])})


class _QueryTransaction:
    """A reader with the interface of a transaction, for ``page``. All events up to the edge of a
    page are final, so its parts may be read by separate queries."""

    def __init__(self, reader: EventQueries) -> None:
        self._reader = reader

    def rows(self, query: str, **values: object) -> list[Any]:
        return self._reader._rows(query, **values)

    def as_list(self, items: Iterable[object]) -> object:
        return self._reader._as_list(items)
