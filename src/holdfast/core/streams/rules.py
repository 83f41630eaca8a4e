"""What a run puts out while it works: frames, in streams, one stream for each attempt. How much of
it is kept, and what the patches of a summary come to, is decided here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from holdfast.errors import BadPatch
from holdfast.errors.base import shown

LARGEST = 65_536
"""How many bytes a frame holds at most."""

DEEPEST = 16
"""How deep the objects of a patch may be nested."""

KEEP_DURABLE, KEEP_SUMMARY = 10_000, 64
"""How many frames of a stream are kept of each kind: of a summary only the last ones, for the
document has them all."""

FLOOR, CEILING, ALPHA, TTL = 64, 16_384, 0.2, 10_000_000
"""Of best effort: how many are kept at least and at most, how fast the measured rate follows, for
how long (microseconds)."""


class Null:
    """A JSON null as a value: in a patch ``None`` deletes."""

    def __repr__(self) -> str:
        return "null"


null = Null()


def plain(patch: Any) -> tuple[dict[str, Any], list[list[str]]]:
    """Return a patch as plain data, and the paths at which null is a value. Raises BadPatch."""
    if not isinstance(patch, Mapping):
        raise BadPatch(patch=type(patch).__name__, why="it must be an object: names and values")
    nulls: list[list[str]] = []
    return _plain(patch, [], nulls), nulls


def _plain(patch: Mapping[Any, Any], path: list[str], nulls: list[list[str]]) -> dict[str, Any]:
    if len(path) >= DEEPEST:
        raise BadPatch(path=".".join(path), why=f"it is nested deeper than {DEEPEST}")
    found: dict[str, Any] = {}
    for name, value in patch.items():
        if not isinstance(name, str):
            raise BadPatch(name=shown(name), why="names are texts")
        if isinstance(value, Mapping):
            found[name] = _plain(value, [*path, name], nulls)
        elif isinstance(value, Null):
            found[name] = None
            nulls.append([*path, name])
        else:
            found[name] = _without_null(value)
    return found


def _without_null(value: Any) -> Any:
    """In a list, where nothing is deleted, null is a value anyway."""
    if isinstance(value, list | tuple):
        return [None if isinstance(one, Null) else _without_null(one) for one in value]
    if isinstance(value, Mapping):
        return {
            name: None if isinstance(one, Null) else _without_null(one)
            for name, one in value.items()
        }
    return value


def split(
    patch: Mapping[str, Any], nulls: list[list[str]]
) -> tuple[dict[str, Any], list[list[str]]]:
    """Return what a patch sets, and the paths of what it deletes: a null says one or the other, as
    *nulls* tells."""
    sets: dict[str, Any] = {}
    deleted: list[list[str]] = []
    for name, value in patch.items():
        below = [path[1:] for path in nulls if path and path[0] == name]
        if value is None and [] not in below:
            deleted.append([name])
        elif isinstance(value, Mapping):
            sets[name], gone = split(value, below)
            deleted += [[name, *path] for path in gone]
            if gone and not sets[name]:
                del sets[name]
        else:
            sets[name] = value
    return sets, deleted


def merge(document: Any, patch: Mapping[str, Any], nulls: list[list[str]]) -> dict[str, Any]:
    """Return *document* as JSON Merge Patch changes it: null deletes, but not at the paths *nulls*;
    objects merge."""
    found = dict(document) if isinstance(document, Mapping) else {}
    for name, value in patch.items():
        below = [path[1:] for path in nulls if path and path[0] == name]
        if value is None and [] not in below:
            found.pop(name, None)
        elif isinstance(value, Mapping):
            found[name] = merge(found.get(name), value, below)
        else:
            found[name] = value
    return found


class FrameRate:
    """How often frames come, measured: an average that follows by a fifth with each of them."""

    __slots__ = ("last", "per_second")

    def __init__(self) -> None:
        self.per_second: float | None = None
        self.last = 0

    def came(self, now: int, ttl: int) -> int:
        """A frame came: return how many are to be kept, twice as many as come in *ttl*."""
        seconds = ttl / 1_000_000
        if self.per_second is None:
            self.per_second = FLOOR / (2 * seconds)
        else:
            passed = max((now - self.last) / 1_000_000, 0.001)
            self.per_second = ALPHA / passed + (1 - ALPHA) * self.per_second
        self.last = now
        return min(max(math.ceil(2 * self.per_second * seconds), FLOOR), CEILING)
