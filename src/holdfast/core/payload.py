"""Payloads: values that are stored apart from the row that they belong to."""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class Payload(msgspec.Struct):
    """A value that is kept apart, once for all who refer to it. ``digest`` is what it is known by,
    ``key`` the id of the key that it is encrypted with (empty for none), ``form`` says whether it
    is compressed, ``size`` how many bytes the value has."""

    digest: bytes
    key: str
    form: str
    size: int
    parts: list[bytes] = []

    @property
    def stored(self) -> int:
        """How many bytes it takes as it is kept."""
        return sum(len(part) for part in self.parts)


Fetch = Callable[[bytes], Payload | None]
"""What finds a payload by its digest."""


class Seal(msgspec.Struct, kw_only=True):
    """Why a database takes no writes. Exactly one of ``moved_to`` and ``copied_from`` is set: a URL
    without its password."""

    at: int
    moved_to: str | None = None
    """Where all its runs continue: nothing is to be read here any more."""
    copied_from: str | None = None
    """Where the runs continue of which this database holds a copy to look at."""
    copy_id: str | None = None
    """The copy that has sealed it."""
