"""Encode lists as binary arrays of PostgreSQL, at a tenth of psycopg's cost.

psycopg inspects the type of each item; these lists know the type of their items.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, ClassVar

from psycopg import pq
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.types.numeric import Int8BinaryDumper


class Texts(list[Any]):
    """A list of strings or None."""


class Numbers(list[Any]):
    """A list of integers or None."""


class Blobs(list[Any]):
    """A list of bytes or None."""


_head = struct.Struct("!iiIii").pack
_empty = struct.Struct("!iiI").pack
_length = struct.Struct("!i").pack
_number = struct.Struct("!iq").pack
_NULL = _length(-1)


class _ArrayDumper(Dumper):
    format = pq.Format.BINARY
    item: ClassVar[int]

    def dump(self, obj: list[Any]) -> bytes:
        if not obj:
            return _empty(0, 0, self.item)
        count = len(obj)
        if obj.count(obj[0]) == count:  # many columns have one value: encode it once
            return _head(1, 1, self.item, count, 1) + self.parts(obj[:1])[0] * count
        return _head(1, 1, self.item, count, 1) + b"".join(self.parts(obj))

    def parts(self, obj: list[Any]) -> list[bytes]:
        """Return each value preceded by its length."""
        raise NotImplementedError


class _Texts(_ArrayDumper):
    oid = 1009
    item = 25

    def parts(self, obj: list[str | None]) -> list[bytes]:
        return [
            _NULL if value is None else _length(len(text := value.encode())) + text for value in obj
        ]


class _Numbers(_ArrayDumper):
    oid = 1016
    item = 20

    def parts(self, obj: list[int | None]) -> list[bytes]:
        return [_NULL if value is None else _number(8, value) for value in obj]


class _Blobs(_ArrayDumper):
    oid = 1001
    item = 17

    def parts(self, obj: list[bytes | None]) -> list[bytes]:
        return [_NULL if value is None else _length(len(value)) + value for value in obj]


ENCODERS: dict[type, Callable[[Any], bytes]] = {
    Texts: _Texts(Texts).dump,
    Numbers: _Numbers(Numbers).dump,
    Blobs: _Blobs(Blobs).dump,
}
"""Encoders to the binary format, by type of list."""


def register(adapters: AdaptersMap) -> None:
    """Register the lists with a cursor, and send every integer as BIGINT.

    psycopg would choose the integer type by size, and each size would be another prepared
    statement.
    """
    adapters.register_dumper(int, Int8BinaryDumper)
    adapters.register_dumper(Texts, _Texts)
    adapters.register_dumper(Numbers, _Numbers)
    adapters.register_dumper(Blobs, _Blobs)
