"""Execute named queries against a database or a snapshot of it, and turn rows into records.

Every row is checked for damage. Three ways to read differ in how they treat a damaged row:
- ``rows``, ``first`` and ``all`` raise RowDamaged, because no row of the answer may be missing;
- ``listed`` and ``list_sql`` leave the row out and log it once;
- ``fetch`` returns it unchecked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from holdfast.errors import RowDamaged
from holdfast.store.database import Dialect, Row, RowSource
from holdfast.store.soundness import UNREADABLE, checked, sound_rows, unreadable, unsound_json

T = TypeVar("T")
log = logging.getLogger("holdfast")


class Reader:
    """Runs the queries of all features against one source of rows."""

    def __init__(self, source: RowSource) -> None:
        self.dialect: Dialect = source.dialect
        self.fetch: Callable[..., list[Row]] = source.fetch
        """Return the rows of a statement in the dialect of this database, without checking them."""
        self.now: Callable[[], int] = source.clock.now
        self._reported: set[str] = set()
        """The damaged rows that were logged."""

    def query(self, name: str) -> str:
        """Return a named query in the dialect of this database."""
        return self.dialect.queries[name]

    def spelled(self, sql: str) -> str:
        """Return a statement that was composed from parts in the dialect of this database."""
        return self.dialect.spelled(sql)

    def as_list(self, items: Iterable[object]) -> object:
        """Return a list as a parameter for this database."""
        return self.dialect.as_list(items)

    def rows(self, name: str, /, **values: object) -> list[Row]:
        """Return the rows of a named query. Raises RowDamaged."""
        sql = self.query(name)
        return checked(sql, self.fetch(sql, values), values)

    def first(self, read: Callable[[Row], T], query: str, /, **values: object) -> T | None:
        """Return the first record of a named query, or None. Raises RowDamaged."""
        return next(iter(self.all(read, query, **values)), None)

    def all(self, read: Callable[[Row], T], query: str, /, **values: object) -> list[T]:
        """Return all records of a named query. Raises RowDamaged: they belong together, and none
        may be missing."""
        sql = self.query(query)
        records = []
        for row in checked(sql, self.fetch(sql, values), values):
            try:
                records.append(read(row))
            except UNREADABLE as error:
                raise unreadable(sql, row, values, error) from error
        return records

    def listed(self, read: Callable[[Row], T], query: str, /, **values: object) -> list[T]:
        """Return the records of a named query; damaged rows are left out and logged."""
        return self.list_sql(read, self.query(query), values)

    def list_sql(self, read: Callable[[Row], T], sql: str, values: Any) -> list[T]:
        """Return the records of any query; damaged rows are left out and logged."""
        return self.records(read, sql, self.fetch(sql, values), values)

    def records(self, read: Callable[[Row], T], sql: str, rows: list[Row], values: Any) -> list[T]:
        """Return the records of rows that a query has returned; damaged rows are left out and
        logged."""
        records = []
        for row in self._sound(sql, rows, values)[0]:
            # Before the record is made: many keep JSON as it is, and would fail only in its use.
            damage = unsound_json(sql, row, values)
            if damage is not None:
                self.report(damage)
                continue
            try:
                records.append(read(row))
            except UNREADABLE as error:
                self.report(unreadable(sql, row, values, error))
        return records

    def sound_rows(self, query: str, /, **values: object) -> tuple[list[Row], list[RowDamaged]]:
        """Return the sound rows of a named query, and the damage of the others, which is logged."""
        return self.sound_rows_sql(self.query(query), values)

    def sound_rows_sql(self, sql: str, values: Any) -> tuple[list[Row], list[RowDamaged]]:
        """Return the sound rows of any query, and the damage of the others, which is logged."""
        return self._sound(sql, self.fetch(sql, values), values)

    def _sound(self, sql: str, rows: list[Row], values: Any) -> tuple[list[Row], list[RowDamaged]]:
        sound, damaged = sound_rows(sql, rows, values)
        for damage in damaged:
            self.report(damage)
        return sound, damaged

    @property
    def left_out(self) -> list[str]:
        """The damaged rows that were left out so far, as texts."""
        return sorted(self._reported)

    def report(self, damage: RowDamaged) -> None:
        """Log, once per row, that a damaged row is left out."""
        # Lists are read again and again: one warning is enough.
        if str(damage) not in self._reported:
            self._reported.add(str(damage))
            log.warning("left out a damaged row: %s", damage)
