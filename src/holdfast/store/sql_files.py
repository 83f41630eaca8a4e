"""Load named queries from the .sql files of the features, in one dialect.

In the files, the schema is written ``holdfast.table`` and parameters ``:name``. Macros stand for
the columns of a run and for expressions that differ by dialect:

- ``holdfast.columns_of(run)``: the columns of a ``RunRecord``, in a query that joins ``run`` and
  ``route``;
- ``holdfast.input_of(run)``: the input of a run, wherever it is stored;
- ``holdfast.steps_of(event)``: the number of steps in the last event of a completed run;
- ``holdfast.using(index)``: the index that the query must use; PostgreSQL chooses by itself;
- ``holdfast.found()`` of ``holdfast.each(SELECT created_at, id ... holdfast.end_of_each()``: the
  runs that a subquery returns for each row of the tables before it, up to the limit of each;
- ``holdfast.is_beyond(subscription)``: whether a subscription has read beyond every event that was
  ever written.
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
"""The number in ``{"steps":5}``. If the row is damaged and has no number, this is NULL or 0:
another law reports that."""

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
"""PostgreSQL compares with the last transaction and the last number that were assigned: the events
themselves may be deleted."""

_COLUMNS_OF_ROUTE = ("namespace", "workflow", "version", "lane", "capabilities")
_COLUMNS_OF_RUN = (
    "id",
    "status",
    "priority",
    "generation",
    "revision",
    "session_id",
    "wake_at",
    "deadline",
    "result",
    "error",
    "waits",
    "key",
    "parent_id",
    "parent_step",
    "parent_index",
    "on_parent_end",
    "root_id",
    "forked_from",
    "graph_id",
    "schedule",
    "tick_at",
    "cancel_reason",
    "cancel_cause",
    "cancelled_at",
    "cancelled_by",
    "stuck_cause",
    "crashes",
    "created_at",
    "started_at",
    "finished_at",
    "budgets",
    "share",
)
_COLUMNS = ", ".join(
    [
        *(f"run.{name}" for name in _COLUMNS_OF_RUN),
        "holdfast.input_of(run) AS input",
        *(f"route.{name}" for name in _COLUMNS_OF_ROUTE),
    ]
)

_EACH = {
    "sqlite": (
        "json_each((SELECT json_group_array(json_array(CAST(found.created_at AS INTEGER),"
        " CAST(found.id AS TEXT))) FROM ("
    ),
    "postgres": "LATERAL (",
}
"""SQLite knows no LATERAL, but the argument of a table function may refer to the tables before it.
The casts are for damaged rows: JSON cannot hold a blob."""

_EACH_END = {"sqlite": ") AS found)) AS found", "postgres": ") AS found"}
_FOUND = {
    "sqlite": (
        "json_extract(found.value, '$[0]') AS created_at, json_extract(found.value, '$[1]') AS id"
    ),
    "postgres": "found.created_at, found.id",
}
_USING = re.compile(r"holdfast\.using\((\w+)\)")
_INDEX = {"sqlite": r"INDEXED BY holdfast.\1", "postgres": ""}

_MACROS = {
    "holdfast.each(": _EACH,
    "holdfast.end_of_each()": _EACH_END,
    "holdfast.found()": _FOUND,
    # First, because it contains another macro.
    "holdfast.columns_of(run)": {"sqlite": _COLUMNS, "postgres": _COLUMNS},
    "holdfast.input_of(run)": _INPUT,
    "holdfast.steps_of(event)": _STEPS,
    "holdfast.is_beyond(subscription)": _BEYOND,
}


@cache
def common() -> dict[str, str]:
    """Return the queries that both dialects accept, by name."""
    return _named("common")


@cache
def load(dialect: str) -> dict[str, str]:
    """Return every query of *dialect* by name: the common ones, unless the dialect has a version of
    its own, and the generated ones of ``tables``."""
    # In this order: a dialect replaces the common version of a query.
    queries = common() | tables.queries(dialect) | _named(dialect)
    queries |= tables.forgettable(queries["prunable"], queries["tree_sizes"])
    return {name: in_dialect(text, dialect) for name, text in queries.items()}


def in_dialect(sql: str, dialect: str) -> str:
    """Return *sql* with its macros replaced by the expressions of *dialect*."""
    for macro, expressions in _MACROS.items():
        sql = sql.replace(macro, expressions[dialect])
    return _USING.sub(_INDEX[dialect], sql)


@cache
def laws() -> dict[str, str]:
    """Return every law by name, as a query for the rows that break it."""
    return _named("laws")


def _named(kind: str) -> dict[str, str]:
    """Return the queries of the files ``<feature>/<kind>.sql``, by name. Raises ValueError for a
    repeated name."""
    queries: dict[str, str] = {}
    for feature in sorted(os.listdir(_HERE)):
        path = f"{feature}/{kind}.sql"
        if not os.path.exists(os.path.join(_HERE, path)):
            continue
        # The text before the first name is the comment of the file.
        parts = _NAME.split(read(path))
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            if name in queries:
                raise ValueError(f"{path} defines the query {name}, which is now there twice")
            # On one line without comments: the text is sent to the server, and is a key of caches.
            queries[name] = " ".join(_COMMENT.sub("", text).split()).rstrip(";")
    return queries


def parameters(query: str) -> list[str]:
    """Return the names of the parameters of *query*, sorted, each once."""
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
