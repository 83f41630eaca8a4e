"""Rules of output streams: how many frames are kept, and how patches change a summary. Pure.

A run appends frames to streams while it works; each attempt has a stream of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from holdfast.errors import BadPatch
from holdfast.errors.base import safe_repr

LARGEST = 65_536
"""The largest size of a frame, in bytes: of the encoded value or, for a blob, of the bytes before
their encoding."""

DEEPEST = 16
"""The largest number of nested objects of a patch."""

KEEP_DURABLE = 10_000
"""How many durable frames of a stream are kept."""

KEEP_SUMMARY = 64
"""How many patches of a summary are kept: only the last ones, because the document contains the
effect of all of them."""

FLOOR = 64
"""The least number of best-effort frames that is kept."""

CEILING = 16_384
"""The largest number of best-effort frames that is kept."""

ALPHA = 0.2
"""The weight of the latest interval in the measured rate of best-effort frames."""

TTL = 10_000_000
"""How long best-effort frames are kept, in microseconds."""


def frame_size(value: Any, encoded: bytes) -> int:
    """Return the size of a frame that LARGEST limits. Bytes take a third more once they are
    encoded, which their sender does not see."""
    return len(value) if isinstance(value, bytes) else len(encoded)


class Null:
    """A JSON null as a value: in a patch, ``None`` deletes a field."""

    def __repr__(self) -> str:
        return "null"


null = Null()


def plain(patch: Any) -> tuple[dict[str, Any], list[list[str]]]:
    """Return a patch as plain data, and the paths at which null is a value. Raises BadPatch."""
    if not isinstance(patch, Mapping):
        raise BadPatch(
            patch=type(patch).__name__, why="a patch must be a mapping of names to values"
        )
    nulls: list[list[str]] = []
    return _plain(patch, [], nulls), nulls


def _plain(patch: Mapping[Any, Any], path: list[str], nulls: list[list[str]]) -> dict[str, Any]:
    if len(path) >= DEEPEST:
        raise BadPatch(path=".".join(path), why=f"the patch is nested deeper than {DEEPEST} levels")
    fields: dict[str, Any] = {}
    for name, value in patch.items():
        if not isinstance(name, str):
            raise BadPatch(name=safe_repr(name), why="the name of a field must be text")
        if isinstance(value, Mapping):
            fields[name] = _plain(value, [*path, name], nulls)
        elif isinstance(value, Null):
            fields[name] = None
            nulls.append([*path, name])
        else:
            fields[name] = _without_null(value)
    return fields


def _without_null(value: Any) -> Any:
    """Return a value of a patch with ``Null`` as None: inside a list nothing is deleted, so that
    null is always a value there."""
    if isinstance(value, list | tuple):
        return [None if isinstance(item, Null) else _without_null(item) for item in value]
    if isinstance(value, Mapping):
        return {
            name: None if isinstance(item, Null) else _without_null(item)
            for name, item in value.items()
        }
    return value


def split(
    patch: Mapping[str, Any], nulls: list[list[str]]
) -> tuple[dict[str, Any], list[list[str]]]:
    """Return the fields that a patch sets, and the paths of the fields that it deletes. A null
    sets a field if its path is in *nulls*, otherwise it deletes it."""
    sets: dict[str, Any] = {}
    deleted: list[list[str]] = []
    for name, value in patch.items():
        below = [path[1:] for path in nulls if path and path[0] == name]
        if value is None and [] not in below:
            deleted.append([name])
        elif isinstance(value, Mapping):
            sets[name], deleted_below = split(value, below)
            deleted += [[name, *path] for path in deleted_below]
            if deleted_below and not sets[name]:
                del sets[name]
        else:
            sets[name] = value
    return sets, deleted


def merge(document: Any, patch: Mapping[str, Any], nulls: list[list[str]]) -> dict[str, Any]:
    """Return *document* with a JSON Merge Patch (RFC 7396) applied: objects merge, and null deletes
    a field, except at the paths *nulls*, where it is a value."""
    merged = dict(document) if isinstance(document, Mapping) else {}
    for name, value in patch.items():
        below = [path[1:] for path in nulls if path and path[0] == name]
        if value is None and [] not in below:
            merged.pop(name, None)
        elif isinstance(value, Mapping):
            merged[name] = merge(merged.get(name), value, below)
        else:
            merged[name] = value
    return merged


class FrameRate:
    """The measured rate of frames: an exponential moving average with the weight ALPHA."""

    __slots__ = ("last", "per_second")

    def __init__(self) -> None:
        self.per_second: float | None = None
        self.last = 0

    def came(self, now: int, ttl: int) -> int:
        """Count a frame at *now* and return how many frames to keep: twice as many as arrive within
        *ttl*, between FLOOR and CEILING. Times are microseconds."""
        seconds = ttl / 1_000_000
        if self.per_second is None:
            self.per_second = FLOOR / (2 * seconds)  # so that the first answer is FLOOR
        else:
            elapsed = max((now - self.last) / 1_000_000, 0.001)  # several frames may share a time
            self.per_second = ALPHA / elapsed + (1 - ALPHA) * self.per_second
        self.last = now
        return min(max(math.ceil(2 * self.per_second * seconds), FLOOR), CEILING)
