"""Find damaged rows: rows behind a failed operation and, for `db check`, all of them.

A damaged row must not block other work. An operation that fails because of damaged rows is applied
again after SetAside has set them aside.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import msgspec

from holdfast.core.graphs.model import graph_of
from holdfast.errors import BadOption, HoldfastError, RowDamaged
from holdfast.store.database import CheckProgress, Operation, RowSource
from holdfast.store.graphs.operations import ResolveGraphs
from holdfast.store.instants import wrong_instants
from holdfast.store.reader import Reader
from holdfast.store.row_checks import wrong_values, wrongs
from holdfast.store.rows import values_of
from holdfast.store.runs.operations import SetAside
from holdfast.store.schema import ColumnShape, TableShape, schema
from holdfast.store.soundness import UNREADABLE, as_mapping, damaged, described, place_of
from holdfast.store.stored_json import JSON, VALUES, wrong_json
from holdfast.store.unstorable import translate_error

PORTION = 5000
"""How many rows are read by one query."""

MOST_SET_ASIDE = 1000
"""How often one operation is tried again because of damaged rows."""

_VALUES = frozenset({"frame", "payload_part", "large_input", "tag"})
"""Tables on which no operation bases a decision: only `db check` reads them for damage."""


class DamageBypass:
    """Applies an operation again that has met damaged rows, after they were set aside."""

    def __init__(self, source: RowSource, apply_alone: Callable[[Operation], Any]) -> None:
        self._queries: DamageQueries = DamageQueries(Reader(source))
        self._garbled: tuple[type[Exception], ...] = source.dialect.garbled
        self._apply_alone: Callable[[Operation], Any] = apply_alone
        """Applies an operation in a transaction of its own."""

    def apply(self, op: Operation, error: Exception) -> Any:
        """Return the answer to an operation that has failed with *error*.

        Set the damaged rows behind the error aside and apply the operation again, until it succeeds
        without them. Raises an error that has nothing to do with damage.
        """
        if isinstance(op, ResolveGraphs):
            return self._resolve_around_damage(op, error)
        for _ in range(MOST_SET_ASIDE):
            damages = self._damages_behind(error, op)
            if not damages:
                raise translate_error(error, op) from error
            if isinstance(op, SetAside) or not self._apply_alone(SetAside(damages)):
                # All damaged rows were set aside before, so BadOption is about a number that the
                # caller gave.
                if isinstance(translate_error(error, op), BadOption):
                    raise translate_error(error, op) from error
                return damages[0]
            try:
                return self._apply_alone(op)
            except Exception as again:
                error = again
        return RowDamaged(why=f"the operation met damaged rows {MOST_SET_ASIDE} times")

    def _resolve_around_damage(self, op: ResolveGraphs, error: Exception) -> Any:
        """Resolve all graphs except those with a damaged row: their member outcomes stay in the
        outbox until the row is repaired."""
        skipped: dict[str, str] = {}
        for _ in range(MOST_SET_ASIDE):
            damages = self._damages_behind(error, op)
            damaged_graphs = {
                graph_id: str(damage) for damage in damages for graph_id in _graphs_of(damage)
            }
            if not damages or damaged_graphs.keys() <= skipped.keys():
                raise translate_error(error, op) from error
            skipped |= damaged_graphs
            try:
                resolved = self._apply_alone(
                    msgspec.structs.replace(op, without=[*op.without, *skipped])
                )
            except Exception as again:
                error = again
            else:
                resolved.left |= skipped
                return resolved
        return RowDamaged(why=f"the operation met damaged graphs {MOST_SET_ASIDE} times")

    def answer_to(self, op: Operation, error: Exception) -> Any:
        """Return the answer to an operation of a batch that has failed; an error that has nothing
        to do with damage is its answer."""
        try:
            return self.apply(op, error)
        except Exception as refused:
            return refused

    def _damages_behind(self, error: Exception, op: Operation) -> list[RowDamaged]:
        """Return the damaged rows that may have caused an error; [] if none can have."""
        if isinstance(error, RowDamaged):
            return [error]
        # User code may raise any of these errors by itself.
        if getattr(op, "body", None) is not None:
            return []
        if isinstance(error.__cause__ if isinstance(error, BadOption) else error, OverflowError):
            # A stored number has no room to grow, unless the caller gave one that is too large.
            return self._queries.damaged()
        if isinstance(translate_error(error, op), HoldfastError):
            return []
        return self._queries.damaged() if isinstance(error, (*UNREADABLE, *self._garbled)) else []


class DamageQueries:
    """Queries about damaged rows."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def damaged(self) -> list[RowDamaged]:
        """Return the damaged rows of all tables on which operations base decisions."""
        return [
            damage
            for table in self._tables()
            if table.name not in _VALUES
            for damage in self._damaged_in(table)
        ]

    def filled_tables(self) -> frozenset[str]:
        """Return the tables that have rows, in one statement: most tables of most databases are
        empty, and to prepare a statement for each costs more than to execute it."""
        names = [table.name for table in self._tables()]
        parts = ", ".join(
            f"EXISTS (SELECT 1 FROM holdfast.{name}) AS filled_{number}"
            for number, name in enumerate(names)
        )
        # A damaged table may fail the statement for all: then each of them is read.
        try:
            (row,) = self._reader.fetch(self._reader.spelled(f"SELECT {parts}"))
        except self._reader.dialect.garbled:
            return frozenset(names)
        return frozenset(
            name for name, is_filled in zip(names, values_of(row), strict=True) if is_filled
        )

    def damaged_rows(
        self, progress: CheckProgress | None = None, *, tables: Collection[str] | None = None
    ) -> Iterator[RowDamaged]:
        """Yield the damaged rows of all tables, or of the named ones. Every table is read
        completely, in portions."""
        shapes = [shape for shape in self._tables() if tables is None or shape.name in tables]
        if not self._reader.rows("setting", name="installation"):
            yield damaged("setting", {"name": "installation"}, "name", "the row is missing")
        for number, table in enumerate(shapes):
            if progress is not None:
                progress(number, len(shapes))
            for row in self._portions(table, tuple(table.columns)):
                yield from wrongs(table, row)
                yield from wrong_instants(table.name, row, self._reader.now())

    def damaged_values(self) -> list[str]:
        """Describe each user value that is neither sealed nor JSON."""
        damages: list[RowDamaged] = []
        for table in self._tables():
            for row in self._portions(table, VALUES.get(table.name, ())):
                damages += wrong_values(table, row)
        return [described(damage) for damage in damages]

    def _portions(self, table: TableShape, columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        """Yield all rows of a table, with these columns and the key. Stops early if a whole portion
        has damaged keys, because the next one would have no place to start."""
        if not columns:
            return
        key = table.key or tuple(table.columns)
        order = ", ".join(key)
        select = f"SELECT {', '.join(dict.fromkeys((*key, *columns)))} FROM holdfast.{table.name}"
        after = f" WHERE ({order}) > ({', '.join(f':{name}' for name in key)})"
        last: dict[str, Any] = {}
        while True:
            sql = f"{select}{after if last else ''} ORDER BY {order} LIMIT {PORTION}"
            rows = [as_mapping(row) for row in self._reader.fetch(self._reader.spelled(sql), last)]
            yield from rows
            with_sound_key = [
                row
                for row in rows
                if all(table.columns[name].wrong(row[name]) is None for name in key)
            ]
            if len(rows) < PORTION or not with_sound_key:
                return
            # From the last sound key on: a damaged one may compare as larger than all others.
            last = {name: with_sound_key[-1][name] for name in key}

    def _tables(self) -> list[TableShape]:
        return list(schema(self._reader.dialect.name).values())

    def _damaged_in(self, table: TableShape) -> Iterator[RowDamaged]:
        """Yield the damaged rows of a table that SQL can find, and those with unreadable JSON."""
        yield from self._violations(table)
        names = [name for name in JSON.get(table.name, ()) if name in table.columns]
        if names:
            columns = ", ".join(dict.fromkeys((*table.key, *names)))
            has_json = " OR ".join(f"{name} IS NOT NULL" for name in names)
            for row in self._reader.fetch(
                self._reader.spelled(
                    f"SELECT {columns} FROM holdfast.{table.name} WHERE {has_json}"
                )
            ):
                cells = as_mapping(row)
                for column, why in wrong_json(table.name, cells):
                    yield damaged(table.name, place_of(table, cells), column, why)

    def _violations(self, table: TableShape) -> Iterator[RowDamaged]:
        """Yield the rows with a value that a column must not hold. Of events, only those of runs
        that have not ended: no operation reads the others."""
        tests = [
            test
            for column in table.columns.values()
            for test in _tests(column, self._reader.dialect.name)
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
        for row in self._reader.fetch(self._reader.spelled(sql)):
            yield from wrongs(table, as_mapping(row))


def _graphs_of(damage: RowDamaged) -> set[str]:
    """Return the ids of the graphs to which a damaged row belongs."""
    texts = [value for value in damage.place.values() if isinstance(value, str)]
    # A row of a member or an edge names runs, from whose ids the graph is read: its own columns may
    # be the damaged ones.
    if damage.facts.get("table") == "graph":
        return set(texts)
    return {graph_id for text in texts if (graph_id := graph_of(text)) is not None}


def _tests(column: ColumnShape, dialect: str) -> Iterator[str]:
    """Yield SQL conditions that are true for values that a column must not hold."""
    name = column.name
    kinds = {"int": "integer", "str": "text", "bytes": "blob", "float": "real"}
    if dialect == "sqlite":
        allowed = [
            kinds[kind.__name__] for kind in sorted(column.types, key=str) if kind.__name__ in kinds
        ]
        if not column.required:
            allowed.append("null")
        yield f"typeof({name}) NOT IN ({', '.join(map(repr, allowed))})"
    if int in column.types and float not in column.types:
        least, most = column.span
        yield f"{name} NOT BETWEEN {least} AND {most}"
    if column.words is not None:
        yield f"{name} NOT IN ({', '.join(repr(str(word)) for word in sorted(column.words))})"
