"""Queries about subscriptions, and about the events of all runs."""

from __future__ import annotations

from typing import Any

from holdfast.core.subscriptions import (
    RUNS,
    DeadLetter,
    EventCursor,
    EventFilter,
    RunEvent,
    Subscription,
)
from holdfast.store.installation import InstallationQueries
from holdfast.store.reader import Reader
from holdfast.store.subscriptions.apply import page, place_for, subscription_from


class SubscriptionQueries:
    """Queries about subscriptions, and about the events of all runs."""

    def __init__(self, reader: Reader, installation: InstallationQueries) -> None:
        self._reader: Reader = reader
        self._installation: InstallationQueries = installation

    def place(self, start: EventCursor | str, source: str = RUNS) -> EventCursor:
        """Return the cursor that ``beginning`` or ``now`` stands for, among the events of a
        source."""
        return place_for(self._reader, start, source)

    def events(
        self, after: EventCursor, which: EventFilter, window: int = 500
    ) -> tuple[list[RunEvent], EventCursor]:
        """Return the matching events among the next *window* events, in order, and the cursor to
        continue from.

        An event that commits late is returned late, but never skipped; events of one run keep their
        order.
        """
        # All events up to the edge of a page are final, so its parts may be read by separate
        # queries.
        events, edge, _ = page(self._reader, after, which, window, self._installation.id())
        return events, edge

    def get(self, name: str) -> Subscription | None:
        """Return the subscription, or None."""
        return self._reader.first(subscription_from, "subscription", name=name)

    def all(self) -> list[Subscription]:
        """Return all subscriptions."""
        return self._reader.listed(subscription_from, "subscriptions")

    def count_dead_letters(self) -> dict[str, int]:
        """Return the number of dead letters of each webhook that has some."""
        return {row["subscription"]: row["letters"] for row in self._reader.rows("count_letters")}

    def dead_letters(
        self, name: str, *, again: bool = False, limit: int = 1000
    ) -> list[DeadLetter]:
        """Return the dead letters of a webhook, oldest first; with *again*, only letters that are
        marked for another delivery."""
        return self._reader.listed(_letter, "letters", name=name, again=int(again), limit=limit)


def _letter(row: Any) -> DeadLetter:
    return DeadLetter(**{**dict(row), "body": bytes(row["body"]), "again": bool(row["again"])})
