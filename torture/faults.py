"""The faults of a round. Each names its kind, so that the figures count it."""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any, Protocol

from torture.controls import Controls
from torture.ledger import Ledger

HOUR = 3_600 * 1_000_000_000


class Process(Protocol):
    """A process of the round, as multiprocessing shows it."""

    pid: int | None

    def is_alive(self) -> bool: ...
    def kill(self) -> None: ...
    def join(self, timeout: float | None = None) -> None: ...


class Faults:
    """Everything that one round can break, chosen by dice."""

    def __init__(
        self,
        *,
        dice: random.Random,
        ledger: Ledger,
        controls: Controls,
        victims: Callable[[str], list[Any]],
        folder: pathlib.Path,
        database: pathlib.Path | None,
        server: Any,
        without: frozenset[str] = frozenset(),
    ) -> None:
        self._dice: random.Random = dice
        self._ledger: Ledger = ledger
        self._controls: Controls = controls
        self._victims: Callable[[str], list[Any]] = victims
        self._folder: pathlib.Path = folder
        self._database: pathlib.Path | None = database
        self._server: Any = server
        self._without: frozenset[str] = without
        self._ends: list[tuple[float, Callable[[], None]]] = []
        self._coming: list[tuple[str, Callable[[], None]]] = []

    def next(self) -> str:
        """Inject the next fault and return its kind. Faults come in shuffled rounds that hold every
        kind, so none is left out."""
        if not self._coming:
            self._coming = self._round()
            self._dice.shuffle(self._coming)
        kind, inject = self._coming.pop()
        self._ledger.write("fault", fault=kind)
        inject()
        return kind

    def _round(self) -> list[tuple[str, Callable[[], None]]]:
        faults: list[tuple[str, Callable[[], None]]] = []
        faults += [("worker killed", lambda: self._kill("worker"))] * 6
        faults += [("client killed", lambda: self._kill("client"))] * 3
        faults += [("task holder killed", lambda: self._kill("holder"))] * 3
        faults += [("worker stopped for long", lambda: self._stop("worker", 3.0))]
        faults += [("worker stopped briefly", lambda: self._stop("worker", 0.4))] * 2
        faults += [("task holder stopped", lambda: self._stop("holder", 1.5))]
        faults += [
            ("clock set forward", lambda: self._move_clock(1)),
            ("clock set back", lambda: self._move_clock(-1)),
        ]
        if os.path.ismount(self._folder):
            faults += [("disk full", self._fill_disk)]
        if self._database is not None:
            faults += [
                ("session file deleted", self._delete_session_file),
                ("database file moved away", self._move_database),
            ]
        if self._server is not None:
            faults += [("connections cut", self._server.cut_connections)] * 4
            faults += [("server process killed", self._server.kill_one)] * 2
            faults += [("server crashed", self._server.crash)] * 3
        return [(kind, inject) for kind, inject in faults if kind not in self._without]

    def end_due(self) -> None:
        """End the faults whose time is up."""
        now = time.monotonic()
        due = [end for at, end in self._ends if at <= now]
        self._ends = [(at, end) for at, end in self._ends if at > now]
        for end in due:
            end()

    def end_all(self) -> None:
        """End all faults that still last."""
        ends = [end for _, end in self._ends]
        self._ends = []
        for end in ends:
            end()

    def _later(self, seconds: float, end: Callable[[], None]) -> None:
        self._ends.append((time.monotonic() + seconds, end))

    def _kill(self, role: str) -> None:
        victim = self._dice.choice(self._victims(role))
        victim.kill()
        victim.join()

    def _stop(self, role: str, seconds: float) -> None:
        victim = self._dice.choice(self._victims(role))
        _send(victim, signal.SIGSTOP)
        self._later(seconds, lambda: _send(victim, signal.SIGCONT))

    def _move_clock(self, direction: int) -> None:
        jump = self._dice.choice([HOUR // 1_800, HOUR // 60, HOUR])
        self._controls.set(clock_offset=self._controls.clock_offset + direction * jump)
        if self._server is not None:
            self._server.set_clock_offset(self._controls.clock_offset)

    def _fill_disk(self) -> None:
        ballast = self._folder / "ballast"
        _fill(ballast)
        self._later(self._dice.uniform(0.2, 0.8), lambda: ballast.unlink(missing_ok=True))
        if self._server is not None:
            self._later(1.0, self._server.ensure_running)

    def _delete_session_file(self) -> None:
        assert self._database is not None
        for path in self._database.parent.glob(f"{self._database.name}-*"):
            if not path.name.endswith(("-wal", "-shm", "-journal")):
                path.unlink(missing_ok=True)

    def _move_database(self) -> None:
        assert self._database is not None
        away = self._database.with_suffix(".away")
        if away.exists():
            return
        self._database.rename(away)
        time.sleep(0.1)  # shorter than a start of a process, which would create another database
        away.rename(self._database)


def _fill(path: pathlib.Path) -> None:
    """Write a file until the disk is full. Most of it is only reserved, which takes no time."""
    with contextlib.suppress(OSError), path.open("ab", buffering=0) as file:
        disk = os.statvfs(path)
        with contextlib.suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, max(1, (disk.f_bavail - 256) * disk.f_bsize))
        size = 1 << 20
        while size >= 512:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2


def _send(process: Any, number: signal.Signals) -> None:
    if process.is_alive() and process.pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


@contextlib.contextmanager
def small_disk(folder: pathlib.Path, megabytes: int) -> Any:
    """Mount a small disk in *folder* for the block; without the right to mount, the folder is an
    ordinary one."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "torture", str(folder)]
    mounted = (
        shutil.which("mount") is not None
        and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )
    try:
        yield folder
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=False)
