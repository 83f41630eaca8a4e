"""What can be done to the keys that sign tokens."""

from __future__ import annotations

import msgspec

from holdfast.core.tokens import Reveal, in_clear


class OfferedKey(msgspec.Struct, frozen=True):
    """A key to be taken if there is none yet. The caller makes it, and seals its secret; the store
    keeps the first."""

    kid: str
    secret: bytes

    def __repr__(self) -> str:
        return f"<offered key {self.kid}>"


class NeedKey(msgspec.Struct):
    """Somebody must sign: answers the current Key, which is the offered one if there was none."""

    offered: OfferedKey


class RotateKey(msgspec.Struct):
    """Make this key the current one. The one before it stays good for ``grace`` microseconds; those
    whose time is over go. The same key again changes nothing. Answers Rotated. Raises KeyExists."""

    key: OfferedKey
    grace: int
    reveal: Reveal = in_clear
    """Opens the secrets of two keys of one name, to see whether they are the same."""


class ResealKey(msgspec.Struct):
    """Put the secret of a signing key into another seal. One that has changed meanwhile stays as it
    is. Answers whether it was changed."""

    kid: str
    old: bytes
    new: bytes

    def __repr__(self) -> str:
        return f"<new seal of key {self.kid}>"


class RotatedKey(msgspec.Struct):
    """The key that signs now; whether this rotation made it; until when the one before it is good;
    which ones went."""

    kid: str
    changed: bool
    previous: str | None = None
    good_until: int | None = None
    dropped: list[str] = []
