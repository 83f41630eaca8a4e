"""Fenced SQL writes on SQLite and PostgreSQL, on the user's own connection and in the user's
transaction.

``admit`` guards all writes of a transaction. ``update`` and ``upsert`` guard single rows that
belong to one run, by two additional columns. Each statement returns a row only if it passed the
guard, so that the result is the same with every driver.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from holdfast.errors import BadOption, Fenced
from holdfast.fencing.fence import Fence, fence_or_current
from holdfast.store.user_connections import is_asynchronous, unwrapped, unwrapped_async

T = TypeVar("T")

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*\n?")
_PARAMETER = re.compile(r":([A-Za-z0-9_]+)")
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TABLE = re.compile(rf"{_COLUMN.pattern}(\.{_COLUMN.pattern})?")
_parts = _NAME.split(Path(__file__).with_name("fence.sql").read_text("utf-8"))
_SQL = {
    name: _COMMENT.sub("", text).strip()
    for name, text in zip(_parts[1::2], _parts[2::2], strict=True)
}

TABLES = _SQL["tables"]
"""The tables that ``admit`` and ``first`` need: statements for a migration of your own."""
COLUMNS = _SQL["columns"]
"""The columns that ``update`` and ``upsert`` need: ``COLUMNS.format(table="invoice")``."""


class Statement(NamedTuple):
    """A statement with ``:name`` for its values."""

    text: str
    values: Mapping[str, Any]


Row = Sequence[Any] | None
Queries = Generator[Statement, Row, T]
"""A generator of statements to execute one after another; it receives the first row of each, or
None."""


# The statements, written once for all drivers


def _admit(fence: Fence) -> Queries[None]:
    values = {"run_id": fence.run_id, "generation": fence.generation}
    if (yield Statement(_SQL["admit"], values)) is None:
        row = yield Statement(_SQL["admitted"], {"run_id": fence.run_id})
        raise Fenced(run=fence.run_id, generation=fence.generation, newer=row[0] if row else None)


def _first(fence: Fence) -> Queries[bool]:
    yield from _admit(fence)
    values = {"key": fence.key, "run_id": fence.run_id, "generation": fence.generation}
    return (yield Statement(_SQL["first"], values)) is not None


def _update(
    table: str, values: Mapping[str, Any], where: Mapping[str, Any], fence: Fence
) -> Queries[bool]:
    _check_rows(values=values, where=where)
    if not where:
        raise BadOption(option="where", why="name the columns and values that identify the row")
    parameters = {f"new_{name}": value for name, value in values.items()} | {
        f"old_{name}": value for name, value in where.items()
    }
    fields = "".join(f"{_column(name)} = :new_{name}, " for name in values)
    chosen = " AND ".join(f"{_column(name)} = :old_{name}" for name in where)
    row = yield Statement(
        f"UPDATE {_table(table)} SET {fields}fence_run = :run, fence_generation = :generation WHERE"
        f" {chosen} AND (fence_run IS NULL OR (fence_run = :run AND fence_generation <="
        " :generation)) RETURNING 1",
        parameters | _fence_values(fence),
    )
    if row is None:
        yield from _raise_if_fenced(table, where, fence)
    return row is not None


def _upsert(
    table: str, values: Mapping[str, Any], unique: Sequence[str], fence: Fence
) -> Queries[bool]:
    _check_rows(values=values)
    missing = set(unique) - set(values)
    if not unique or missing:
        raise BadOption(
            option="unique",
            value=list(unique),
            why="name the columns, among those of the values, that identify the row",
        )
    fields = {f"new_{name}": value for name, value in values.items()}
    names = [*(_column(name) for name in values), "fence_run", "fence_generation"]
    places = [*(f":{name}" for name in fields), ":run", ":generation"]
    changed = ", ".join(f"{name} = excluded.{name}" for name in names if name not in unique)
    bare_table = table.rpartition(".")[2]
    row = yield Statement(
        f"INSERT INTO {_table(table)} ({', '.join(names)}) VALUES ({', '.join(places)}) ON CONFLICT"
        f" ({', '.join(_column(name) for name in unique)}) DO UPDATE SET {changed} WHERE"
        f" {bare_table}.fence_run IS NULL OR ({bare_table}.fence_run = excluded.fence_run AND"
        f" {bare_table}.fence_generation <= excluded.fence_generation) RETURNING 1",
        fields | _fence_values(fence),
    )
    if row is None:
        yield from _raise_if_fenced(table, {name: values[name] for name in unique}, fence)
    return row is not None


def _raise_if_fenced(table: str, where: Mapping[str, Any], fence: Fence) -> Queries[None]:
    """Raise Fenced if a row that was not written belongs to another run or a newer generation;
    return if it does not exist."""
    chosen = " AND ".join(f"{_column(name)} = :{name}" for name in where)
    row = yield Statement(
        f"SELECT fence_run, fence_generation FROM {_table(table)} WHERE {chosen}", where
    )
    if row is not None:
        owner = {"newer": row[1]} if row[0] == fence.run_id else {"belongs_to": row[0]}
        raise Fenced(table=table, run=fence.run_id, generation=fence.generation, **owner)


def _fence_values(fence: Fence) -> dict[str, Any]:
    return {"run": fence.run_id, "generation": fence.generation}


def _table(name: str) -> str:
    return _checked_name(name, _TABLE, "table")


def _column(name: str) -> str:
    return _checked_name(name, _COLUMN, "column")


def _checked_name(name: str, allowed: re.Pattern[str], kind: str) -> str:
    if not isinstance(name, str) or not allowed.fullmatch(name):
        raise BadOption(
            option="name",
            value=name,
            why=f"the name of a {kind} must consist of letters, digits and _",
        )
    return name


def _check_rows(**options: Any) -> None:
    for option, value in options.items():
        if not isinstance(value, Mapping):
            raise BadOption(option=option, value=value, why="give columns and their values")


# The public functions, each for blocking and for asynchronous connections


def admit(connection: Any, fence: Fence | None = None) -> None:
    """Raise Fenced if a newer generation of the run was admitted before. Call it before the writes
    of a transaction; it guards all of them. Needs ``TABLES``."""
    _run(connection, _admit(fence_or_current(fence)))


async def admit_aio(connection: Any, fence: Fence | None = None) -> None:
    """``admit`` on an asynchronous connection."""
    await _run_aio(connection, _admit(fence_or_current(fence)))


def first(connection: Any, fence: Fence | None = None) -> bool:
    """Call ``admit``, and return whether the key of the fence is used for the first time: False if
    an earlier attempt has committed. Needs ``TABLES``. Raises Fenced."""
    return _run(connection, _first(fence_or_current(fence)))


async def first_aio(connection: Any, fence: Fence | None = None) -> bool:
    """``first`` on an asynchronous connection."""
    return await _run_aio(connection, _first(fence_or_current(fence)))


def update(
    connection: Any,
    table: str,
    values: Mapping[str, Any],
    *,
    where: Mapping[str, Any],
    fence: Fence | None = None,
) -> bool:
    """Change a row that belongs to this run or to no run yet; return False if the row does not
    exist. Needs ``COLUMNS``. Raises Fenced."""
    return _run(connection, _update(table, values, where, fence_or_current(fence)), alone=True)


async def update_aio(
    connection: Any,
    table: str,
    values: Mapping[str, Any],
    *,
    where: Mapping[str, Any],
    fence: Fence | None = None,
) -> bool:
    """``update`` on an asynchronous connection."""
    return await _run_aio(
        connection, _update(table, values, where, fence_or_current(fence)), alone=True
    )


def upsert(
    connection: Any,
    table: str,
    values: Mapping[str, Any],
    *,
    unique: Sequence[str],
    fence: Fence | None = None,
) -> None:
    """Insert a row that belongs to this run, or replace its values if the row exists. Needs
    ``COLUMNS``. Raises Fenced."""
    _run(connection, _upsert(table, values, unique, fence_or_current(fence)), alone=True)


async def upsert_aio(
    connection: Any,
    table: str,
    values: Mapping[str, Any],
    *,
    unique: Sequence[str],
    fence: Fence | None = None,
) -> None:
    """``upsert`` on an asynchronous connection."""
    await _run_aio(connection, _upsert(table, values, unique, fence_or_current(fence)), alone=True)


# Drivers


def _run(connection: Any, queries: Queries[T], *, alone: bool = False) -> T:
    if is_asynchronous(connection):
        raise BadOption(
            option="connection",
            why="it is asynchronous: await the function whose name ends in _aio",
        )
    raw = unwrapped(connection)
    driver = _driver(raw)
    statement = next(queries)
    try:
        while True:
            text, values = _for_driver(statement, driver)
            rows = raw.execute(text, values).fetchall()
            # after the statement, because drivers begin a transaction with its first statement
            _check_in_transaction(raw, driver, alone)
            statement = queries.send(_first_of(rows))
    except StopIteration as end:
        result: T = end.value
        return result


async def _run_aio(connection: Any, queries: Queries[T], *, alone: bool = False) -> T:
    raw = await unwrapped_async(connection)
    driver = _driver(raw)
    statement = next(queries)
    try:
        while True:
            text, values = _for_driver(statement, driver)
            if driver == "asyncpg":
                rows = await raw.fetch(text, *values)
            else:
                rows = await (await raw.execute(text, values)).fetchall()
            _check_in_transaction(raw, driver, alone)
            statement = queries.send(_first_of(rows))
    except StopIteration as end:
        result: T = end.value
        return result


def _first_of(rows: Iterable[Any]) -> Row:
    """Return the first row as a sequence, also if the connection returns rows as dictionaries."""
    row: Any = next(iter(rows), None)
    if isinstance(row, dict):
        return tuple(row.values())
    first: Row = row
    return first


_MARKS = {"sqlite3": "?", "apsw": "?", "aiosqlite": "?", "psycopg": "%s", "asyncpg": "$"}


def _driver(raw: Any) -> str:
    driver = next(
        (
            name
            for kind in type(raw).__mro__
            if (name := kind.__module__.partition(".")[0]) in _MARKS
        ),
        None,
    )
    if driver is None:
        known = ", ".join(_MARKS)
        raise BadOption(
            option="connection",
            value=type(raw).__name__,
            known=f"{known}, and SQLAlchemy over them",
        )
    return driver


def _for_driver(statement: Statement, driver: str) -> tuple[str, list[Any]]:
    """Return the text of a statement with the placeholders of a driver, and its values in order."""
    names = _PARAMETER.findall(statement.text)
    mark = _MARKS[driver]
    count = iter(range(1, len(names) + 1))
    text = _PARAMETER.sub(lambda _: f"${next(count)}" if mark == "$" else mark, statement.text)
    return text, [statement.values[name] for name in names]


def _check_in_transaction(raw: Any, driver: str, alone: bool) -> None:
    """Raise BadOption if the connection is not in a transaction, unless the statement stands
    *alone*: without one, the guard does not cover the writes that follow it."""
    if alone:
        return
    if driver == "asyncpg":
        in_transaction = raw.is_in_transaction()
    elif driver == "psycopg":
        in_transaction = raw.info.transaction_status.name != "IDLE"
    else:
        in_transaction = raw.in_transaction
    if not in_transaction:
        raise BadOption(
            option="connection",
            why="begin a transaction first: later writes outside it would not be guarded",
        )
