"""Operations on the keys that sign tokens."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from holdfast.core.tokens import Reveal, in_clear
from holdfast.store.database import Operation


class OfferedKey(msgspec.Struct, frozen=True):
    """A new key, made by the caller with a sealed secret. The store keeps it only if it has no key
    yet."""

    kid: str
    secret: bytes

    def __repr__(self) -> str:
        return f"<offered key {self.kid}>"


class NeedKey(Operation):
    """Return the key that signs; store the offered one if there is none.

    Answers:
        SigningKey  the current key
    """

    offered: OfferedKey


class RotateKey(Operation):
    """Make this key the current one. The previous key stays valid for ``grace`` microseconds; keys
    whose time is over are deleted. Repeating the rotation changes nothing.

    Answers:
        RotatedKey
    Raises:
        KeyExists  there is a key of this id with another secret
    """

    may_refuse_late: ClassVar[bool] = True

    key: OfferedKey
    grace: int
    reveal: Reveal = in_clear
    """Opens the secrets of two keys of the same id, to compare them."""


class ResealKey(Operation):
    """Replace the sealed secret of a signing key by the same secret under another seal, if it is
    still ``old``.

    Answers:
        bool  whether it was replaced
    """

    kid: str
    old: bytes
    new: bytes

    def __repr__(self) -> str:
        return f"<new seal of key {self.kid}>"


class RotatedKey(msgspec.Struct):
    """The key that signs now, whether this rotation made it the current one, the previous key and
    until when it is valid, and the ids of the deleted keys."""

    kid: str
    changed: bool
    previous: str | None = None
    good_until: int | None = None
    dropped: list[str] = []
