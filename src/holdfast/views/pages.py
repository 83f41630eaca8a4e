"""A page of a list, as every list that is read in pages returns it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


class Page(list[T]):
    """Some items of a list. ``next`` is the cursor with which the next page begins; None if there
    are no more items."""

    def __init__(self, items: Iterable[T] = (), next: str | None = None) -> None:
        super().__init__(items)
        self.next: str | None = next

    def as_object(self) -> dict[str, object]:
        """Return the page as the object that JSON shows: ``{"items": [...], "next": ...}``."""
        return {"items": list(self), "next": self.next}
