"""Detect damaged rows: the values that each column may hold, and the error for a row with others.

A file can be damaged by a failing disk, a bad restore or a careless `UPDATE`; SQLite accepts text
in a column of numbers. Every row that a store reads is checked here before any other code sees it.
A row that cannot be right becomes `RowDamaged`, which names the table, the row and the column.
Lists leave such rows out, single reads raise the error, operations set the row aside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core import duration
from holdfast.errors import RowDamaged
from holdfast.store.schema import ColumnShape, TableShape, schema, shown
from holdfast.store.stored_json import JSON, unreadable_json, wrong_json

MISSING = "the value is missing"

LONGEST_KEY = 300
"""How many characters of a key an error shows."""


_NAMED = re.compile(r"\bholdfast[._](\w+)")


class QueryShape:
    """The columns of one query's rows, and the check of a row.

    A row is checked by the types of its values and by its words. The combinations that passed
    before are cached, so that the check costs about a microsecond.
    """

    __slots__ = ("_columns", "_known", "_times", "_words", "json", "names", "table")

    def __init__(self, sql: str, names: Sequence[str]) -> None:
        tables = [schema()[name] for name in dict.fromkeys(_NAMED.findall(sql)) if name in schema()]
        self.table = _main_table(sql, tables)
        self.names = tuple(names)
        kinds = JSON.get(self.table.name, {}) if self.table is not None else {}
        self.json = tuple((name, kind) for name, kind in kinds.items() if name in self.names)
        """The columns of the main table that hold JSON of the engine, each with its type."""
        self._columns = [
            _merged(name, [table.columns[name] for table in tables if name in table.columns])
            for name in names
        ]
        self._words = tuple(
            index
            for index, column in enumerate(self._columns)
            if column is not None and column.words is not None
        )
        self._times = tuple(
            index
            for index, column in enumerate(self._columns)
            if column is not None and column.is_judged_each_time
        )
        self._known: set[tuple[object, ...]] = set()

    def is_sound(self, cells: Sequence[Any]) -> bool:
        """Return whether the columns may hold these values."""
        # Types and words repeat from row to row, so most rows are checked by one lookup in a set.
        signature = (*map(type, cells), *[cells[index] for index in self._words])
        if signature in self._known:
            # Not part of the signature, because instants differ in every row.
            for index in self._times:
                value = cells[index]
                if value is not None and not 0 <= value <= duration.LAST_INSTANT:
                    return False
            return True
        if self.wrong(cells) is not None:
            return False
        self._known.add(signature)
        return True

    def wrong(self, cells: Sequence[Any]) -> tuple[str, str] | None:
        """Return the first column whose value cannot be right, and the reason; None if
        all may be."""
        for name, column, value in zip(self.names, self._columns, cells, strict=True):
            why = None if column is None else column.wrong(value)
            if why is not None:
                return name, why
        return None

    def damage(self, cells: Sequence[Any], values: Mapping[str, object]) -> RowDamaged:
        """Return the error for a damaged row that a query with these values has returned."""
        column, why = self.wrong(cells) or ("?", "the row cannot be read")
        place = place_of(self.table, {**values, **dict(zip(self.names, cells, strict=True))})
        return damaged(self.table.name if self.table else "?", place, column, why)


def _main_table(sql: str, tables: list[TableShape]) -> TableShape | None:
    """Return the table after the outermost FROM of a query, or the first one that it names."""
    # Two levels of parentheses are removed: subqueries, and calls within them.
    outer = re.sub(r"\([^()]*\)", "", re.sub(r"\([^()]*\)", "", sql))
    match = re.search(r"\bFROM holdfast[._](\w+)", outer)
    named = schema().get(match[1]) if match else None
    return named or (tables[0] if tables else None)


def _merged(name: str, columns: Sequence[ColumnShape]) -> ColumnShape | None:
    """Return the shape of a result column that several tables of the query have."""
    if len(columns) < 2:
        return columns[0] if columns else None
    words = (
        None
        if any(column.words is None for column in columns)
        else frozenset().union(*(column.words or () for column in columns))
    )
    return ColumnShape(
        name,
        frozenset().union(*(column.types for column in columns)),
        all(column.is_time for column in columns),
        words,
    )


_ALIASES = {
    "id": ("run_id", "gate_id", "flow_id", "graph_id", "session_id"),
    "run_id": ("id",),
    "budget": ("name",),
}


def place_of(table: TableShape | None, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of the key of a row, as far as the query has returned them."""
    if table is None:
        return {}
    place: dict[str, Any] = {}
    for name in table.key:
        column = next((alias for alias in (name, *_ALIASES.get(name, ())) if alias in row), None)
        if column is not None:
            place[name] = row[column]
    if "run_id" in table.columns and "run_id" in row:
        place.setdefault("run_id", row["run_id"])
    return place


