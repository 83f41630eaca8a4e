"""Open a SQLite file for writing: settings, positional forward migrations with checksums, and
refusals."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable

from holdfast.errors import (
    CodecMismatch,
    StoreBusy,
    StoreCorrupt,
    StoreForeign,
    StoreTooNew,
    StoreUnavailable,
)
from holdfast.store import sql_files
from holdfast.store.sqlite.connection import COMMIT, ROLLBACK, Connection, WriteLockBusy, statements
from holdfast.store.sqlite.dialect import SQL, spelled

Begin = Callable[[Connection], None]
PATIENCE = 30.0
"""Seconds for which opening waits for other processes that open or close the same file."""

MODE = 0o600

TABLE = """CREATE TABLE IF NOT EXISTS holdfast_migration (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at INTEGER NOT
    NULL)"""


def open_writer(
    connect: Callable[[str], Connection],
    path: str,
    begin: Begin,
    codec: str,
    *,
    create: bool = True,
) -> Connection:
    """Open the one writing connection of this process, and migrate the schema. Unless it may
    *create*, a missing file, or one of another program, is left alone."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise StoreUnavailable(path=path, why=f"there is no folder {folder}")
    if os.path.isdir(path):
        raise StoreUnavailable(path=path, why="it is a folder, not a file")
    if not create and not os.path.exists(path):
        raise StoreUnavailable(path=path, why="there is no such file")
    _refuse_orphaned_wal(path)
    if create:
        _create_private(path)
        _refuse_orphaned_wal(path)  # again: the database may have been moved in between
    db = connect(path)
    try:
        if not create and not _has_table(db, "holdfast_migration"):
            raise StoreUnavailable(path=path, why="it has no tables of Holdfast")
        _set_pragmas(db)
        _migrate(db, path, begin)
        _check_codec(db, path, begin, codec)
        db.rows("PRAGMA busy_timeout = 0")  # from here on the store takes the lock by short tries
    except BaseException as error:
        if db.in_transaction():
            db.change(ROLLBACK)
        db.close()
        if isinstance(error, WriteLockBusy):
            raise StoreBusy(path=path) from error
        raise
    return db


def _refuse_orphaned_wal(path: str) -> None:
    """Raise StoreUnavailable for a missing or empty database beside a WAL that holds data: SQLite
    would delete the WAL, and with it commits of the database that was moved or emptied.

    The size of the WAL is read first, because a database has data before its WAL has.
    """
    wal = f"{os.path.realpath(path)}-wal"
    if _size(wal) > 0 and _size(path) == 0:
        why = (
            f"the database is missing or empty, but {wal} holds commits of it: put the database"
            " back, or delete that file"
        )
        raise StoreUnavailable(path=path, why=why)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _create_private(path: str) -> None:
    """Create a missing file that only its owner may read: it holds signing keys and values.

    SQLite gives its -wal and -shm the same mode. An existing file keeps its mode. The path may be a
    link to a file that is still to be created.
    """
    try:
        os.close(
            os.open(
                os.path.realpath(path),
                os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0),
                MODE,
            )
        )
    except FileExistsError:
        pass
    except OSError as error:
        raise StoreUnavailable(path=path, why=f"it cannot be created: {error.strerror}") from error


def _set_pragmas(db: Connection) -> None:
    """Set the pragmas, durability first. The WAL keeps its usual checkpoint size: then it is reused
    in place, which is fastest."""
    db.rows("PRAGMA busy_timeout = 2000")
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            db.rows("PRAGMA journal_mode = WAL")
            break
        except WriteLockBusy:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.001)  # another process is switching the same new file
    db.rows("PRAGMA synchronous = FULL")
    db.rows("PRAGMA foreign_keys = OFF")
    db.rows("PRAGMA temp_store = MEMORY")
    db.rows("PRAGMA cache_size = -16000")


def _migrate(db: Connection, path: str, begin: Begin) -> None:
    if _applied(db, path) == [number for number, _, _ in sql_files.migrations("sqlite")]:
        return
    begin(db)
    db.change(TABLE)
    done = _applied(db, path)
    for number, name, text in sql_files.migrations("sqlite"):
        if number not in done:
            for statement in statements(spelled(text)):
                db.change(statement)
            record = (number, name, checksum(text), time.time_ns() // 1000)
            db.change("INSERT INTO holdfast_migration VALUES (?, ?, ?, ?)", record)
    db.change(COMMIT)


def _applied(db: Connection, path: str) -> list[int]:
    """Return the numbers of the migrations that this file has had. Raises StoreTooNew, StoreForeign
    or StoreCorrupt for a file that this version cannot use."""
    if not _has_table(db, "holdfast_migration"):
        if _has_table(db, "holdfast_run"):
            raise StoreCorrupt(path=path, why="the table holdfast_migration is missing")
        return []
    known = {number: checksum(text) for number, _, text in sql_files.migrations("sqlite")}
    rows = db.rows("SELECT number, name, checksum FROM holdfast_migration ORDER BY number")
    for row in rows:
        if row["number"] not in known:
            raise StoreTooNew(path=path, schema=row["number"], known=max(known))
        if row["checksum"] != known[row["number"]]:
            raise StoreForeign(path=path, migration=row["name"])
    if not rows and _has_table(db, "holdfast_run"):
        raise StoreCorrupt(path=path, why="the table holdfast_migration is empty")
    numbers = [row["number"] for row in rows]
    missing = sorted(set(known) - set(numbers))
    if missing and numbers and missing[0] < numbers[-1]:
        raise StoreCorrupt(
            path=path, why=f"migration {missing[0]} is not recorded, but later ones are"
        )
    return numbers


def _has_table(db: Connection, name: str) -> bool:
    return bool(db.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)))


def checksum(text: str) -> str:
    """Return the checksum that identifies a migration."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _check_codec(db: Connection, path: str, begin: Begin, codec: str) -> None:
    """Record the codec of a new file. Raises CodecMismatch if the file was first written with
    another codec."""
    settings = db.rows(SQL["setting"], {"name": "codec"})
    if not settings:
        begin(db)
        db.change(SQL["save_setting"], {"name": "codec", "value": codec})
        db.change(COMMIT)
        settings = db.rows(SQL["setting"], {"name": "codec"})
    if settings[0]["value"] != codec:
        raise CodecMismatch(path=path, stored=settings[0]["value"], given=codec)
