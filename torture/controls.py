"""Share two settings with all processes of a round: the offset of the wall clock, and whether
clients start new runs.

The offset is how a round jumps the clock of the machine: every process of the round adds it to the
time that Python reports.
"""

from __future__ import annotations

import mmap
import os
import pathlib
import struct
import time

_OFFSET = struct.Struct("q")
_ACCEPTS = struct.Struct("q")
_SIZE = _OFFSET.size + _ACCEPTS.size


class Controls:
    """A few numbers in a memory-mapped file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        file = pathlib.Path(path)
        if not file.exists():
            file.write_bytes(bytes(_SIZE))
        with file.open("r+b") as handle:
            self._map: mmap.mmap = mmap.mmap(handle.fileno(), _SIZE)

    @property
    def clock_offset(self) -> int:
        """Nanoseconds by which the wall clock of the round is ahead of the clock of the machine."""
        offset: int = _OFFSET.unpack_from(self._map, 0)[0]
        return offset

    @property
    def accepts_runs(self) -> bool:
        """Whether clients start new runs."""
        return bool(_ACCEPTS.unpack_from(self._map, _OFFSET.size)[0])

    def set(self, *, clock_offset: int | None = None, accepts_runs: bool | None = None) -> None:
        """Change the settings that are given. Each is written alone: two threads of a round set one
        each."""
        if clock_offset is not None:
            _OFFSET.pack_into(self._map, 0, clock_offset)
        if accepts_runs is not None:
            _ACCEPTS.pack_into(self._map, _OFFSET.size, int(accepts_runs))

    def replace_wall_clock(self) -> None:
        """Let this process see the wall clock of the round. The monotonic clock stays as it is, as
        on a real machine."""
        real_time_ns = time.time_ns
        time.time_ns = lambda: real_time_ns() + self.clock_offset
        time.time = lambda: time.time_ns() / 1_000_000_000

    def close(self) -> None:
        """Unmap the file."""
        self._map.close()
