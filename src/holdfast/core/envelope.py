"""Read and write the format of sealed values: compressed, encrypted or stored as a separate
payload. Pure: bytes in, bytes out.

JSON never begins with a zero byte; a sealed value does. The id of its key follows (empty if the
value is not encrypted), another zero byte, and one letter for its form, so that a database can tell
from the first bytes which keys are in use::

    00 <key id> 00 p <body>             not compressed
    00 <key id> 00 z <body>             compressed
    00 <key id> 00 a <digest> <size>    a reference to a separate payload: its digest in 32 bytes
                                        and the size of the value in 8 bytes; then, if the value is
                                        encrypted, a tag of 16 bytes that binds both to their place
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.errors import BadData

MARK = b"\x00"
PLAIN = b"p"
PACKED = b"z"
APART = b"a"
KEY_ID = r"[A-Za-z0-9._-]{1,64}"
"""The pattern of the id of a key."""

_DIGEST = 32
_SIZE = 8
REFERENCE = _DIGEST + _SIZE
"""Bytes of a reference to a separate payload; if it is encrypted, a tag follows that binds the
reference to its place."""


class Envelope(NamedTuple):
    """The parts of a sealed value."""

    key: str
    form: bytes
    body: bytes


def is_sealed(data: bytes | None) -> bool:
    """Return whether a stored value must be opened before it can be decoded."""
    return data is not None and data[:1] == MARK


def head(key: str, form: bytes) -> bytes:
    """Return the first bytes of a sealed value."""
    return MARK + key.encode() + MARK + form


def split(data: bytes) -> Envelope:
    """Return the parts of a sealed value. Raises BadData."""
    end = data.find(MARK, 1)
    if end < 0 or data[end + 1 : end + 2] not in (PLAIN, PACKED, APART):
        raise BadData(why="the data begins like a sealed value, but its header is not valid")
    return Envelope(
        data[1:end].decode("utf-8", "replace"), data[end + 1 : end + 2], data[end + 2 :]
    )


def reference(key: str, digest: bytes, size: int) -> bytes:
    """Return the reference that a column holds instead of a value in a separate payload."""
    return head(key, APART) + digest + size.to_bytes(_SIZE, "big")


def digest_of(data: bytes | None) -> bytes | None:
    """Return the digest of the payload that *data* refers to; None if it is not a reference."""
    if data is None or data[:1] != MARK:
        return None
    envelope = split(data)
    if envelope.form != APART:
        return None
    return envelope.body[:_DIGEST]


def size_of(data: bytes) -> int:
    """Return the size, in bytes, of the value that the reference *data* stands for."""
    return int.from_bytes(split(data).body[_DIGEST : _DIGEST + _SIZE], "big")


def digests_of(*values: bytes | None) -> set[bytes]:
    """Return the digests of the payloads that these values refer to."""
    return {digest for value in values if (digest := digest_of(value)) is not None}
