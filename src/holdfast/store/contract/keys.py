"""What can be done to the keys that sign tokens."""

from __future__ import annotations

import msgspec


class OfferedKey(msgspec.Struct, frozen=True):
    """A key to be taken if there is none yet. Who rolls the dice brings it; the store keeps the first."""

    kid: str
    secret: bytes

    def __repr__(self) -> str:
        return f"<offered key {self.kid}>"


class NeedKey(msgspec.Struct):
    """Somebody must sign: answers the current Key, which is the offered one if there was none."""

    offered: OfferedKey


class RotateKey(msgspec.Struct):
    """Make this key the current one. The one before it stays good for ``grace`` microseconds; those whose time is over go.
    The same key again changes nothing. Answers Rotated. Raises KeyExists."""

    key: OfferedKey
    grace: int


class Rotated(msgspec.Struct):
    """The key that signs now; whether this rotation made it; until when the one before it is good; which ones went."""

    kid: str
    changed: bool
    previous: str | None = None
    good_until: int | None = None
    dropped: list[str] = []