def damaged(table: str, place: dict[str, Any], column: str, why: str) -> RowDamaged:
    """Return the error for a row with a column that cannot be right."""
    return RowDamaged(
        table=table, key=" ".join(map(_plain, place.values())), column=column, why=why, place=place
    )


def without_route(run_id: str, route_id: int) -> RowDamaged:
    """Return the error for a run whose route was deleted, so that its workflow is unknown."""
    return damaged("run", {"id": run_id}, "route_id", f"the route {route_id} does not exist")


def _plain(value: object) -> str:
    """Return a part of a key in full, so that it can be searched for; a very long text is cut."""
    if not isinstance(value, str):
        return shown("", value)
    return value if len(value) <= LONGEST_KEY else f"{value[:LONGEST_KEY]}..."


_shapes: dict[str, QueryShape] = {}


def cells_of(row: Any) -> tuple[Any, ...]:
    """Return the values of a row of either driver."""
    return tuple(row.values()) if type(row) is dict else tuple(row)


def shape_of(sql: str, row: Any) -> QueryShape:
    """Return the cached shape of the rows of *sql*; *row* is one of them."""
    shape = _shapes.get(sql)
    if shape is None:
        shape = _shapes[sql] = QueryShape(sql, list(row.keys()))
    return shape


def checked(sql: str, rows: list[Any], values: Any = ()) -> list[Any]:
    """Return the rows of *sql*. Raises RowDamaged if one of them is damaged."""
    if not rows:
        return rows
    shape = shape_of(sql, rows[0])
    for row in rows:
        cells = cells_of(row)
        if not shape.is_sound(cells):
            raise shape.damage(cells, _parameters(values))
    return rows


def sound_rows(sql: str, rows: list[Any], values: Any = ()) -> tuple[list[Any], list[RowDamaged]]:
    """Return the sound rows of *sql*, and the errors for the damaged ones."""
    if not rows:
        return rows, []
    shape = shape_of(sql, rows[0])
    # Fast path: rows are hardly ever damaged, so the list is built a second time only then.
    damaged_cells = [cells for row in rows if not shape.is_sound(cells := cells_of(row))]
    if not damaged_cells:
        return rows, []
    sound = [row for row in rows if shape.is_sound(cells_of(row))]
    return sound, [shape.damage(cells, _parameters(values)) for cells in damaged_cells]


def _parameters(values: Any) -> Mapping[str, object]:
    """Return the named parameters of a query; none if they were given by position."""
    return values if isinstance(values, dict) else {}


def as_mapping(row: Any) -> dict[str, Any]:
    """Return a row by the names of its columns."""
    return row if type(row) is dict else dict(zip(row.keys(), row, strict=True))


def described(damage: RowDamaged) -> str:
    """Return a line with the place of a damaged row and the reason."""
    facts = damage.facts
    return (
        f"damaged row in {facts['table']}: {facts['key']}, column {facts['column']}: {facts['why']}"
    )


def missing_values(table: TableShape, row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the columns of a row that hold NULL although they must not."""
    return (
        name
        for name, value in row.items()
        if value is None and name in table.columns and table.columns[name].required
    )


def whole(table_name: str, rows: list[Any]) -> list[Any]:
    """Return rows of a table. Raises RowDamaged if a required value is missing: a damaged file can
    hold NULL where its own schema forbids it."""
    table = schema()[table_name]
    for row in rows:
        cells = as_mapping(row)
        for name in missing_values(table, cells):
            raise damaged(table.name, place_of(table, cells), name, MISSING)
    return rows


def unsound_json(sql: str, row: Any, values: Any) -> RowDamaged | None:
    """Return the error for a row whose JSON cannot be read; None if it can."""
    shape = shape_of(sql, row)
    table = shape.table
    if table is None:
        return None
    for name, kind in shape.json:
        value = row[name]
        if value is None:
            continue
        why = unreadable_json(table.name, name, value, kind)
        if why is not None:
            place = place_of(table, {**_parameters(values), **as_mapping(row)})
            return damaged(table.name, place, name, why)
    return None


def unreadable(sql: str, row: Any, values: Any, error: Exception) -> RowDamaged:
    """Return the error for a row whose values cannot be turned into a record."""
    shape = shape_of(sql, row)
    cells = dict(zip(shape.names, cells_of(row), strict=True))
    table = shape.table
    place = place_of(table, {**_parameters(values), **cells})
    column, why = next(
        iter(wrong_json(table.name if table else "", cells)),
        ("?", f"{type(error).__name__}: {error}"),
    )
    return damaged(table.name if table else "?", place, column, why)


UNREADABLE = (
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    IndexError,
    OverflowError,
    msgspec.MsgspecError,
    RecursionError,
)
"""The exceptions of code that receives impossible values."""
