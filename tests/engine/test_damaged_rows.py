"""Garbage in any column of any table: the row is named and set aside, and everything else works on.

A database with one of every kind of thing is copied for each mutation. One value of one row is
overwritten with raw SQL, and then all is tried: reading, working, checking. The suite tries a
sample; HOLDFAST_MUTATIONS=all tries every value in every column, and a number tries so many.
PostgreSQL keeps the types of its columns, so fewer values can be written there.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from holdfast import Engine
from holdfast.errors import CodecMismatch
from holdfast.store.schema import TableShape, schema
from holdfast.testing.clock import VirtualClock
from holdfast.testing.postgres import Server, name_of
from tests.engine import every_feature

SAMPLE, SEED = 40, 12
SAMPLE_OF_POSTGRES = 12
INVALID_TEXT = "CAST(x'ff41fe' AS TEXT)"
LISTED = ("run", "flow", "graph", "gate")


class Mutation(NamedTuple):
    table: str
    column: str
    value: object
    id: str | None = None
    """Which row is damaged; None for the first one."""


def mutations(sample: int, *, typed: bool = False) -> list[Mutation]:
    """Every garbage value for every column, or a sample, always the same one; with *typed*, only
    values of the column's type."""
    kinds = {int: "INTEGER", str: "TEXT", bytes: "BLOB", float: "REAL"}
    found: list[Mutation] = []
    for table in schema("postgres" if typed else "sqlite").values():
        for column in table.columns.values():
            kind = next(kind for kind in (float, int, str, bytes) if kind in column.types)
            values = [
                value
                for value in every_feature.ODD[kinds[kind]]
                if not typed or type(value) is kind
            ]
            found += [Mutation(table.name, column.name, value) for value in values]
    for table in schema().values() if not typed else ():
        found += [
            Mutation(table.name, each_column.name, INVALID_TEXT)
            for each_column in table.columns.values()
            if str in each_column.types
        ]
    random.Random(SEED).shuffle(found)
    wanted = os.environ.get("HOLDFAST_MUTATIONS", str(sample))
    return found if wanted == "all" else found[: int(wanted)]


class SqliteLab:
    """A file with one of every kind of thing, and copies of it."""

    def __init__(self, folder: Path) -> None:
        self._template: Path = folder / "template.db"
        self._copy: Path = folder / "copy.db"
        every_feature.populate(str(self._template), VirtualClock())

    def copy(self) -> str:
        for rest in self._copy.parent.glob("copy.db*"):
            rest.unlink()
        shutil.copy(self._template, self._copy)
        return str(self._copy)

    def ids(self, table: str) -> list[str]:
        with closing(sqlite3.connect(self._template)) as db:
            return [row[0] for row in db.execute(f"SELECT id FROM holdfast_{table}")]

    def damage(self, url: str, mutation: Mutation) -> bool:
        """Overwrite one value; return whether there is a row to overwrite, and the database lets
        us."""
        value, values = (
            ("?", (mutation.value,)) if mutation.value != INVALID_TEXT else (INVALID_TEXT, ())
        )
        with closing(sqlite3.connect(url)) as db:
            try:
                changed = db.execute(_update("holdfast_", mutation, value), values)
            except sqlite3.IntegrityError:
                return False
            db.commit()
            return changed.rowcount == 1


class PostgresLab:
    """A database with one of every kind of thing, and copies of it."""

    def __init__(self, server: Server) -> None:
        self._server: Server = server
        self._template: str = server.new_database()
        self._copies: list[str] = []
        every_feature.populate(self._template, VirtualClock())

    def copy(self) -> str:
        self.close()
        self._copies.append(self._server.new_database(template=name_of(self._template)))
        return self._copies[-1]

    def close(self) -> None:
        while self._copies:
            self._server.execute(f'DROP DATABASE "{name_of(self._copies.pop())}" WITH (FORCE)')

    def ids(self, table: str) -> list[str]:
        with psycopg.connect(self._template, autocommit=True) as db:
            return [row[0] for row in db.execute(f"SELECT id FROM holdfast.{table}")]

    def damage(self, url: str, mutation: Mutation) -> bool:
        """Overwrite one value; return whether there is a row to overwrite, and the database lets
        us."""
        with psycopg.connect(url, autocommit=True) as db:
            try:
                return (
                    db.execute(_update("holdfast.", mutation, "%s"), [mutation.value]).rowcount == 1
                )
            except (psycopg.IntegrityError, psycopg.DataError):
                return False


def table_of(mutation: Mutation) -> TableShape:
    """Return the table of a mutation: a few exist in one of the databases alone."""
    return schema().get(mutation.table) or schema("postgres")[mutation.table]


def _update(prefix: str, mutation: Mutation, value: str) -> str:
    table = prefix + mutation.table
    key = ", ".join(table_of(mutation).key)
    first = (
        f"SELECT {key} FROM {table} ORDER BY {key} LIMIT 1"
        if mutation.id is None
        else f"'{mutation.id}'"
    )
    return f"UPDATE {table} SET {mutation.column} = {value} WHERE ({key}) = ({first})"


@pytest.fixture(scope="module")
def sqlite_lab(tmp_path_factory):
    return SqliteLab(tmp_path_factory.mktemp("damage"))


@pytest.fixture(scope="module")
def postgres_lab(postgres_server):
    lab = PostgresLab(postgres_server)
    yield lab
    lab.close()


