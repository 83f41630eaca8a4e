"""How a question is put to a database; each says it in its own way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Asking:
    """A database says how a query is asked, and what it calls a list."""

    def now(self) -> int:
        raise NotImplementedError

    def _ask(self, sql: str, values: Any = ()) -> list[Any]:
        """Return the rows that answer *sql*, which is spelled as this database wants it."""
        raise NotImplementedError

    def _rows(self, query: str, **values: object) -> list[Any]:
        """Return the rows that answer a named query."""
        raise NotImplementedError

    def _spelled(self, sql: str) -> str:
        raise NotImplementedError

    def _as_list(self, items: Iterable[object]) -> object:
        raise NotImplementedError
