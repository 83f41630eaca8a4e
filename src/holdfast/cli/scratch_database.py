"""Temporary databases for benchmarks: a new file in the same folder, or a new database on the same
server. They are removed afterwards."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from holdfast.connect.open_store import file_of

PAYLOAD = "x" * 100
_SUFFIXES = ("", "-wal", "-shm", "-sessions")


class ScratchDatabase:
    """A temporary database for Holdfast, and one in which the bare driver commits single rows."""

    def __init__(self, url: str, commit: Callable[[], Any]) -> None:
        self.url = url
        self.commit = commit
        """Insert one row and commit it, with the durability that Holdfast uses."""


@contextmanager
def scratch_database(url: str) -> Iterator[ScratchDatabase]:
    """Create a temporary database on the disk or server of *url*; existing data is not touched."""
    path = file_of(url)
    with _in_folder_of(path) if path is not None else _on_server(url) as database:
        yield database


@contextmanager
def _in_folder_of(path: str) -> Iterator[ScratchDatabase]:
    import sqlite3

    folder = os.path.dirname(os.path.abspath(path))
    base = os.path.join(folder, f".holdfast-bench-{secrets.token_hex(4)}")
    raw = None
    try:
        try:
            raw = sqlite3.connect(f"{base}-raw.db", isolation_level=None)
            raw.execute("PRAGMA journal_mode = WAL")
        except sqlite3.Error as error:
            raise click.ClickException(f"the folder {folder} is not writable: {error}") from error
        raw.execute("PRAGMA synchronous = FULL")
        raw.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)")
        yield ScratchDatabase(
            f"{base}.db", lambda: raw.execute("INSERT INTO t (v) VALUES (?)", (PAYLOAD,))
        )
    finally:
        if raw is not None:
            raw.close()
        for name in (f"{base}.db", f"{base}-raw.db"):
            for suffix in _SUFFIXES:
                if os.path.exists(name + suffix):
                    os.unlink(name + suffix)


@contextmanager
def _on_server(url: str) -> Iterator[ScratchDatabase]:
    try:
        import psycopg
    except ImportError as error:
        raise click.ClickException(
            "the PostgreSQL driver is not installed: pip install 'holdfast[postgres]'"
        ) from error
    name = f"holdfast_bench_{secrets.token_hex(4)}"
    plain = "postgresql" + url[url.index("://") :]
    try:
        with psycopg.connect(plain, autocommit=True) as server:
            server.execute(f'CREATE DATABASE "{name}"')
    except psycopg.Error as error:
        raise click.ClickException(
            f"a database for the benchmark could not be created: {str(error).splitlines()[0]}"
        ) from error
    try:
        with psycopg.connect(plain, dbname=name, autocommit=True) as raw:
            raw.execute("CREATE TABLE t (id BIGSERIAL PRIMARY KEY, v TEXT)")
            yield ScratchDatabase(
                _with_database(plain, name),
                lambda: raw.execute("INSERT INTO t (v) VALUES (%s)", (PAYLOAD,), prepare=True),
            )
    finally:
        with psycopg.connect(plain, autocommit=True) as server:
            server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def _with_database(url: str, name: str) -> str:
    """Return the URL of the database *name* on the server of *url*."""
    address, _, query = url.partition("?")
    scheme, _, rest = address.partition("://")
    options = "&".join(part for part in query.split("&") if part and not part.startswith("dbname="))
    return f"{scheme}://{rest.split('/', 1)[0]}/{name}" + (f"?{options}" if options else "")
