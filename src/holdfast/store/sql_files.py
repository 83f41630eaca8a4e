"""Named queries from the .sql files, in one dialect.

In the files the schema is written ``holdfast.table``, parameters are ``:name``, and the input of a
run, wherever it is kept, is ``holdfast.input_of(run)``, what the last event of a completed run says
about its steps is ``holdfast.steps_of(event)``, and whether a subscription has read beyond every
event that was ever written is ``holdfast.is_beyond(subscription)``.
"""

from __future__ import annotations

import os
import re
from functools import cache

from holdfast.store import tables

_HERE = os.path.dirname(os.path.abspath(__file__))

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*")
_PARAMETER = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")
_INPUT = {
    "sqlite": (
        "CASE run.input WHEN x'' THEN (SELECT input FROM holdfast.large_input WHERE run_id ="
        " run.id) ELSE run.input END"
    ),
    "postgres": "run.input",
}
_STEPS = {
    "sqlite": "CAST(SUBSTR(CAST(event.data AS TEXT), 10) AS INTEGER)",
    "postgres": (
        "CAST(SUBSTRING(ENCODE(event.data, 'escape')"
        """ FROM '^[{]"steps":([0-9]{1,9})[}]$') AS BIGINT)"""
    ),
}
"""The number in ``{"steps":5}``. What is none, because the row is damaged, is NULL or 0: another
law finds that."""

_BEYOND = {
    "sqlite": (
        "(subscription.after_tx <> 1 OR subscription.after_id > (SELECT COALESCE(MAX(id), 0) FROM"
        " holdfast.event))"
    ),
    "postgres": (
        "(subscription.after_tx >= CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS TEXT) AS"
        " BIGINT) OR subscription.after_id >"
        " COALESCE(pg_sequence_last_value(CAST(pg_get_serial_sequence('holdfast.event', 'id') AS"
        " regclass)), 0))"
    ),
}
"""PostgreSQL asks for the last transaction and the last number that were given out: the events
themselves may be deleted."""

_SPELLED = {
    "holdfast.input_of(run)": _INPUT,
    "holdfast.steps_of(event)": _STEPS,
    "holdfast.is_beyond(subscription)": _BEYOND,
}


@cache
def common() -> dict[str, str]:
    """Return every query that both databases are asked in the same words."""
    return _named("common")


@cache
def load(dialect: str) -> dict[str, str]:
    """Return every query of *dialect* by name: the common ones, unless it has to say them in its
    own way, and its own."""
    found = common() | tables.queries(dialect) | _named(dialect)
    return {
        name: in_dialect(text, dialect)
        for name, text in (
            found | tables.forgettable(found["prunable"], found["tree_sizes"])
        ).items()
    }


def in_dialect(sql: str, dialect: str) -> str:
    """Spell out what each database says in its own way in the middle of a query."""
    for said, spelled in _SPELLED.items():
        sql = sql.replace(said, spelled[dialect])
    return sql


@cache
def laws() -> dict[str, str]:
    """Return every law as a query for what breaks it."""
    return _named("laws")


def _named(folder: str) -> dict[str, str]:
    """Return the queries of all files of a folder."""
    found: dict[str, str] = {}
    for file in sorted(os.listdir(os.path.join(_HERE, "sql", folder))):
        parts = _NAME.split(read(f"sql/{folder}/{file}"))
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            if name in found:
                raise ValueError(f"a query is there twice in sql/{folder}: {name}")
            found[name] = " ".join(_COMMENT.sub("", text).split()).rstrip(";")
    return found


def parameters(query: str) -> list[str]:
    """Return the names of the parameters of *query*, each once."""
    return sorted(set(_PARAMETER.findall(query)))


def read(path: str) -> str:
    """Return the text of a file of this package."""
    with open(os.path.join(_HERE, path), encoding="utf-8") as file:
        return file.read()


@cache
def migrations(dialect: str) -> list[tuple[int, str, str]]:
    """Return (number, name, text) of every migration of *dialect*, in order."""
    files = sorted(
        name
        for name in os.listdir(os.path.join(_HERE, "migrations", dialect))
        if name.endswith(".sql")
    )
    return [(int(name[:4]), name[:-4], read(f"migrations/{dialect}/{name}")) for name in files]
