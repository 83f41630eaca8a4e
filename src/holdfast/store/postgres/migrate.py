"""Open a PostgreSQL database: apply numbered forward migrations with checksums, or refuse it.

If many processes open an empty database at once, one migrates under an advisory lock of its
transaction; the others wait and find it done.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable

from holdfast.errors import CodecMismatch, StoreCorrupt, StoreForeign, StoreTooNew, StoreUnavailable
from holdfast.store import sql_files
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.dialect import SQL
from holdfast.store.postgres.errors import ConnectionLost, TemporarilyUnavailable

PATIENCE = 30.0
"""Seconds for which opening waits for a server that is starting."""

LOCK = 0x686F6C6466617374
"""The key of the advisory lock: "holdfast" as a number."""

MORE = "or as `holdfast doctor` says"
_TABLE = """CREATE TABLE IF NOT EXISTS holdfast.migration (
    number BIGINT PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at BIGINT NOT
    NULL)"""
_RECORD = (
    "INSERT INTO holdfast.migration VALUES (%(number)s, %(name)s, %(checksum)s, %(applied_at)s)"
)
_SCHEMA = """SELECT has_schema_privilege(oid, 'USAGE') AS usable, has_schema_privilege(oid,
    'CREATE') AS creatable,
    (SELECT COUNT(*) FROM pg_class WHERE relnamespace = pg_namespace.oid) AS things,
    (SELECT COUNT(*) FROM pg_class WHERE relnamespace = pg_namespace.oid AND relname = 'migration')
    AS ours
  FROM pg_namespace WHERE nspname = 'holdfast'"""
_MAY_CREATE = "SELECT has_database_privilege(current_database(), 'CREATE') AS creatable"


def open_writer(
    connect: Callable[[], Connection], codec: str, *, create: bool = True
) -> tuple[Connection, str]:
    """Open the writing connection of this process and migrate the schema. Return it with the
    database's identity.

    Without *create*, a database that has no tables of Holdfast is left as it is, and refused.
    """
    db = _connect_when_started(connect)
    try:
        db.must_be_writable()
        if not create and not _applied(db):
            raise StoreUnavailable(
                database=db.address.shown, why="the database has no tables of Holdfast"
            )
        _migrate(db)
        _check_codec(db, codec)
        _renumber_events(db)
        db.find_by_index()
        return (
            db,
            (
                f"{_setting(db, 'database', secrets.token_hex(16))}"
                f" {db.rows('SELECT current_database() AS name')[0]['name']}"
            ),
        )
    except BaseException as error:
        db.rollback()
        db.close()
        if isinstance(error, ConnectionLost):
            raise StoreUnavailable(database=db.address.shown, reason=str(error)) from error
        raise


def _connect_when_started(connect: Callable[[], Connection]) -> Connection:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return connect()
        except TemporarilyUnavailable as unavailable:
            if not unavailable.soon or time.monotonic() > deadline:
                raise unavailable.error from unavailable.__cause__
        time.sleep(0.05)


def _migrate(db: Connection) -> None:
    # Without the lock first: almost always there is nothing to do.
    if _applied(db) == [number for number, _, _ in sql_files.migrations("postgres")]:
        return
    db.begin()
    # Bounded: a process that hangs while it migrates must not keep all others waiting for ever.
    db.script(f"SET LOCAL lock_timeout TO '{PATIENCE:g}s'; SELECT pg_advisory_xact_lock({LOCK})")
    # Again under the lock: another process may have migrated meanwhile.
    done = _applied(db)
    _create_schema(db)
    db.script(_TABLE)
    for number, name, text in sql_files.migrations("postgres"):
        if number not in done:
            db.script(text)
            record = {
                "number": number,
                "name": name,
                "checksum": checksum(text),
                "applied_at": time.time_ns() // 1000,
            }
            db.change(_RECORD, record)
    db.commit()


def _applied(db: Connection) -> list[int]:
    """Return the numbers of the applied migrations. Raises StoreForeign, StoreTooNew,
    StoreCorrupt."""
    schemas = db.rows(_SCHEMA)
    if not schemas or not schemas[0]["things"]:
        return []
    shown = db.address.shown
    if not schemas[0]["ours"]:
        why = "the schema holdfast belongs to another program: rename it, or use another database"
        raise StoreForeign(database=shown, why=why)
    if not schemas[0]["usable"]:
        raise StoreUnavailable(
            database=shown,
            why=(
                f'this role lacks rights: GRANT USAGE ON SCHEMA holdfast TO "{db.raw.info.user}",'
                f" {MORE}"
            ),
        )
    known = {number: checksum(text) for number, _, text in sql_files.migrations("postgres")}
    rows = db.rows("SELECT number, name, checksum FROM holdfast.migration ORDER BY number")
    for row in rows:
        if row["number"] not in known:
            raise StoreTooNew(database=shown, schema=row["number"], known=max(known))
        if row["checksum"] != known[row["number"]]:
            raise StoreForeign(database=shown, migration=row["name"])
    if not rows and db.rows("SELECT to_regclass('holdfast.run') IS NOT NULL AS there")[0]["there"]:
        raise StoreCorrupt(database=shown, why="the table holdfast.migration is empty")
    numbers = [row["number"] for row in rows]
    missing = sorted(set(known) - set(numbers))
    if missing and numbers and missing[0] < numbers[-1]:
        raise StoreCorrupt(
            database=shown,
            why=f"migration {missing[0]} is not recorded in holdfast.migration, but later ones are",
        )
    return numbers


def _create_schema(db: Connection) -> None:
    user = db.raw.info.user
    name = db.raw.info.dbname
    schemas = db.rows(_SCHEMA)
    if schemas and not schemas[0]["creatable"]:
        raise StoreUnavailable(
            database=db.address.shown,
            why=(
                f'this role may not create tables: GRANT ALL ON SCHEMA holdfast TO "{user}", {MORE}'
            ),
        )
    if schemas:
        return
    if not db.rows(_MAY_CREATE)[0]["creatable"]:
        why = (
            f'GRANT CREATE ON DATABASE "{name}" TO "{user}", or CREATE SCHEMA holdfast'
            f' AUTHORIZATION "{user}", {MORE}'
        )
        raise StoreUnavailable(
            database=db.address.shown, why=f"this role may not create the schema: {why}"
        )
    db.script("CREATE SCHEMA holdfast")


def checksum(text: str) -> str:
    """Return the checksum by which a migration is recognised."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _renumber_events(db: Connection) -> None:
    """Renumber the events of a database that was restored on another server.

    Their transaction numbers are still in the future there: readers would not see them, nor new
    events that get the same numbers. They are moved to the beginning, in order. Cursors that
    clients hold belong to another database now and are refused; stored cursors are translated, so
    that nothing is skipped.
    """
    if not db.rows(SQL["is_numbered_ahead"]):
        return
    db.begin()
    db.script(
        "LOCK TABLE holdfast.event, holdfast.graph_event, holdfast.flow_event,"
        " holdfast.subscription IN EXCLUSIVE MODE"
    )
    # Again under the lock: another process may have renumbered them meanwhile.
    if db.rows(SQL["is_numbered_ahead"]):
        for query in (
            "translate_cursors",
            "reset_event_transactions",
            "reset_graph_transactions",
            "reset_flow_transactions",
            "rename_installation",
        ):
            db.change(SQL[query])
    db.commit()


def _setting(db: Connection, name: str, first: str) -> str:
    """Return a setting of the database; the first process to ask creates it."""
    rows = db.rows(SQL["setting"], {"name": name})
    if not rows:
        # Has no effect if another process was first; its value is read below.
        db.change(SQL["save_setting"], {"name": name, "value": first})
        rows = db.rows(SQL["setting"], {"name": name})
    value: str = rows[0]["value"]
    return value


def _check_codec(db: Connection, codec: str) -> None:
    """Check that the codec is the one the database was first written with. Raises CodecMismatch."""
    stored = _setting(db, "codec", codec)
    if stored != codec:
        raise CodecMismatch(database=db.address.shown, stored=stored, given=codec)
