"""Finding damaged rows: those that hold up a transition, and, for `db check`, all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.core.graphs.model import graph_of
from holdfast.errors import BadOption, HoldfastError, RowDamaged
from holdfast.store.contract import Operation
from holdfast.store.contract.graphs import ResolveGraphs
from holdfast.store.contract.reading import CheckProgress
from holdfast.store.contract.runs import SetAside
from holdfast.store.instants import wrong_instants
from holdfast.store.reading.asking import Queries
from holdfast.store.soundness import (
    JSON,
    UNREADABLE,
    VALUES,
    ColumnShape,
    TableShape,
    as_dict,
    damaged,
    described,
    place_of,
    schema,
    wrong_json,
    wrong_values,
    wrongs,
)
from holdfast.store.unstorable import translate_error

PORTION = 5000
"""How many rows are read at once."""

MOST_SET_ASIDE = 1000
"""How many times one transition is tried around damaged rows."""

_VALUES = frozenset({"frame", "payload_part", "large_input", "tag"})
"""What no transition decides by: only `db check` looks there."""


class DamageQueries(Queries):
    """What can be asked about damaged rows."""

    _dialect: str
    _garbled: type[Exception] | tuple[type[Exception], ...]
    """What the driver raises when the database cannot compute with a value."""

    def _apply_around_damage(self, op: Operation, error: Exception) -> Any:
        """Answer a transition that has failed. The damaged rows that it met are set aside, and it
        is tried again: so it goes on without them. Raises what has nothing to do with damage."""
        if isinstance(op, ResolveGraphs):
            return self._settle_around_damage(op, error)
        for _ in range(MOST_SET_ASIDE):
            damages = self._damages_behind(error, op)
            if not damages:
                raise translate_error(error, op) from error
            if isinstance(op, SetAside) or not self._only(SetAside(damages)):
                if isinstance(
                    translate_error(error, op), BadOption
                ):  # all damage was aside before: the caller gave that number
                    raise translate_error(error, op) from error
                return damages[0]
            try:
                return self._only(op)
            except Exception as again:
                error = again
        return RowDamaged(why="very many rows are damaged")

    def _settle_around_damage(self, op: ResolveGraphs, error: Exception) -> Any:
        """Settle all graphs but those that have a damaged row: their news stay until it is
        repaired."""
        aside: dict[str, str] = {}
        for _ in range(MOST_SET_ASIDE):
            damages = self._damages_behind(error, op)
            found = {graph_id: str(one) for one in damages for graph_id in _graphs_of(one)}
            if not damages or found.keys() <= aside.keys():
                raise translate_error(error, op) from error
            aside |= found
            try:
                settled = self._only(msgspec.structs.replace(op, without=[*op.without, *aside]))
            except Exception as again:
                error = again
            else:
                settled.left |= aside
                return settled
        return RowDamaged(why="very many graphs are damaged")

    def _answer_to(self, op: Operation, error: Exception) -> Any:
        """The same, for one of several: what has nothing to do with damage is its answer."""
        try:
            return self._apply_around_damage(op, error)
        except Exception as refused:
            return refused

    def _only(self, op: Operation) -> Any:
        """Apply a transition in a transaction of its own."""
        raise NotImplementedError

    def _damages_behind(self, error: Exception, op: Operation) -> list[RowDamaged]:
        """Return the damaged rows that an error may come from."""
        if isinstance(error, RowDamaged):
            return [error]
        if getattr(op, "body", None) is not None:
            return []
        if isinstance(error.__cause__ if isinstance(error, BadOption) else error, OverflowError):
            # a number that was read has no room to grow, unless the caller gave one that is too
            # large
            return self.damaged()
        if isinstance(translate_error(error, op), HoldfastError):
            return []
        return self.damaged() if isinstance(error, (*UNREADABLE, self._garbled)) else []

    def damaged(self) -> list[RowDamaged]:
        """Return the damaged rows of all tables that transitions decide by."""
        return [
            damage
            for table in self._tables()
            if table.name not in _VALUES
            for damage in self._damaged_in(table)
        ]

    def damaged_rows(self, progress: CheckProgress | None = None) -> Iterator[RowDamaged]:
        """Yield the damaged rows of all tables, each of which is read as a whole, in portions."""
        tables = self._tables()
        if not self._rows("setting", name="installation"):
            yield damaged("setting", {"name": "installation"}, "name", "the row is missing")
        for number, table in enumerate(tables):
            if progress is not None:
                progress(number, len(tables))
            for row in self._portions(table, tuple(table.columns)):
                yield from wrongs(table, row)
                yield from wrong_instants(table.name, row, self.now())

    def damaged_values(self) -> list[str]:
        """Say of each value of a user, where it is not sealed, that is no JSON, where it is."""
        found: list[RowDamaged] = []
        for table in self._tables():
            for row in self._portions(table, VALUES.get(table.name, ())):
                found += wrong_values(table, row)
        return [described(one) for one in found]

    def _portions(self, table: TableShape, columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        """Yield all rows of a table, with these columns."""
        if not columns:
            return
        key = table.key or tuple(table.columns)
        order = ", ".join(key)
        select = f"SELECT {', '.join(dict.fromkeys((*key, *columns)))} FROM holdfast.{table.name}"
        after = f" WHERE ({order}) > ({', '.join(f':{name}' for name in key)})"
        last: dict[str, Any] = {}
        while True:
            sql = f"{select}{after if last else ''} ORDER BY {order} LIMIT {PORTION}"
            rows = [as_dict(row) for row in self._fetch(self._spelled(sql), last)]
            yield from rows
            ends = [
                row
                for row in rows
                if all(table.columns[name].wrong(row[name]) is None for name in key)
            ]
            if len(rows) < PORTION or not ends:
                return
            last = {name: ends[-1][name] for name in key}

    def _tables(self) -> list[TableShape]:
        return list(schema(self._dialect).values())

    def _damaged_in(self, table: TableShape) -> Iterator[RowDamaged]:
        """Yield the damaged rows of a table: what SQL can tell, and JSON that cannot be read."""
        yield from self._out_of_place(table)
        names = [name for name in JSON.get(table.name, ()) if name in table.columns]
        if names:
            wanted = ", ".join(dict.fromkeys((*table.key, *names)))
            some = " OR ".join(f"{name} IS NOT NULL" for name in names)
            for row in self._fetch(
                self._spelled(f"SELECT {wanted} FROM holdfast.{table.name} WHERE {some}")
            ):
                found = as_dict(row)
                for column, why in wrong_json(table.name, found):
                    yield damaged(table.name, place_of(table, found), column, why)

    def _out_of_place(self, table: TableShape) -> Iterator[RowDamaged]:
        tests = [
            test for column in table.columns.values() for test in _tests(column, self._dialect)
        ]
        if not tests:
            return
        live = (
            "run_id IN (SELECT id FROM holdfast.run WHERE finished_at IS NULL) AND "
            if table.name == "event"
            else ""
        )
        sql = (
            f"SELECT {', '.join(table.columns)} FROM holdfast.{table.name} WHERE"
            f" {live}({' OR '.join(tests)})"
        )
        for row in self._fetch(self._spelled(sql)):
            yield from wrongs(table, as_dict(row))


def _graphs_of(damage: RowDamaged) -> set[str]:
    """Return the graphs that a damaged row belongs to."""
    texts = [value for value in damage.place.values() if isinstance(value, str)]
    if damage.facts.get("table") == "graph":
        return set(texts)
    return {graph_id for text in texts if (graph_id := graph_of(text)) is not None}


def _tests(column: ColumnShape, dialect: str) -> Iterator[str]:
    """Yield conditions that are true of values that cannot be in a column."""
    name = column.name
    kinds = {"int": "integer", "str": "text", "bytes": "blob", "float": "real"}
    if dialect == "sqlite":
        allowed = [
            kinds[one.__name__] for one in sorted(column.types, key=str) if one.__name__ in kinds
        ]
        if not column.required:
            allowed.append("null")
        yield f"typeof({name}) NOT IN ({', '.join(map(repr, allowed))})"
    if int in column.types and float not in column.types:
        least, most = column.span
        yield f"{name} NOT BETWEEN {least} AND {most}"
    if column.words is not None:
        yield f"{name} NOT IN ({', '.join(repr(str(word)) for word in sorted(column.words))})"
