"""An open transaction on a SQLite file, as the operations of a batch see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from holdfast.core.payload import Seal
from holdfast.core.runs import Route
from holdfast.errors import RowDamaged, StoreError
from holdfast.store.database import Hints, MemberOutcome
from holdfast.store.runs.queries import route_values
from holdfast.store.sealing import refusal
from holdfast.store.soundness import checked, sound_rows
from holdfast.store.sqlite import clear_values, sealing
from holdfast.store.sqlite.connection import RELEASE, ROLLBACK_TO, SAVEPOINT, Connection
from holdfast.store.sqlite.dialect import SQL, as_list, large_of, positional, without_large

FEW = 8
"""Below this number, rows are written one by one, which tells for each of them whether it is new.
From this number on, one statement for all of them within a savepoint is faster."""


class SqliteTransaction:
    """An open transaction of the writing connection, as operations see it."""

    __slots__ = (
        "_db",
        "_known_routes",
        "graphs",
        "hints",
        "member_outcomes",
        "new_routes",
        "now",
        "woken_parents",
    )

    def __init__(self, db: Connection, now: int, known_routes: dict[Route, int]) -> None:
        self._db: Connection = db
        self.now: int = now
        self._known_routes: dict[Route, int] = known_routes
        self.hints: Hints = Hints()
        self.member_outcomes: list[MemberOutcome] = []
        self.woken_parents: set[str] = set()
        self.graphs: dict[str, Any] = {}
        self.new_routes: dict[Route, int] = {}

    def rows(self, query: str, **values: object) -> list[Any]:
        sql, in_order = positional(query)
        return checked(sql, self._db.rows(sql, in_order(values)), values)

    def sound_rows(self, query: str, **values: object) -> tuple[list[Any], list[RowDamaged]]:
        sql, in_order = positional(query)
        return sound_rows(sql, self._db.rows(sql, in_order(values)), values)

    def change(self, query: str, **values: object) -> int:
        sql, in_order = positional(query)
        return self._db.change(sql, in_order(values))

    def many(self, query: str, values: Sequence[dict[str, object]]) -> int:
        if not values:
            return 0
        sql, in_order = positional(query)
        return self._db.many(sql, map(in_order, values))

    def together(self, changes: dict[str, list[dict[str, object]]]) -> None:
        for query, values in changes.items():
            self.many(query, values)

    def insert_runs(self, rows: Sequence[dict[str, object]]) -> set[str]:
        new = rows
        if len(rows) < FEW or not self._insert_all(rows):
            new = [row for row in rows if self.change("insert_run", **without_large(row))]
        # In a table of their own: SQLite rewrites the row of a run as a whole at each change.
        self.many("keep_input", large_of(new))
        return {str(row["id"]) for row in new}

    def _insert_all(self, rows: Sequence[dict[str, object]]) -> bool:
        """Create all of these runs and return True; create none and return False if one of them
        exists."""
        self._db.change(SAVEPOINT % "holdfast_many")
        all_new = self.many("insert_run", list(map(without_large, rows))) == len(rows)
        self._db.change(RELEASE % "holdfast_many" if all_new else ROLLBACK_TO % "holdfast_many")
        return all_new

    def route_id(self, route: Route) -> int:
        known = self._known_routes.get(route) or self.new_routes.get(route)
        if known is not None:
            return known
        values = route_values(route)
        if self._db.change(SQL["insert_route"], values):
            self._db.change(SQL["note_last_route"])
        number: int = self._db.rows(SQL["find_route"], values)[0]["id"]
        self.new_routes[route] = number
        self.hints.routes = True
        return number

    def as_list(self, items: Iterable[object]) -> object:
        return as_list(items)

    def call(self, body: Callable[[Any], bytes]) -> bytes:
        data = self._db.call(body)
        if not self._db.in_transaction():  # rolled back by the database, such as on a full disk
            raise StoreError(
                reason="the transaction was rolled back while a transactional step was running"
            )
        return data

    def lock_tables(self) -> None:
        """Do nothing: BEGIN IMMEDIATE has locked out all other writers."""

    def seal(self, seal: Seal) -> None:
        sealing.seal(self._db, refusal(seal))

    def unseal(self) -> None:
        sealing.unseal(self._db)

    def refuse_clear_values(self) -> bool:
        clear_values.refuse_clear_values(self._db)
        return True
