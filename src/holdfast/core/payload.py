"""Records of payloads, which are stored separately from the row that refers to them, and of the
seal of a database."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

INLINE_LIMIT = 64 * 1024
"""A value of more bytes than this is kept apart, unless the engine has another setting."""


class Payload(msgspec.Struct):
    """A value that is stored once for all rows that refer to it.

    ``digest`` identifies it; ``key`` is the id of its encryption key (empty if it is not
    encrypted); ``form`` tells whether it is compressed; ``size`` is the size of the value in
    bytes."""

    digest: bytes
    key: str
    form: str
    size: int
    parts: list[bytes] = []

    @property
    def stored(self) -> int:
        """The bytes that the payload takes in storage."""
        return sum(len(part) for part in self.parts)


Fetch = Callable[[bytes], Payload | None]
"""Return the payload with a digest; None if there is none."""


class Seal(msgspec.Struct, kw_only=True):
    """The reason why a database accepts no writes. Exactly one of ``moved_to`` and ``copied_from``
    is set: a URL without its password."""

    at: int
    moved_to: str | None = None
    """The database in which all runs continue; this one is not to be read any more."""
    copied_from: str | None = None
    """The database in which the runs continue; this one holds a copy for reading."""
    copy_id: str | None = None
    """The id of the copy operation that sealed this database."""
