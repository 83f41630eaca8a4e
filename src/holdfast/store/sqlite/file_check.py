"""Detect that the files of an open database were deleted, moved or replaced.

SQLite keeps its files open, so it would write on into files that no later process finds. After each
commit, and before it acknowledges anything, the store therefore compares the files that the path
leads to with the files that it opened.

The usual check is one ``stat`` of the folder, whose modification time changes whenever an entry is
created, deleted or renamed. Only then are the files themselves compared.
"""

from __future__ import annotations

import os
import time

SUFFIXES = ("", "-wal", "-shm")

SETTLED_NS = 100_000_000
"""A folder that changed more recently than this may change again without a new modification time:
most file systems count in steps of up to 10 ms."""

COARSE_NS = 10_000_000
COARSELY_SETTLED_NS = 2_500_000_000
"""The same if modification times are multiples of 10 ms: such a file system may count in steps of
up to two seconds."""

_Identity = tuple[int, int]


class OpenFiles:
    """The files of one open database, as this process opened them."""

    def __init__(self, path: str) -> None:
        self._path: str = path
        self._real: str = os.path.realpath(path)
        self._folder: str = os.path.dirname(self._real)
        self._is_link: bool = self._real != path
        self._opened: dict[str, _Identity | None] = {
            suffix: _identity(self._real + suffix) for suffix in SUFFIXES
        }
        self._sound: tuple[int, int, int] | None = None
        """The state of the folder in which all files were in place."""

    def loss(self) -> str | None:
        """Return what happened to the files since they were opened; None if they are in place."""
        try:
            folder = os.stat(self._folder)
        except OSError:
            return f"the folder {self._folder} is gone"
        state = (folder.st_mtime_ns, folder.st_ino, folder.st_dev)
        if state == self._sound:
            return None
        loss = self._compare()
        needed = SETTLED_NS if folder.st_mtime_ns % COARSE_NS else COARSELY_SETTLED_NS
        is_settled = time.time_ns() - folder.st_mtime_ns > needed
        # The folder says nothing about a link, which may be in another folder.
        is_sound = loss is None and is_settled and not self._is_link
        self._sound = state if is_sound else None
        return loss

    def are_replaced(self) -> bool:
        """Return whether another file has the name of one that is open. SQLite deletes its WAL by
        name when it closes a database, which would then be the WAL of the other database."""
        return any(
            (present := _identity(self._real + suffix)) is not None and present != opened
            for suffix, opened in self._opened.items()
        )

    def _compare(self) -> str | None:
        if self._is_link and os.path.realpath(self._path) != self._real:
            return f"{self._path} leads to another file than when it was opened"
        for suffix, opened in self._opened.items():
            present = _identity(self._real + suffix)
            if opened is None:
                self._opened[suffix] = present  # SQLite creates it when it first needs it
            elif present is None:
                return f"{self._real}{suffix} was deleted or moved"
            elif present != opened:
                return f"{self._real}{suffix} was replaced by another file"
        return None


def _identity(path: str) -> _Identity | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
