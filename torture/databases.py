"""The databases of a round: a SQLite file on a small disk, or one of several databases on a
PostgreSQL server that crashes."""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import signal
import sqlite3
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

from holdfast.testing.postgres import Server, name_of
from torture.faults import small_disk

_ENTRIES = "torture_entry"
_CLOCK = f"""
CREATE SCHEMA torture;
CREATE TABLE torture.clock_offset (nanoseconds BIGINT NOT NULL);
INSERT INTO torture.clock_offset VALUES (0);
CREATE FUNCTION torture.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT pg_catalog.clock_timestamp() + nanoseconds / 1000 * INTERVAL '1 microsecond' FROM
    torture.clock_offset
$$;
CREATE TABLE public.{_ENTRIES} (run TEXT NOT NULL, step TEXT NOT NULL);
"""


class SqliteDatabase:
    """A SQLite file in a folder that may be a small disk."""

    insert_entry = f"INSERT INTO {_ENTRIES} VALUES (?, ?)"
    server = None

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder: pathlib.Path = folder
        self.file: pathlib.Path | None = folder / "torture.db"
        self.url: str = str(self.file)
        with contextlib.closing(sqlite3.connect(self.url)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(f"CREATE TABLE {_ENTRIES} (run TEXT NOT NULL, step TEXT NOT NULL)")

    def entries(self) -> list[tuple[str, str]]:
        """Return the rows that transactional steps inserted. No engine of this process may have the
        file open."""
        with contextlib.closing(sqlite3.connect(self.url)) as db:
            return list(db.execute(f"SELECT run, step FROM {_ENTRIES}"))


class PostgresDatabase:
    """A database of a server."""

    insert_entry = f"INSERT INTO public.{_ENTRIES} VALUES (%s, %s)"
    file = None

    def __init__(self, server: CrashingServer) -> None:
        self.folder: pathlib.Path = server.folder
        plain = server.server.new_database()
        server.server.execute(_CLOCK, plain)
        self._plain: str = plain
        # The function of the schema torture hides the one of the server, so that the clock of the
        # server can jump.
        self.url: str = plain + "&options=-csearch_path%3Dtorture,pg_catalog"
        self.server = DatabaseServer(server, plain)

    def entries(self) -> list[tuple[Any, ...]]:
        """Return the rows that transactional steps inserted."""
        return self.server.server.execute(f"SELECT run, step FROM public.{_ENTRIES}", self._plain)


class DatabaseServer:
    """The server, as the faults of one database see it."""

    def __init__(self, crashing: CrashingServer, url: str) -> None:
        self._crashing: CrashingServer = crashing
        self._url: str = url
        self.server: Server = crashing.server

    def cut_connections(self) -> None:
        """Cut every connection to this database."""
        self._crashing.try_to_execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname ="
            f" '{name_of(self._url)}'"
        )

    def set_clock_offset(self, nanoseconds: int) -> None:
        """Jump the clock of the server as this database sees it."""
        self._crashing.try_to_execute(
            f"UPDATE torture.clock_offset SET nanoseconds = {nanoseconds}", self._url
        )

    def kill_one(self) -> None:
        """Kill one process of the server with SIGKILL: all connections end and the server recovers
        from its log."""
        self._crashing.kill_one(name_of(self._url))

    def crash(self) -> None:
        """Stop the whole server as a power failure would, and start it again."""
        self._crashing.crash()

    def ensure_running(self) -> None:
        """Start the server again if a full disk has ended it."""
        self._crashing.ensure_running()


class CrashingServer:
    """A server that several rounds share and crash."""

    def __init__(self, server: Server, folder: pathlib.Path, dice: random.Random) -> None:
        self.server: Server = server
        self.folder: pathlib.Path = folder
        self._dice: random.Random = dice
        self._guard: threading.RLock = threading.RLock()

    def try_to_execute(self, sql: str, url: str = "") -> list[tuple[Any, ...]]:
        """Execute a statement; a server that is down at this moment is not an error."""
        import psycopg

        try:
            return self.server.execute(sql, url)
        except psycopg.Error:
            return []

    def crash(self) -> None:
        with self._guard:
            with contextlib.suppress(subprocess.CalledProcessError):
                self.server.stop("immediate")
            self.ensure_running()

    def kill_one(self, database: str) -> None:
        with self._guard:
            pids = self.try_to_execute(
                f"SELECT pid FROM pg_stat_activity WHERE datname = '{database}' AND pid <>"
                " pg_backend_pid()"
            )
            if pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._dice.choice(pids)[0], signal.SIGKILL)

    def ensure_running(self) -> None:
        with self._guard:
            if self.try_to_execute("SELECT 1"):
                return
            with contextlib.suppress(subprocess.CalledProcessError):
                self.server.stop("immediate")
            with contextlib.suppress(subprocess.CalledProcessError):
                # on a disk that is still full it fails; the next call tries again
                self.server.start()


@contextlib.contextmanager
def sqlite_databases(count: int, megabytes: int = 96) -> Iterator[list[SqliteDatabase]]:
    """Create SQLite files, each on a disk of its own."""
    with contextlib.ExitStack() as stack:
        databases = []
        for _ in range(count):
            folder = pathlib.Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="torture-"))
            )
            disk = folder / "disk"
            disk.mkdir()
            databases.append(SqliteDatabase(stack.enter_context(small_disk(disk, megabytes))))
        yield databases


@contextlib.contextmanager
def postgres_databases(
    count: int, seed: int, megabytes: int = 1024
) -> Iterator[list[PostgresDatabase]]:
    """Create databases on one server of their own."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="torture-")))
        disk = folder / "disk"
        disk.mkdir()
        stack.enter_context(small_disk(disk, megabytes))
        server = Server(durable=True, folder=disk)
        stack.callback(server.close)
        server.start()
        crashing = CrashingServer(server, disk, random.Random(seed))
        yield [PostgresDatabase(crashing) for _ in range(count)]
