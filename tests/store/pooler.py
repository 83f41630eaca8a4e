"""Run a real pgbouncer in transaction mode in front of a server, if this machine has pgbouncer."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import psycopg

BINARY = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")

SETTINGS = """
[databases]
* = host={server} port=5432 user=postgres

[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 500
logfile = {folder}/log
"""


class Pooler:
    """A running pgbouncer."""

    def __init__(self, server, folder):
        self._server, self._folder = server, folder

    def url(self, url):
        """Return the URL of the same database through the pooler."""
        return url.replace(f"host={self._server.base}", f"host={self._folder}&port=6432")

    @property
    def log(self):
        return (self._folder / "log").read_text()


@contextmanager
def pooler(server, *, size=3):
    """Run pgbouncer for the duration of the block, as the user of the server: it refuses to run as
    root."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-pooler-"))
    folder.chmod(0o777)
    (folder / "settings").write_text(SETTINGS.format(server=server.base, folder=folder, size=size))
    process = subprocess.Popen(
        [*server._prefix, BINARY, str(folder / "settings")],
        stderr=subprocess.DEVNULL,
        **server._user,
    )
    made = Pooler(server, folder)
    try:
        _wait_for(made.url(server.url()))
        yield made
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(url):
    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(url).close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
