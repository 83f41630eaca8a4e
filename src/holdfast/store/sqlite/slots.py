"""How processes on one host see each other die: each locks one byte of a file beside the database.

The system lets go of the lock in the very moment in which a process ends, however it ends. POSIX locks belong to the process,
and closing any descriptor of the file drops them all, so each process opens the file once and keeps it open while it has one.
"""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: sessions are noticed by their heartbeat alone
    fcntl = None  # type: ignore[assignment, unused-ignore]

SLOTS = 2**30
"""So many places, drawn by lot, that nobody gets the place of one who died before his death was noticed."""

_TRIES = 100
_lot = random.SystemRandom()


class Slots:
    """The locked bytes of one file, as this process sees them. A lock asks other processes only; threads need a lock of ours."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.pid = os.getpid()
        self.own: set[int] = set()
        self.fd = -1
        self._guard = threading.Lock()

    @contextmanager
    def _opened(self) -> Iterator[None]:
        """Have the file open, for one thread. It stays open only while one of its bytes is ours."""
        with self._guard:
            if self.fd < 0:
                self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
            try:
                yield
            finally:
                if not self.own:
                    os.close(self.fd)
                    self.fd = -1

    def take(self) -> int:
        """Lock a free byte and return its place, or -1 where the system has no such locks."""
        if fcntl is None:
            return -1
        with self._opened():
            for _ in range(_TRIES):
                place = _lot.randrange(SLOTS)
                if place not in self.own and self._lock(place):
                    self.own.add(place)
                    return place
        return -1

    def free(self, place: int) -> None:
        """Unlock a byte of ours."""
        if fcntl is None or place not in self.own:
            return
        with self._opened():
            self.own.discard(place)
            fcntl.lockf(self.fd, fcntl.LOCK_UN, 1, place)

    def is_alive(self, place: int) -> bool | None:
        """Say whether the process that locked *place* lives; None when that cannot be told."""
        if fcntl is None or place < 0:
            return None
        with self._opened():
            if place in self.own:
                return True
            locked = self._lock(place)
            if locked:
                fcntl.lockf(self.fd, fcntl.LOCK_UN, 1, place)
            return None if locked is None else not locked

    def _lock(self, place: int) -> bool | None:
        """Lock a byte; False when another process has it, None when this file system has no locks."""
        try:
            fcntl.lockf(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except OSError as error:
            return False if error.errno in (errno.EACCES, errno.EAGAIN) else None
        return True


_open: dict[str, Slots] = {}
_guard = threading.Lock()


def slots_of(database: str) -> Slots:
    """Return the one view that this process has of the file beside *database*."""
    path = os.path.realpath(database) + "-sessions"
    with _guard:
        found = _open.get(path)
        if found is None or found.pid != os.getpid() or not os.path.exists(path):
            found = _open[path] = Slots(path)
        return found
