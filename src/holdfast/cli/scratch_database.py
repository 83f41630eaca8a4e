"""A place to measure on: a new file beside the one that was named, or a new database on the same
server. Gone afterwards."""

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
    """Two databases: one for Holdfast, and one in which the bare driver commits one row after
    another."""

    def __init__(self, url: str, commit: Callable[[], Any]) -> None:
        self.url = url
        self.commit = commit
        """Insert one row and commit it, as durable as Holdfast is."""


@contextmanager
def scratch_database(url: str) -> Iterator[ScratchDatabase]:
    """Give a place on the disk, or the server, that *url* names; nothing that is there already is
    touched."""
    path = file_of(url)
    with _beside(path) if path is not None else _on_server(url) as found:
        yield found


@contextmanager
def _beside(path: str) -> Iterator[ScratchDatabase]:
    import sqlite3

    folder = os.path.dirname(os.path.abspath(path))
    base = os.path.join(folder, f".holdfast-bench-{secrets.token_hex(4)}")
    raw = None
    try:
        try:
            raw = sqlite3.connect(f"{base}-raw.db", isolation_level=None)
            raw.execute("PRAGMA journal_mode = WAL")
        except sqlite3.Error as error:
            raise click.ClickException(f"{folder} cannot be written to: {error}") from error
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
            "its driver is not installed: pip install 'holdfast[postgres]'"
        ) from error
    name = f"holdfast_bench_{secrets.token_hex(4)}"
    plain = "postgresql" + url[url.index("://") :]
    try:
        with psycopg.connect(plain, autocommit=True) as server:
            server.execute(f'CREATE DATABASE "{name}"')
    except psycopg.Error as error:
        raise click.ClickException(
            f"no database can be made there to measure in: {str(error).splitlines()[0]}"
        ) from error
    try:
        with psycopg.connect(plain, dbname=name, autocommit=True) as raw:
            raw.execute("CREATE TABLE t (id BIGSERIAL PRIMARY KEY, v TEXT)")
            yield ScratchDatabase(
                _renamed(plain, name),
                lambda: raw.execute("INSERT INTO t (v) VALUES (%s)", (PAYLOAD,), prepare=True),
            )
    finally:
        with psycopg.connect(plain, autocommit=True) as server:
            server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def _renamed(url: str, name: str) -> str:
    """Return a URL of another database on the same server."""
    address, _, query = url.partition("?")
    scheme, _, rest = address.partition("://")
    kept = "&".join(part for part in query.split("&") if part and not part.startswith("dbname="))
    return f"{scheme}://{rest.split('/', 1)[0]}/{name}" + (f"?{kept}" if kept else "")
