"""Start runs within the user's own transaction, on the user's connection to the same file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.core.runs import Route
from holdfast.errors import BadOption, RowDamaged, StoreBusy
from holdfast.store.database import Hints, MemberOutcome
from holdfast.store.runs.queries import route_values
from holdfast.store.soundness import checked, sound_rows
from holdfast.store.sqlite.connection import Connection, WriteLockBusy, translate
from holdfast.store.sqlite.dialect import SQL, as_list, large_of, without_large
from holdfast.store.sqlite.library_check import WHY
from holdfast.store.user_connections import LoopBoundConnection, is_asynchronous, unwrapped

SAVEPOINT = "start_of_runs"
"""Without the prefix of Holdfast's own savepoints, which are refused on a connection that is lent
to a step."""


class SqliteUserTransaction:
    """The caller's transaction, as operations see it."""

    def __init__(self, connection: Any, ours: Connection, now: int) -> None:
        self._raw: Any = _raw(connection)
        self._path: str = ours.path
        self.now: int = now
        self.hints: Hints = Hints()
        self.member_outcomes: list[MemberOutcome] = []
        self.woken_parents: set[str] = set()
        self.graphs: dict[str, Any] = {}
        if not isinstance(self._raw, ours.api):
            raise BadOption(
                option="connection", why=f"the connection is not one of {ours.kind}, and {WHY}"
            )
        files = {
            os.path.realpath(row["file"])
            for row in self._execute("PRAGMA database_list", ())
            if row["file"]
        }
        if os.path.realpath(self._path) not in files:
            raise BadOption(
                option="connection",
                why=f"the connection is open on another database than {self._path}",
            )

    def __enter__(self) -> SqliteUserTransaction:
        if not self._raw.in_transaction:
            if getattr(self._raw, "isolation_level", None) is None:
                raise BadOption(
                    option="connection",
                    why="the connection has no open transaction: begin one before you start runs",
                )
            self._execute("BEGIN", ())  # as sqlite3 does by itself before the first write
        self._execute(f"SAVEPOINT {SAVEPOINT}", ())
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if not self._raw.in_transaction:
            return  # the database itself has rolled everything back
        if kind is not None:
            self._execute(f"ROLLBACK TO {SAVEPOINT}", ())
        self._execute(f"RELEASE {SAVEPOINT}", ())

    def rows(self, query: str, **values: object) -> list[Any]:
        return checked(SQL[query], self._execute(SQL[query], values), values)

    def sound_rows(self, query: str, **values: object) -> tuple[list[Any], list[RowDamaged]]:
        return sound_rows(SQL[query], self._execute(SQL[query], values), values)

    def change(self, query: str, **values: object) -> int:
        before = self._total_changes()
        self._execute(SQL[query], values)
        return self._total_changes() - before

    def many(self, query: str, values: Sequence[dict[str, object]]) -> int:
        return sum(self.change(query, **row) for row in values)

    def together(self, changes: dict[str, list[dict[str, object]]]) -> None:
        for query, values in changes.items():
            self.many(query, values)

    def insert_runs(self, rows: Sequence[dict[str, object]]) -> set[str]:
        new = [row for row in rows if self.change("insert_run", **without_large(row))]
        self.many("keep_input", large_of(new))
        return {str(row["id"]) for row in new}

    def route_id(self, route: Route) -> int:
        if self.change("insert_route", **route_values(route)):
            self.change("note_last_route")
        number: int = self.rows("find_route", **route_values(route))[0]["id"]
        return number

    def as_list(self, items: Iterable[object]) -> object:
        return as_list(items)

    def _total_changes(self) -> int:
        changes: int = self._execute("SELECT total_changes() AS changes", ())[0]["changes"]
        return changes

    def _execute(self, sql: str, values: Any) -> list[Any]:
        """Execute on a new cursor without a row factory, so that rows are tuples however the user
        has configured the connection."""
        cursor = self._raw.cursor()
        if hasattr(cursor, "row_factory"):
            cursor.row_factory = None
        try:
            cursor.execute(sql, values)
            first = cursor.fetchone()
            if first is None:
                return []
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in (first, *cursor.fetchall())]
        except Exception as error:
            try:
                translate(error, self._path)
            except WriteLockBusy:
                raise StoreBusy(path=self._path) from error


def _raw(connection: Any) -> Any:
    """Return the driver's connection behind one of sqlite3, apsw or SQLAlchemy. Raises
    BadOption."""
    if isinstance(connection, LoopBoundConnection):
        raise BadOption(
            option="connection",
            why=(
                "the connection is asynchronous: a SQLite file takes a blocking one of sqlite3,"
                " apsw or SQLAlchemy"
            ),
        )
    raw = unwrapped(connection)
    if not all(hasattr(raw, name) for name in ("cursor", "in_transaction")) or is_asynchronous(raw):
        kind = f"{type(raw).__module__}.{type(raw).__name__}"
        why = (
            f"{kind} is not accepted: give a connection of sqlite3 or apsw, or a connection or"
            " session of SQLAlchemy over sqlite3"
        )
        raise BadOption(option="connection", why=why)
    return raw
