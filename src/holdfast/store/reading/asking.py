"""How a question is put to a database; each says it in its own way."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from holdfast.errors import RowDamaged
from holdfast.store.soundness import UNREADABLE, checked, sifted, unreadable, unsound_json

T = TypeVar("T")
log = logging.getLogger("holdfast")


class Queries:
    """A database says how a query is asked, and what it calls a list."""

    _reported: set[str]
    """The damaged rows that were reported."""

    now: Callable[[], int]
    """The time by which this store lives. It is the clock's own method: a step asks for the time
    several times."""

    def _fetch(self, sql: str, values: Any = ()) -> list[Any]:
        """Return the rows that answer *sql*, which is spelled as this database wants it, whatever
        is in them."""
        raise NotImplementedError

    def _query(self, query: str) -> str:
        """Return a named query, spelled as this database wants it."""
        raise NotImplementedError

    def _ask(self, sql: str, values: Any = ()) -> list[Any]:
        """Return the rows that answer *sql*. Raises RowDamaged."""
        return checked(sql, self._fetch(sql, values), values)

    def _rows(self, query: str, **values: object) -> list[Any]:
        """Return the rows that answer a named query. Raises RowDamaged."""
        return self._ask(self._query(query), values)

    def _one(self, read: Callable[[Any], T], query: str, **values: object) -> T | None:
        """Return the record that answers a named query, or None. Raises RowDamaged."""
        return next(iter(self._all(read, query, **values)), None)

    def _all(self, read: Callable[[Any], T], query: str, **values: object) -> list[T]:
        """Return all records that answer a named query. Raises RowDamaged: they belong together,
        and none may be missing."""
        sql = self._query(query)
        found = []
        for row in self._ask(sql, values):
            try:
                found.append(read(row))
            except UNREADABLE as error:
                raise unreadable(sql, row, values, error) from error
        return found

    def _listed(self, read: Callable[[Any], T], query: str, **values: object) -> list[T]:
        """Return the records that answer a named query, without those that are damaged: these are
        reported."""
        return self._list(read, self._query(query), values)

    def _list(self, read: Callable[[Any], T], sql: str, values: Any) -> list[T]:
        """The same for any query."""
        rows, damaged = sifted(sql, self._fetch(sql, values), values)
        found = []
        for row in rows:
            wrong = unsound_json(sql, row, values)
            if wrong is not None:
                damaged.append(wrong)
                continue
            try:
                found.append(read(row))
            except UNREADABLE as error:
                damaged.append(unreadable(sql, row, values, error))
        for one in damaged:
            self._report(one)
        return found

    def _report(self, damage: RowDamaged) -> None:
        """Say, once, that a row is left out."""
        if str(damage) not in self._reported:
            self._reported.add(str(damage))
            log.warning("a damaged row is left out: %s", damage)

    def _spelled(self, sql: str) -> str:
        raise NotImplementedError

    def _as_list(self, items: Iterable[object]) -> object:
        raise NotImplementedError
