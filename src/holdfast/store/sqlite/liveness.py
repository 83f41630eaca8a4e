"""Process liveness: each worker locks one byte (its slot) of a file beside the database.

The system releases a lock when its process ends, however it ends, so other processes of the host
notice a death at once.

Invariants:
- A session is dead only if its byte is free *and* its process is gone. A free byte alone proves
  nothing: the file may have been deleted or replaced, or the lock dropped. A process id alone
  proves nothing either: containers that share a file and a host name do not see each other's
  processes. If the two disagree, the heartbeat decides.
- The lock belongs to the open file (``F_OFD_SETLK``) where the system can do that. POSIX locks
  belong to the process and vanish when any part of the process closes any descriptor of the file;
  they are only the fallback.
- ``keep`` runs twice a second and restores the lock if the file or the lock is gone.
"""

from __future__ import annotations

import errno
import os
import random
import socket
import struct
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from holdfast.core.sessions import Session

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: only heartbeats show that a process is dead
    fcntl = None  # type: ignore[assignment, unused-ignore]

SLOTS = 2**30
"""The number of slots. A new worker draws one at random, so it does not get the slot of a dead
worker before that is noticed."""

MODE = 0o600

_TRIES = 100
# Not the shared generator: processes that seed it alike would draw the same slots.
_lot = random.SystemRandom()
_SET_LOCK: int | None = getattr(fcntl, "F_OFD_SETLK", None)
"""The command that locks for an open file; None where only POSIX locks exist."""


class LivenessLocks:
    """The slots of one file, as this process sees them. File locks do not exclude threads of the
    same process; ``_guard`` does."""

    def __init__(self, path: str) -> None:
        self.path: str = path
        self.own: set[int] = set()
        self._fd: int = -1
        self._identity: tuple[int, int] | None = None
        self._guard = threading.Lock()
        _views.add(self)

    def take(self) -> int:
        """Lock a free slot and return it; -1 where the system or the file system has no locks."""
        if fcntl is None:
            return -1
        with suppress(OSError), self._opened():
            for _ in range(_TRIES):
                slot = _lot.randrange(SLOTS)
                if slot not in self.own and self._lock(slot):
                    self.own.add(slot)
                    return slot
        return -1

    def keep(self, slot: int) -> bool:
        """Lock a slot of this process again if its lock, or the file, is gone. Return whether the
        slot is locked, or was never taken."""
        if fcntl is None or slot not in self.own:
            return True
        with suppress(OSError), self._opened():
            return self._lock(slot) is True  # without effect on a lock that is still held
        return False

    def free(self, slot: int) -> None:
        """Unlock a slot of this process."""
        if fcntl is None or slot not in self.own:
            return
        self.own.discard(slot)
        with suppress(OSError), self._opened():
            self._unlock(slot)

    def is_alive(self, slot: int, pid: int) -> bool | None:
        """Return whether the process *pid*, which locked *slot*, is alive; None if that
        is unknown."""
        if fcntl is None or slot < 0:
            return None
        # Not tried: a lock does not exclude its own process, and the unlock would drop it.
        if slot in self.own:
            return True
        try:
            with self._opened():
                locked = self._lock(slot)
                if locked:
                    self._unlock(slot)
        except OSError:
            return None
        if locked is False:
            return True
        return False if locked and is_gone(pid) else None

    def abandon(self) -> None:
        """Close the file in a forked child: a lock of an open file lasts as long as any process has
        that file open."""
        if self._fd >= 0:
            os.close(self._fd)

    @contextmanager
    def _opened(self) -> Iterator[None]:
        """Keep the file open for one thread. It stays open only while a slot of it belongs to this
        process. Raises OSError."""
        with self._guard:
            self._open()
            try:
                yield
            finally:
                if not self.own:
                    os.close(self._fd)
                    self._fd = -1

    def _open(self) -> None:
        if self._fd >= 0 and self._is_current():
            return
        stale = self._fd if self._fd >= 0 and _identity(self._fd) == self._identity else -1
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), MODE)
        self._identity = _identity(self._fd)
        # Any other descriptor was closed by the program; its number may belong to another file now.
        if stale >= 0:
            os.close(stale)
        for slot in self.own:
            self._lock(slot)

    def _is_current(self) -> bool:
        """Return whether the descriptor still belongs to this object, and the path still leads to
        its file."""
        return self._identity is not None and _identity(self._fd) == self._identity == _identity(
            self.path
        )

    def _lock(self, slot: int) -> bool | None:
        """Lock a slot and return True; return False if another process has locked it, None if this
        file system has no locks."""
        try:
            if _SET_LOCK is None:
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, slot)
            else:
                fcntl.fcntl(self._fd, _SET_LOCK, _flock(fcntl.F_WRLCK, slot))
        except OSError as error:
            return False if error.errno in (errno.EACCES, errno.EAGAIN) else None
        return True

    def _unlock(self, slot: int) -> None:
        if _SET_LOCK is None:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, slot)
        else:
            fcntl.fcntl(self._fd, _SET_LOCK, _flock(fcntl.F_UNLCK, slot))


class SqliteLiveness:
    """The liveness of the processes that share one database file."""

    def __init__(self, path: str) -> None:
        self._path: str = path

    def is_alive(self, session: Session) -> bool | None:
        """Return whether the process of a session is alive; None if it is on another host."""
        if session.host != socket.gethostname():
            return None
        return liveness_locks_of(self._path).is_alive(session.slot, session.pid)

    def was_away(self) -> bool:
        """Return False: a file is always in reach."""
        return False

    def acquire(self) -> int:
        """Lock a byte by which other processes see that this process is alive."""
        return liveness_locks_of(self._path).take()

    def keep(self, slot: int) -> bool:
        """Lock the byte again if its lock or the file is gone; return whether it is locked."""
        return liveness_locks_of(self._path).keep(slot)

    def release(self, slot: int) -> None:
        """Unlock the byte."""
        liveness_locks_of(self._path).free(slot)


def is_gone(pid: int) -> bool:
    """Return whether no live process of this host has this id. A zombie is not alive, and neither
    counts this process itself.

    This process knows its own slots, so a session with its id and another slot belongs to an
    earlier process: the first process of a container has the same id after each restart.
    """
    if pid <= 0 or pid == os.getpid():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # it exists and belongs to another user
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except (OSError, IndexError):
        return False


def _identity(file: int | str) -> tuple[int, int] | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _flock(kind: int, slot: int) -> bytes:
    """Return Linux's ``struct flock`` for one byte; the process id must be 0 for locks of an open
    file."""
    return struct.pack("@hhqqi4x", kind, os.SEEK_SET, slot, 1, 0)


_views: weakref.WeakSet[LivenessLocks] = weakref.WeakSet()
_open: dict[str, LivenessLocks] = {}
_guard = threading.Lock()


def liveness_locks_of(database: str) -> LivenessLocks:
    """Return the one view that this process has of the file beside *database*."""
    path = os.path.realpath(database) + "-sessions"
    with _guard:
        view = _open.get(path)
        if view is None:
            view = _open[path] = LivenessLocks(path)
        return view


def _abandon_all() -> None:
    """Forget all slots in a forked child: they, and guards that another thread may have held,
    belong to the parent."""
    global _guard
    _guard = threading.Lock()
    for view in list(_views):
        view.abandon()
    _open.clear()
    _views.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)
