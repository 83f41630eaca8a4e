"""Record what the outside world saw: effects, acknowledgements, faults.

The ledger is a file that the engine neither reads nor writes. Its checks therefore do not depend on
what the engine believes.

Invariants:
- One entry is one write to a file opened for appending, so the order of the lines is the order of
  the writes of all processes.
- Entries are dated by the monotonic clock of the machine, which no clock jump moves.
"""

from __future__ import annotations

import json
import os
import pathlib
import time
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """One line of the ledger."""

    number: int
    kind: str
    at: float
    """Seconds of the monotonic clock."""
    pid: int
    facts: dict[str, Any]


class Ledger:
    """An append-only file that many processes share."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path: pathlib.Path = pathlib.Path(path)
        self._file: int = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, kind: str, **facts: Any) -> None:
        """Append one entry."""
        line = json.dumps([kind, time.monotonic(), os.getpid(), facts]) + "\n"
        os.write(self._file, line.encode())

    def entries(self) -> Iterator[Entry]:
        """Return all entries in the order in which they were written."""
        with self._path.open() as lines:
            for number, line in enumerate(lines):
                kind, at, pid, facts = json.loads(line)
                yield Entry(number, kind, at, pid, facts)

    def size(self) -> int:
        """Return the length of the file in bytes: where the next entry begins."""
        return os.fstat(self._file).st_size

    def has_since(self, position: int, kinds: Collection[str]) -> bool:
        """Return whether one of the entries after *position* is of one of these kinds."""
        with self._path.open("rb") as file:
            file.seek(position)
            return any(
                line.startswith(tuple(f'["{kind}"'.encode() for kind in kinds)) for line in file
            )

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