def is_wrong(mutation: Mutation) -> bool:
    """Return whether no row can ever hold that value: then `check` must name it."""
    if mutation.value == INVALID_TEXT:
        return True
    column = table_of(mutation).columns[mutation.column]
    stored = mutation.value
    if isinstance(stored, float) and stored.is_integer() and int in column.types:
        stored = int(stored)  # SQLite turns it into a whole number
    if isinstance(stored, int) and str in column.types:
        stored = str(stored)  # and this into a text
    return column.wrong(stored) is not None


def raw_errors(engine: Engine, ids: dict[str, list[str]]) -> dict[str, Exception]:
    return {
        name: error
        for name, call in every_feature.reads(engine, ids)
        if (error := every_feature.raw_error(call)) is not None
    }


def try_all(lab: Any, mutation: Mutation) -> None:
    """Damage a copy, read and check it, and work with it."""
    url = lab.copy()
    if not lab.damage(url, mutation):
        pytest.skip("there is no such row, or the database refuses the value")
    if mutation[:2] == ("setting", "value"):
        with pytest.raises(
            CodecMismatch
        ):  # the first setting names the codec, and without it nothing can be read
            Engine(url)
        return
    ids = {table: lab.ids(table) for table in LISTED}
    clock = VirtualClock()
    with closing(Engine(url, clock=clock, workflows=every_feature.WORKFLOWS)) as looking:
        problems = looking.database.check()
        assert raw_errors(looking, ids) == {}
    if is_wrong(mutation):
        assert [
            line
            for line in problems
            if f"in {mutation.table}:" in line and f"column {mutation.column}:" in line
        ]

    with Engine(url, clock=clock, shutdown_timeout=1, workflows=every_feature.WORKFLOWS) as engine:
        every_feature.use(engine, clock)

        assert raw_errors(engine, ids) == {}


FOUND = [
    Mutation(
        "definition", "namespace", INVALID_TEXT
    ),  # no definition of any other name was loaded, and no run of one started
    Mutation(
        "session", "id", INVALID_TEXT
    ),  # no statement can end such a session, and a worker tried to without end
    Mutation(
        "session", "serves", 5
    ),  # it could not be ended either, because its offer was read first
    Mutation(
        "run", "deadline", -1, "sleeper"
    ),  # past its deadline, and damaged: no worker could start
    Mutation("run", "deadline", -(2**63), "delayed"),
    Mutation(
        "session", "serves", b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    ),  # nested too deeply to be read: no worker could start
    Mutation(
        "run", "waits", b"[" * 100_000 + b"]" * 100_000, "sleeper"
    ),  # and nobody could be told why the run does not move
    Mutation("run", "waits", b'[{"kind":"timer","until":"x"}]', "sleeper"),
    Mutation("run", "waits", b'[{"kind":"timer"}]', "sleeper"),
    Mutation("run", "error", b"[" * 100_000 + b"]" * 100_000, "failed"),
    Mutation(
        "graph_stage", "due_at", -1
    ),  # no worker could start, because the sweep of stages met it first
    Mutation("flow", "revision", 2**63 - 1),
    Mutation("run", "generation", 2**63 - 1),
    Mutation(
        "flow_event", "seq", 2**63 - 1
    ),  # in PostgreSQL no line could be numbered after it, and all flows slept on
    Mutation(
        "schedule", "started", 2**63 - 1
    ),  # it could not grow, and no schedule of the database ticked
    Mutation("lane", "weights", "garbage"),  # no lane could be listed
    Mutation("budget", "resets", "null"),  # no budget could be listed
    Mutation("definition", "version", "garbage"),  # no model could be listed
    Mutation("definition_content", "content", b"{"),
    Mutation("claim_request", "leases", b"{"),
    Mutation("graph_outbox", "status", "null"),  # its graph could not be read
    Mutation("retention", "statuses", "\n"),  # what the rules delete could not be shown
]
"""Mutations that once did harm."""


def _shortly(mutation: Mutation) -> str:
    return f"{mutation.table}.{mutation.column}-{str(mutation.value)[:12]}"


def test_there_is_a_row_of_every_table_to_damage(sqlite_lab):
    with closing(sqlite3.connect(sqlite_lab.copy())) as db:
        counts = {
            table: db.execute(f"SELECT COUNT(*) FROM holdfast_{table}").fetchone()[0]
            for table in schema()
        }

    assert [table for table, count in counts.items() if not count] == []


@pytest.mark.parametrize("mutation", FOUND, ids=_shortly)
def test_a_damaged_value_that_once_did_harm_does_none_in_sqlite(sqlite_lab, mutation):
    try_all(sqlite_lab, mutation)


@pytest.mark.parametrize("mutation", FOUND[3:], ids=_shortly)
def test_a_damaged_value_that_once_did_harm_does_none_in_postgres(postgres_lab, mutation):
    try_all(postgres_lab, mutation)


@pytest.mark.parametrize("mutation", mutations(SAMPLE), ids=str)
def test_one_damaged_value_harms_nothing_else(sqlite_lab, mutation):
    try_all(sqlite_lab, mutation)


@pytest.mark.parametrize("mutation", mutations(SAMPLE_OF_POSTGRES, typed=True), ids=str)
def test_one_damaged_value_in_postgres_harms_nothing_else(postgres_lab, mutation):
    try_all(postgres_lab, mutation)
