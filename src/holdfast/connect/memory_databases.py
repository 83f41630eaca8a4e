"""Databases for tests that are gone after ``close``: files in a private folder, in memory where the
system has a file system in memory.

Invariants:
- The folder is removed when the last engine that uses it closes, or when the process ends.
- A forked child removes nothing: the folder belongs to its parent.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable

WARNING = (
    "this database is for tests: it is gone after close(), and no other process sees it; name a"
    " file to keep it"
)

_IN_MEMORY = "/dev/shm"


class _Folder:
    """The folder of one database, and the number of its users."""

    def __init__(self) -> None:
        parent = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
        self.path: str = tempfile.mkdtemp(prefix="holdfast-memory-", dir=parent)
        self.users: int = 0
        self.process: int = os.getpid()

    def remove(self) -> None:
        if self.process == os.getpid():
            shutil.rmtree(self.path, ignore_errors=True)


_folders: dict[str, _Folder] = {}
"""All folders of this process, by name; a database that is not shared has its path as its name."""
_guard = threading.Lock()


def take_memory_database(name: str) -> tuple[str, Callable[[], None]]:
    """Return the path of a database, and the function to call after it was closed. Engines that
    give the same *name* share one; an empty name stands for a database of its own."""
    warnings.warn(WARNING, UserWarning, stacklevel=_level_of_caller())
    with _guard:
        folder = _folders.get(name) if name else None
        if folder is None or folder.process != os.getpid():
            folder = _Folder()
            _folders[name or folder.path] = folder
        folder.users += 1
    key = name or folder.path
    return os.path.join(folder.path, "memory.db"), lambda: _leave(key)


def _level_of_caller() -> int:
    """Return how many calls above the warning the code is that opened the engine."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("holdfast."):
        frame = frame.f_back
        level += 1
    return level


def _leave(key: str) -> None:
    with _guard:
        folder = _folders.get(key)
        if folder is None:
            return
        folder.users -= 1
        if folder.users == 0:
            del _folders[key]
            folder.remove()


@atexit.register
def _remove_all() -> None:
    for folder in list(_folders.values()):
        folder.remove()
