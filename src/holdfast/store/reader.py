"""Execute named queries and turn rows into records; the base class of all queries.

Every row is checked for damage. Three ways to read differ in how they treat a damaged row:
- ``_rows``, ``_one`` and ``_all`` raise RowDamaged, because no row of the answer may be missing;
- ``_listed`` and ``_list`` leave the row out and log it once;
- ``_fetch`` returns it unchecked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from holdfast.errors import RowDamaged
from holdfast.store.soundness import UNREADABLE, checked, sifted, unreadable, unsound_json

T = TypeVar("T")
log = logging.getLogger("holdfast")


class Queries:
    """Named queries against one database. A subclass executes them, and encodes lists for it."""

    _reported: set[str]
    """The damaged rows that were logged."""

    now: Callable[[], int]
    """Return the time of the store. It is the clock's own method: a step asks for the time several
    times, and this saves a call each."""

    def _fetch(self, sql: str, values: Any = ()) -> list[Any]:
        """Return the rows of *sql*, which is in the dialect of this database, without checking
        them."""
        raise NotImplementedError

    def _query(self, query: str) -> str:
        """Return a named query in the dialect of this database."""
        raise NotImplementedError

    def _ask(self, sql: str, values: Any = ()) -> list[Any]:
        """Return the rows of *sql*. Raises RowDamaged."""
        return checked(sql, self._fetch(sql, values), values)

    def _rows(self, query: str, **values: object) -> list[Any]:
        """Return the rows of a named query. Raises RowDamaged."""
        return self._ask(self._query(query), values)

    def _one(self, read: Callable[[Any], T], query: str, **values: object) -> T | None:
        """Return the first record of a named query, or None. Raises RowDamaged."""
        return next(iter(self._all(read, query, **values)), None)

    def _all(self, read: Callable[[Any], T], query: str, **values: object) -> list[T]:
        """Return all records of a named query. Raises RowDamaged: they belong together, and none
        may be missing."""
        sql = self._query(query)
        records = []
        for row in self._ask(sql, values):
            try:
                records.append(read(row))
            except UNREADABLE as error:
                raise unreadable(sql, row, values, error) from error
        return records

    def _listed(self, read: Callable[[Any], T], query: str, **values: object) -> list[T]:
        """Return the records of a named query; damaged rows are left out and logged."""
        return self._list(read, self._query(query), values)

    def _list(self, read: Callable[[Any], T], sql: str, values: Any) -> list[T]:
        """Return the records of any query; damaged rows are left out and logged."""
        rows, damaged = sifted(sql, self._fetch(sql, values), values)
        records = []
        for row in rows:
            damage = unsound_json(sql, row, values)
            if damage is not None:
                damaged.append(damage)
                continue
            try:
                records.append(read(row))
            except UNREADABLE as error:
                damaged.append(unreadable(sql, row, values, error))
        for damage in damaged:
            self._report(damage)
        return records

    def _report(self, damage: RowDamaged) -> None:
        """Log, once per row, that a damaged row is left out."""
        if str(damage) not in self._reported:
            self._reported.add(str(damage))
            log.warning("left out a damaged row: %s", damage)

    def _spelled(self, sql: str) -> str:
        """Return *sql* in the dialect of this database."""
        raise NotImplementedError

    def _as_list(self, items: Iterable[object]) -> object:
        """Return a list as a parameter for this database."""
        raise NotImplementedError
