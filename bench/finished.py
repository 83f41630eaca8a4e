"""Finished runs by the million: real ones, copied by SQL, and compared with the real ones again."""

from __future__ import annotations

from typing import Any

from bench.place import Place, check

REAL = 1000
"""How many real runs there are; all others are copies of them."""

PART = 100
"""How many copies of each are written in one transaction: a longer one would have a WAL as large as
the database."""

TABLES = (("run", "id"), ("event", "run_id"))
"""The tables with the rows of a finished run of steps, and the column with its id."""


def multiply(place: Place, times: int, first: int = 1) -> None:
    """Copy the real runs and their events by SQL, with ids of their own in order of time: the
    copies *first* to *times* - 1 of each."""
    from bench.peers import ours

    db = ours.connect(place)
    for begin in range(first, times, PART):
        for table, key in TABLES:
            name = ours.spelled(place, f"holdfast.{table}")
            columns = _copied_columns(place, db, name, key)
            values = ", ".join(
                _copied_id(place, column) if column == key else f"s.{column}" for column in columns
            )
            numbers = _numbers(place, begin, min(begin + PART, times) - 1)
            db.execute(
                f"INSERT INTO {name} ({', '.join(columns)}) SELECT {values}"
                f" FROM {name} AS s JOIN real_run AS r ON r.id = s.{key}, {numbers}"
            )
    db.close()


def remember_real(place: Place) -> None:
    """Write down which runs are real, before the first copy."""
    from bench.peers import ours

    db = ours.connect(place)
    run = ours.spelled(place, "holdfast.run")
    db.execute(f"CREATE TABLE real_run AS SELECT id FROM {run}")
    db.close()


def compare(place: Place, times: int, count: int) -> int:
    """Compare *count* copies, spread over all of them, with the real runs: each row, each column
    but the ids. Return how many runs were compared."""
    from bench.peers import ours

    db = ours.connect(place)
    wanted = max(count // REAL, 1)
    numbers = sorted({1 + (times - 2) * part // wanted for part in range(wanted)})
    for table, key in TABLES:
        name = ours.spelled(place, f"holdfast.{table}")
        columns = [one for one in _copied_columns(place, db, name, key) if one != key]
        listed = ", ".join(f"s.{column}" for column in columns)
        order = "s.seq" if table == "event" else f"s.{key}"
        real = f"SELECT r.id, {listed} FROM {name} AS s JOIN real_run AS r ON r.id = s.{key}"
        expected = db.execute(f"{real} ORDER BY r.id, {order}").fetchall()
        for number in numbers:
            copied = _copied_id(place, "id", "r").replace("n.i", str(number))
            found = db.execute(
                f"SELECT r.id, {listed} FROM real_run AS r JOIN {name} AS s ON s.{key} = {copied}"
                f" ORDER BY r.id, {order}"
            ).fetchall()
            check(len(found), len(expected))
            for real_row, row in zip(expected, found, strict=True):
                check([*map(_plain, row)], [*map(_plain, real_row)])
    db.close()
    return len(numbers) * REAL


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


def _copied_id(place: Place, column: str, row: str = "s") -> str:
    number = "CAST(n.i AS text)" if place.store == "postgres" else "n.i"
    padded = f"lpad({number}, 6, '0')" if place.store == "postgres" else f"printf('%06d', {number})"
    return f"'0' || substr({row}.{column}, 2, 13) || {padded} || substr({row}.{column}, 20)"


def _numbers(place: Place, first: int, last: int) -> str:
    if place.store == "postgres":
        return f"generate_series({first}, {last}) AS n(i)"
    counting = f"SELECT {first} AS i UNION ALL SELECT i + 1 FROM n WHERE i < {last}"
    return f"(WITH RECURSIVE n(i) AS ({counting}) SELECT i FROM n) AS n"


def _copied_columns(place: Place, db: Any, table: str, key: str) -> list[str]:
    """Return the columns of a table but the number of an event, which the database gives."""
    own = "id" if key != "id" else ""
    if place.store == "sqlite":
        names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    else:
        schema, name = table.split(".")
        sql = (
            "SELECT column_name FROM information_schema.columns WHERE table_schema = %s"
            " AND table_name = %s ORDER BY ordinal_position"
        )
        names = [row[0] for row in db.execute(sql, (schema, name))]
    return [name for name in names if name != own]
