"""The format of a sealed value: compressed, encrypted or kept apart. Pure: bytes in, bytes out.

JSON never begins with a zero byte; a sealed value does. The id of its key follows (empty if the
value is not encrypted), another zero byte, and one letter for its form, so that a database can tell
from the first bytes which keys are in use::

    00 <key id> 00 p <body>             as it was
    00 <key id> 00 z <body>             compressed
    00 <key id> 00 a <digest> <size>    kept apart, under its digest of 32 bytes; the size of the
                                        value in 8 bytes; then, if it is encrypted, a tag of 16
                                        bytes that binds both to their place
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.errors import BadData

MARK = b"\x00"
PLAIN, PACKED, APART = b"p", b"z", b"a"
KEY_ID = r"[A-Za-z0-9._-]{1,64}"
"""What the id of a key looks like."""

_DIGEST, _SIZE = 32, 8
REFERENCE = _DIGEST + _SIZE
"""How many bytes refer to a value that is kept apart; where it is encrypted, a tag follows that
binds them to their place."""


class Envelope(NamedTuple):
    """A sealed value, taken to pieces."""

    key: str
    form: bytes
    body: bytes


def is_sealed(data: bytes | None) -> bool:
    """Say whether a stored value must be opened before it can be read."""
    return data is not None and data[:1] == MARK


def head(key: str, form: bytes) -> bytes:
    """Return the first bytes of a sealed value."""
    return MARK + key.encode() + MARK + form


def split(data: bytes) -> Envelope:
    """Take a sealed value to pieces. Raises BadData."""
    end = data.find(MARK, 1)
    if end < 0 or data[end + 1 : end + 2] not in (PLAIN, PACKED, APART):
        raise BadData(why="it begins like a sealed value and is none")
    return Envelope(
        data[1:end].decode("utf-8", "replace"), data[end + 1 : end + 2], data[end + 2 :]
    )


def reference(key: str, digest: bytes, size: int) -> bytes:
    """Return what stands in the column of a value that is kept apart."""
    return head(key, APART) + digest + size.to_bytes(_SIZE, "big")


def digest_of(data: bytes | None) -> bytes | None:
    """Return the digest under which a value is kept apart; None when it is not."""
    if data is None or data[:1] != MARK:
        return None
    found = split(data)
    return found.body[:_DIGEST] if found.form == APART else None


def size_of(data: bytes) -> int:
    """Return how many bytes a value has that is kept apart."""
    return int.from_bytes(split(data).body[_DIGEST : _DIGEST + _SIZE], "big")


def digests_of(*values: bytes | None) -> set[bytes]:
    """Return the digests of all of these that are kept apart."""
    return {digest for value in values if (digest := digest_of(value)) is not None}
