"""A disk that forgets: record every write and sync of SQLite, then build what a power failure could
have left.

A power failure keeps what was synced. Of the writes since the last sync of a file, the disk may
have kept any, lost any, and torn any between two sectors. Each file is on its own.
"""

from __future__ import annotations

import pathlib
import random
from collections.abc import Sequence
from typing import Any

import apsw

SECTOR = 512
_REAL = apsw.vfs_names()[0]


class Recording:
    """Everything that happened to the files, in order, and what the program acknowledged in
    between."""

    def __init__(self) -> None:
        self.operations: list[tuple[Any, ...]] = []

    def acknowledge(self, fact: Any) -> None:
        """Note that the program has told the outside world of *fact*."""
        self.operations.append(("acknowledged", fact))

    def record(self) -> None:
        """Record all files that SQLite opens in this process from now on."""
        _RecordingDisk(self)


class _RecordingDisk(apsw.VFS):
    def __init__(self, recording: Recording) -> None:
        self._recording: Recording = recording
        super().__init__("recording", _REAL, makedefault=True)
        _KEPT.append(self)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _RecordingFile(self._recording, name, flags)

    def xDelete(self, name: str, sync: bool) -> None:
        self._recording.operations.append(("delete", name))
        super().xDelete(name, sync)


_KEPT: list[_RecordingDisk] = []
"""SQLite knows a disk only by name: it must not be freed."""


class _RecordingFile(apsw.VFSFile):
    def __init__(self, recording: Recording, name: Any, flags: list[int]) -> None:
        self._path: str = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self._operations: list[tuple[Any, ...]] = recording.operations
        super().__init__(_REAL, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._operations.append(("write", self._path, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:
        self._operations.append(("truncate", self._path, size))
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._operations.append(("sync", self._path))


class _Image:
    """One file as the disk has it: the synced bytes, and the operations since the last sync."""

    def __init__(self) -> None:
        self._synced: bytearray = bytearray()
        self._pending: list[tuple[Any, ...]] = []

    def add(self, operation: tuple[Any, ...]) -> None:
        if operation[0] != "sync":
            self._pending.append(operation)
            return
        for pending in self._pending:
            _apply(self._synced, pending)
        self._pending = []

    def after_power_loss(self, dice: random.Random) -> bytes:
        """Return one of the contents that a power failure at this moment may leave."""
        content = bytearray(self._synced)
        for operation in self._pending:
            fate = dice.choice(["kept", "lost", "torn"])
            if fate == "kept" or (fate == "torn" and operation[0] == "truncate"):
                _apply(content, operation)
            elif fate == "torn":
                for part in _sectors(operation):
                    if dice.random() < 0.5:
                        _apply(content, part)
        return bytes(content)


def _apply(content: bytearray, operation: tuple[Any, ...]) -> None:
    if operation[0] == "truncate":
        del content[operation[2] :]
        return
    _, _, offset, data = operation
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _sectors(operation: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Split a write at the borders of sectors."""
    kind, path, offset, data = operation
    parts = []
    while data:
        length = SECTOR - offset % SECTOR
        parts.append((kind, path, offset, data[:length]))
        offset += length
        data = data[length:]
    return parts


def power_losses(
    operations: Sequence[tuple[Any, ...]],
    database: pathlib.Path,
    folder: pathlib.Path,
    *,
    count: int,
    seed: int,
) -> Any:
    """Yield *count* databases in *folder* as power failures may leave them, each with the facts
    acknowledged by then."""
    dice = random.Random(seed)
    first = next(
        number for number, operation in enumerate(operations) if operation[0] == "acknowledged"
    )
    moments = sorted(dice.sample(range(first, len(operations)), count))
    images: dict[str, _Image] = {}
    acknowledged: list[Any] = []
    done = 0
    for moment in moments:
        for operation in operations[done:moment]:
            if operation[0] == "acknowledged":
                acknowledged.append(operation[1])
            elif operation[0] == "delete":
                images.pop(operation[1], None)
            else:
                images.setdefault(operation[1], _Image()).add(operation)
        done = moment
        target = folder / f"image-{moment}" / database.name
        target.parent.mkdir()
        for suffix in ("", "-wal"):
            image = images.get(f"{database}{suffix}")
            if image is not None:
                pathlib.Path(f"{target}{suffix}").write_bytes(image.after_power_loss(dice))
        yield target, list(acknowledged)
