"""Open the store that a URL names. Only this module chooses a concrete store."""

from __future__ import annotations

import os
import re
from typing import Any

from holdfast.connect.memory_databases import take_memory_database
from holdfast.connect.sqlite_urls import SqliteName, read_sqlite_name
from holdfast.core.redaction import redacted
from holdfast.core.text import is_storable
from holdfast.errors import BadOption, BadUrl, StoreHalfCopied
from holdfast.store.clock import Clock
from holdfast.store.sealing import store_sealed
from holdfast.store.store import Store

_SERVER = re.compile(
    r"postgres\w*(\+\w+)?:|mysql:|(.*\s)?(host|hostaddr|dbname|user|password|service)\s*=",
    re.IGNORECASE,
)
"""Matches misspelt server URLs and keywords of libpq. Taken as a path, such a text would create a
file whose name contains the password."""

_SQLITE_HEADER = b"SQLite format 3\0"

POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")


def open_store(
    url: str | os.PathLike[str], *, half_copied: bool = False, sealed: bool = False, **options: Any
) -> Store:
    """Open the store that *url* names: a path, sqlite:///path, a file: URI, :memory:, or
    postgresql://...

    Raises BadUrl; StoreHalfCopied if a copy into the store was interrupted, unless *half_copied*
    allows that, to repeat the copy; StoreSealed if the store was moved, unless *sealed* allows
    that.
    """
    store = _open(url, **options)
    try:
        if not half_copied and store.installation.is_half_copied():
            raise StoreHalfCopied(database=store.url)
        seal = None if sealed else store.installation.seal()
        if seal is not None and seal.moved_to is not None:
            raise store_sealed(seal, store.url)
    except BaseException:
        store.close()
        raise
    return store


def _open(
    url: str | os.PathLike[str], *, clock: Clock | None = None, codec: str = "json", **options: Any
) -> Store:
    if not isinstance(url, str | os.PathLike):
        raise BadUrl(url=f"a value of type {type(url).__name__}")
    text = os.fspath(url)
    if not isinstance(text, str) or not text.strip():
        raise BadUrl(url=text)
    if not is_storable(text):
        raise BadUrl(why="the text contains a NUL character or an incomplete character")
    name = _sqlite_name(text)
    if name is not None:
        return _open_file(name, clock=clock, codec=codec, **options)
    if _scheme(text) not in POSTGRES:
        raise BadUrl(url=redacted(text))
    try:
        from holdfast.store.postgres import PostgresDatabase
    except ImportError as error:
        why = f"the driver is not installed: pip install 'holdfast[postgres]' ({error})"
        raise BadUrl(url=redacted(text), why=why) from error
    if "driver" in options:
        raise BadOption(
            option="driver", why="drivers are for files: PostgreSQL is reached through psycopg"
        )
    return Store(PostgresDatabase(text, clock=clock, codec=codec, **options))


def _open_file(name: SqliteName, **options: Any) -> Store:
    from holdfast.store.sqlite import SqliteDatabase

    if not name.in_memory:
        if name.create is not None:
            options["create"] = name.create and options.get("create", True)
        return Store(SqliteDatabase(name.path, **options))
    path, leave = take_memory_database(name.path)
    try:
        return Store(SqliteDatabase(path, on_close=leave, **options))
    except BaseException:
        leave()
        raise


def missing_rights(url: str | os.PathLike[str]) -> list[str]:
    """Return the SQL statements that an administrator must execute before this role can use the
    database. Empty for files, and if the PostgreSQL driver is missing."""
    text = os.fspath(url)
    if file_of(text) is not None or _scheme(text) not in POSTGRES:
        return []
    try:
        from holdfast.store.postgres import privileges
    except ImportError:
        return []  # ``open_store`` reports the missing driver
    return privileges.missing(text)


def file_of(url: str | os.PathLike[str]) -> str | None:
    """Return the path of the file that *url* names; None if it names a server. Raises BadUrl if the
    text looks like a server address without a scheme, or names a database in memory."""
    name = _sqlite_name(os.fspath(url))
    if name is None:
        return None
    if name.in_memory:
        raise BadUrl(url=os.fspath(url), why="this database would be gone at once: name a file")
    return name.path


def _sqlite_name(text: str) -> SqliteName | None:
    """Return the SQLite database that *text* names; None if it names a server. Raises BadUrl."""
    if not text.startswith("file:"):
        if _scheme(text) not in ("", "sqlite"):
            return None
        if not os.path.exists(text) and _SERVER.match(text):
            raise BadUrl(
                url=redacted(text),
                why=(
                    "this looks like the address of a server: write"
                    " postgresql://user:password@host/name"
                ),
            )
    return read_sqlite_name(text)


def is_database_file(path: str | os.PathLike[str]) -> bool:
    """Return whether *path* is a file that begins as a SQLite database does."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_SQLITE_HEADER)) == _SQLITE_HEADER
    except OSError:
        return False


def _scheme(text: str) -> str:
    return text.split("://", 1)[0].lower() if "://" in text else ""
