"""SQL that an old generation cannot pass, on SQLite and PostgreSQL, on the user's own connection
and in their transaction.

``admit`` guards all that a transaction writes. ``update`` and ``upsert`` guard single rows that
belong to one run, by two columns of their own. Each statement says by what it returns whether it
passed, so that every driver can tell.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from holdfast.errors import BadOption, Fenced
from holdfast.fencing.fence import Fence, given
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
Asking = Generator[Statement, Row, T]
"""Statements to execute, one after another; each is answered with its first row."""


# What is asked, once for all drivers


def _admitting(fence: Fence) -> Asking[None]:
    values = {"run_id": fence.run_id, "generation": fence.generation}
    if (yield Statement(_SQL["admit"], values)) is None:
        row = yield Statement(_SQL["admitted"], {"run_id": fence.run_id})
        raise Fenced(run=fence.run_id, generation=fence.generation, newer=row[0] if row else None)


def _first(fence: Fence) -> Asking[bool]:
    yield from _admitting(fence)
    values = {"key": fence.key, "run_id": fence.run_id, "generation": fence.generation}
    return (yield Statement(_SQL["first"], values)) is not None


def _updating(
    table: str, values: Mapping[str, Any], where: Mapping[str, Any], fence: Fence
) -> Asking[bool]:
    _check_rows(values=values, where=where)
    if not where:
        raise BadOption(option="where", why="say which row it is")
    found = {f"new_{name}": value for name, value in values.items()} | {
        f"old_{name}": value for name, value in where.items()
    }
    fields = "".join(f"{_column(name)} = :new_{name}, " for name in values)
    chosen = " AND ".join(f"{_column(name)} = :old_{name}" for name in where)
    row = yield Statement(
        f"UPDATE {_table(table)} SET {fields}fence_run = :run, fence_generation = :generation WHERE"
        f" {chosen} AND (fence_run IS NULL OR (fence_run = :run AND fence_generation <="
        " :generation)) RETURNING 1",
        found | _own(fence),
    )
    if row is None:
        yield from _refused(table, where, fence)
    return row is not None


def _upserting(
    table: str, values: Mapping[str, Any], unique: Sequence[str], fence: Fence
) -> Asking[bool]:
    _check_rows(values=values)
    missing = set(unique) - set(values)
    if not unique or missing:
        raise BadOption(
            option="unique",
            value=list(unique),
            why="name the columns, among those given, that say which row it is",
        )
    fields = {f"new_{name}": value for name, value in values.items()}
    names = [*(_column(name) for name in values), "fence_run", "fence_generation"]
    places = [*(f":{name}" for name in fields), ":run", ":generation"]
    changed = ", ".join(f"{name} = excluded.{name}" for name in names if name not in unique)
    last = table.rpartition(".")[2]
    row = yield Statement(
        f"INSERT INTO {_table(table)} ({', '.join(names)}) VALUES ({', '.join(places)}) ON CONFLICT"
        f" ({', '.join(_column(name) for name in unique)}) DO UPDATE SET {changed} WHERE"
        f" {last}.fence_run IS NULL OR ({last}.fence_run = excluded.fence_run AND"
        f" {last}.fence_generation <= excluded.fence_generation) RETURNING 1",
        fields | _own(fence),
    )
    if row is None:
        yield from _refused(table, {name: values[name] for name in unique}, fence)
    return row is not None


def _refused(table: str, where: Mapping[str, Any], fence: Fence) -> Asking[None]:
    """The row was not written: because it is not there, or because it is not ours."""
    chosen = " AND ".join(f"{_column(name)} = :{name}" for name in where)
    row = yield Statement(
        f"SELECT fence_run, fence_generation FROM {_table(table)} WHERE {chosen}", where
    )
    if row is not None:
        owner = {"newer": row[1]} if row[0] == fence.run_id else {"belongs_to": row[0]}
        raise Fenced(table=table, run=fence.run_id, generation=fence.generation, **owner)


def _own(fence: Fence) -> dict[str, Any]:
    return {"run": fence.run_id, "generation": fence.generation}


def _table(name: str) -> str:
    return _called(name, _TABLE, "table")


def _column(name: str) -> str:
    return _called(name, _COLUMN, "column")


def _called(name: str, allowed: re.Pattern[str], what: str) -> str:
    if not isinstance(name, str) or not allowed.fullmatch(name):
        raise BadOption(
            option="name", value=name, why=f"a {what} is called by letters, digits and _"
        )
    return name


def _check_rows(**given: Any) -> None:
    for option, value in given.items():
        if not isinstance(value, Mapping):
            raise BadOption(option=option, value=value, why="give columns and their values")


# The same for blocking and for asynchronous connections


def admit(connection: Any, fence: Fence | None = None) -> None:
    """Let a transaction pass unless a newer generation of the run was here. Call it before you
    write; all that the transaction writes is guarded. Needs ``TABLES``. Raises Fenced."""
    _do(connection, _admitting(given(fence)))


async def admit_aio(connection: Any, fence: Fence | None = None) -> None:
    """``admit`` on an asynchronous connection."""
    await _do_aio(connection, _admitting(given(fence)))


def first(connection: Any, fence: Fence | None = None) -> bool:
    """``admit``, and say whether this is done for the first time: False when one before has
    committed. Needs ``TABLES``."""
    return _do(connection, _first(given(fence)))


async def first_aio(connection: Any, fence: Fence | None = None) -> bool:
    """``first`` on an asynchronous connection."""
    return await _do_aio(connection, _first(given(fence)))


def update(
    connection: Any,
    table: str,
    values: Mapping[str, Any],
    *,
    where: Mapping[str, Any],
    fence: Fence | None = None,
) -> bool:
    """Change a row that belongs to this run, or to none yet; False when there is none. Needs
    ``COLUMNS``. Raises Fenced."""
    return _do(connection, _updating(table, values, where, given(fence)), alone=True)


async def update_aio(
    connection: Any,
    table: str,
    values: Mapping[str, Any],
    *,
    where: Mapping[str, Any],
    fence: Fence | None = None,
) -> bool:
    """``update`` on an asynchronous connection."""
    return await _do_aio(connection, _updating(table, values, where, given(fence)), alone=True)


def upsert(
    connection: Any,
    table: str,
    values: Mapping[str, Any],
    *,
    unique: Sequence[str],
    fence: Fence | None = None,
) -> None:
    """Insert a row that belongs to this run, or write over it if it is there. Needs ``COLUMNS``.
    Raises Fenced."""
    _do(connection, _upserting(table, values, unique, given(fence)), alone=True)


async def upsert_aio(
    connection: Any,
    table: str,
    values: Mapping[str, Any],
    *,
    unique: Sequence[str],
    fence: Fence | None = None,
) -> None:
    """``upsert`` on an asynchronous connection."""
    await _do_aio(connection, _upserting(table, values, unique, given(fence)), alone=True)


# Drivers


def _do(connection: Any, asking: Asking[T], *, alone: bool = False) -> T:
    if is_asynchronous(connection):
        raise BadOption(
            option="connection",
            why="it is asynchronous: await the function whose name ends in _aio",
        )
    raw = unwrapped(connection)
    driver = _driver(raw)
    statement = next(asking)
    try:
        while True:
            text, values = _spelled(statement, driver)
            found = raw.execute(text, values).fetchall()
            _check(raw, driver, alone)
            statement = asking.send(_first_of(found))
    except StopIteration as over:
        answer: T = over.value
        return answer


async def _do_aio(connection: Any, asking: Asking[T], *, alone: bool = False) -> T:
    raw = await unwrapped_async(connection)
    driver = _driver(raw)
    statement = next(asking)
    try:
        while True:
            text, values = _spelled(statement, driver)
            if driver == "asyncpg":
                found = await raw.fetch(text, *values)
            else:
                found = await (await raw.execute(text, values)).fetchall()
            _check(raw, driver, alone)
            statement = asking.send(_first_of(found))
    except StopIteration as over:
        answer: T = over.value
        return answer


def _first_of(rows: Iterable[Any]) -> Row:
    """Return the first row, however a connection was told to return rows."""
    row: Any = next(iter(rows), None)
    return tuple(row.values()) if isinstance(row, dict) else row


_MARKS = {"sqlite3": "?", "apsw": "?", "aiosqlite": "?", "psycopg": "%s", "asyncpg": "$"}


def _driver(raw: Any) -> str:
    found = next(
        (
            name
            for kind in type(raw).__mro__
            if (name := kind.__module__.partition(".")[0]) in _MARKS
        ),
        None,
    )
    if found is None:
        known = ", ".join(_MARKS)
        raise BadOption(
            option="connection",
            value=type(raw).__name__,
            known=f"{known}, and SQLAlchemy over them",
        )
    return found


def _spelled(statement: Statement, driver: str) -> tuple[str, list[Any]]:
    """Return a statement in the words of a driver, with its values in order."""
    names = _PARAMETER.findall(statement.text)
    mark = _MARKS[driver]
    count = iter(range(1, len(names) + 1))
    text = _PARAMETER.sub(lambda _: f"${next(count)}" if mark == "$" else mark, statement.text)
    return text, [statement.values[name] for name in names]


def _check(raw: Any, driver: str, alone: bool) -> None:
    """A guard without a transaction guards nothing but itself."""
    if alone:
        return
    if driver == "asyncpg":
        inside = raw.is_in_transaction()
    elif driver == "psycopg":
        inside = raw.info.transaction_status.name != "IDLE"
    else:
        inside = raw.in_transaction
    if not inside:
        raise BadOption(
            option="connection",
            why="begin a transaction first: what is written after its end would not be guarded",
        )
