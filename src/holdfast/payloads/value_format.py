"""Convert single values between their plain and their stored form.

A stored value is compressed, encrypted and bound to its place (the row and column where it stands),
or kept apart: the column then has a reference to a payload, which is a row of its own."""

from __future__ import annotations

import base64
import hashlib
import zlib

from holdfast.core.envelope import (
    APART,
    PACKED,
    PLAIN,
    REFERENCE,
    head,
    is_sealed,
    reference,
    split,
)
from holdfast.core.payload import Fetch, Payload
from holdfast.errors import BadData, KeyMissing
from holdfast.payloads.codecs import Cipher, Compression
from holdfast.store.store import View

PART = 512 * 1024
"""The bytes of one part of a value that is kept apart."""

HEAVY = 256 * 1024
"""Sealing a value of more bytes than this is worth the switch to another thread."""

SAMPLE = 64 * 1024
"""The bytes of a large value that are compressed first, to find out whether compression helps."""

MOST_PACKED = 64 * 1024 * 1024
"""Larger values are not compressed, so a stored value never decompresses to more bytes than this.
Without a limit, a few kilobytes could decompress to more than the memory holds."""

FAST = 1
"""The compression level of values that are kept apart, unless the codec sets one."""

MARK = "\x01"
"""The first character of a sealed text; the id of its key is between two of them."""


class ValueFormat:
    """Seals and opens single values for one engine.

    Invariants:
    - An encrypted value can be opened only at its place.
    - A value that is small and not encrypted is stored unchanged, and costs one comparison.
    - ``locked`` means that the database is encrypted and the engine has no key: nothing can be
      sealed."""

    def __init__(
        self,
        store: View,
        cipher: Cipher | None,
        packing: Compression | None,
        inline_limit: int,
        *,
        json: bool,
        locked: bool,
    ) -> None:
        self.fetch: Fetch = store.payloads.get
        self.cipher: Cipher | None = cipher
        self._packing: Compression | None = packing
        self.inline_limit: int = inline_limit
        self.locked: bool = locked
        self.small: int = _unchanged_size(cipher, packing, inline_limit, json=json, locked=locked)
        """Values of at most this many bytes are stored unchanged; -1 if each must be looked at."""

    def passes(self, data: bytes) -> bool:
        """Return whether a value is stored unchanged."""
        return len(data) <= self.small

    def seal(self, data: bytes, payloads: list[Payload], place: bytes) -> bytes:
        """Return *data* as it is stored in its column, bound to *place*. If it is kept apart,
        append its payload to *payloads*. Raises KeyMissing."""
        if len(data) <= self.small:
            return data
        if self.locked:
            raise KeyMissing(value="this database is encrypted, and no key is known here")
        if len(data) > self.inline_limit:
            payload = self._apart(data)
            payloads.append(payload)
            stored = reference(payload.key, payload.digest, len(data))
            if self.cipher is None:
                return stored
            # Payloads are shared between places, so the reference, not the payload, is bound.
            return stored + self.cipher.tag(payload.key, place + split(stored).body)
        return self._inline(data, place)

    def seal_optional(
        self, data: bytes | None, payloads: list[Payload], place: bytes
    ) -> bytes | None:
        """Return ``seal`` of *data*, or None if *data* is None."""
        if data is None:
            return None
        return self.seal(data, payloads, place)

    def seal_inline(self, data: bytes, place: bytes) -> bytes:
        """Return *data* as it is stored in a column whose values are never kept apart. Raises
        KeyMissing."""
        if len(data) <= self.small:
            return data
        if self.locked:
            raise KeyMissing(value="this database is encrypted, and no key is known here")
        return self._inline(data, place)

    def seal_secret(self, data: bytes, place: bytes) -> bytes:
        """Return *data* as it is stored, however small it is: unlike JSON, it may begin with any
        byte, also with that of a sealed value. Raises KeyMissing."""
        if self.locked:
            raise KeyMissing(value="this database is encrypted, and no key is known here")
        return self._inline(data, place)

    def _inline(self, data: bytes, place: bytes) -> bytes:
        form, body = self._pack(data)
        begin = head(self._current_key(), form)
        if self.cipher is not None:
            return begin + self.cipher.encrypt(body, begin + place)
        if form == PACKED or is_sealed(data):
            return begin + body
        return data

    def _current_key(self) -> str:
        """Return the id of the key that encrypts new values; empty without encryption."""
        if self.cipher is None:
            return ""
        return self.cipher.current

    def seal_text(self, message: str, place: bytes) -> str:
        """Return *message* as it is stored in a text column. A sealed text contains the id of its
        key, so that a query can find all texts under a key. Raises KeyMissing."""
        if self.cipher is None and not self.locked and not message.startswith(MARK):
            return message
        sealed = self.seal_inline(message.encode(), place)
        return f"{MARK}{self._current_key()}{MARK}{base64.b64encode(sealed).decode()}"

    def open_text(self, message: str, label: str, place: bytes) -> str:
        """Return the plain text of a stored *message*. Raises KeyMissing, BadData."""
        if not message.startswith(MARK):
            return message
        try:
            sealed = base64.b64decode(message.split(MARK, 2)[2], validate=True)
            return self.open(sealed, label, place).decode()
        except (IndexError, ValueError):
            why = "the text begins like a sealed text, but has not the format of one"
            raise BadData(value=label, why=why) from None

    def _pack(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the form and the bytes of *data*: compressed if that saves a tenth."""
        if self._packing is None or not self._packing.over < len(data) <= MOST_PACKED:
            return PLAIN, data
        packed = zlib.compress(data, self._packing.level)
        if len(packed) < 0.9 * len(data):
            return PACKED, packed
        return PLAIN, data

    def _apart(self, data: bytes) -> Payload:
        level = FAST if self._packing is None else self._packing.level
        sample = data[:SAMPLE]
        form = PLAIN
        body = data
        # The sample saves compressing megabytes that are compressed already, such as images.
        if len(data) <= MOST_PACKED and len(zlib.compress(sample, FAST)) < 0.9 * len(sample):
            form = PACKED
            body = zlib.compress(data, level)
        if self.cipher is None:
            key = ""
            digest = hashlib.sha256(data).digest()
        else:
            key = self.cipher.current
            digest = self.cipher.digest(data)
            body = self.cipher.encrypt(body, digest + form)
        parts = [body[start : start + PART] for start in range(0, len(body), PART)]
        return Payload(digest, key, form.decode(), len(data), parts)

    def open(self, data: bytes, label: str, place: bytes) -> bytes:
        """Return the plain form of the value that is stored at *place*; *label* names it in errors.
        Raises KeyMissing, BadData."""
        if data[:1] != b"\x00":  # ``is_sealed``, written out: most values are stored unchanged
            return data
        return self.open_with(data, label, self.fetch, place)

    def _check_reference(self, key: str, body: bytes, place: bytes, label: str) -> None:
        """Raise BadData if the reference to a payload belongs to another place.

        Only the reference is bound to its place: payloads are shared between places."""
        if key and self.cipher is not None:
            self.cipher.check(key, place + body[:REFERENCE], body[REFERENCE:], label)

    def open_with(self, data: bytes, label: str, fetch: Fetch, place: bytes) -> bytes:
        """Return the plain form of the value that is stored at *place*; *fetch* returns the payload
        of a digest. Raises KeyMissing, BadData."""
        if not is_sealed(data):
            return data
        key, form, body = split(data)
        if form == APART:
            digest = body[:32]
            if key and self.cipher is None:
                raise KeyMissing(key=key, value=label)
            self._check_reference(key, body, place, label)
            payload = fetch(digest)
            if payload is None:
                raise BadData(
                    value=label,
                    why="the payload to which the value refers is not in the store",
                    payload=digest.hex(),
                )
            # A reference without a key has no tag, so it must not lead to an encrypted payload.
            if payload.key != key:
                raise BadData(
                    value=label,
                    why=f"the value names another key than its payload {digest.hex()}",
                )
            return self.content(payload, label)
        return _unpacked(form, self._decrypted(key, body, head(key, form) + place, label), label)

    def content(self, payload: Payload, label: str = "value") -> bytes:
        """Return the plain value of a payload. Raises KeyMissing, and BadData if the value does not
        match the digest."""
        form = payload.form.encode()
        body = b"".join(payload.parts)
        plain = _unpacked(
            form, self._decrypted(payload.key, body, payload.digest + form, label), label
        )
        # The digest of an encrypted payload is associated data: decryption has checked it.
        if not payload.key and hashlib.sha256(plain).digest() != payload.digest:
            raise BadData(
                value=label, why=f"payload {payload.digest.hex()} does not match its digest"
            )
        return plain

    def _decrypted(self, key: str, body: bytes, bound: bytes, label: str) -> bytes:
        if not key:
            return body
        if self.cipher is None:
            raise KeyMissing(key=key, value=label)
        return self.cipher.decrypt(key, body, bound, label)

    def open_optional(self, data: bytes | None, label: str, place: bytes) -> bytes | None:
        """Return ``open`` of *data*, or None if *data* is None."""
        if data is None:
            return None
        return self.open(data, label, place)

    def open_output(self, data: bytes, label: str, place: bytes) -> bytes | None:
        """Return the plain form of output of a run; None if the output is encrypted and the engine
        has no key at all. Raises KeyMissing, BadData."""
        if self.locked and is_sealed(data) and split(data).key:
            return None
        return self.open(data, label, place)

    def move(self, data: bytes | None, place: bytes, target: bytes) -> bytes | None:
        """Return the stored form at *target* of a value that is stored at *place*; an encrypted
        value is bound to its new place. Raises KeyMissing, BadData."""
        if data is None or not is_sealed(data) or not split(data).key:
            return data
        key, form, body = split(data)
        if self.cipher is None:
            raise KeyMissing(key=key, value="a value of the forked run")
        if form == APART:
            self._check_reference(key, body, place, "a value of the forked run")
            return (
                head(key, APART)
                + body[:REFERENCE]
                + self.cipher.tag(key, target + body[:REFERENCE])
            )
        return self._inline(
            self.open_with(data, "a value of the forked run", self.fetch, place), target
        )


def _unchanged_size(
    cipher: Cipher | None,
    packing: Compression | None,
    inline_limit: int,
    *,
    json: bool,
    locked: bool,
) -> int:
    """Return the size in bytes up to which values are stored unchanged without looking at them; -1
    if there is none.

    Values of codecs other than JSON may begin with a zero byte, as sealed values do, so each of
    them must be looked at."""
    if cipher is not None or locked or not json:
        return -1
    if packing is None:
        return inline_limit
    return min(inline_limit, packing.over)


def _unpacked(form: bytes, body: bytes, label: str) -> bytes:
    """Return a value, decompressed if *form* says so.

    Raises BadData. A value that would decompress to more bytes than are ever compressed is refused
    before it is in memory."""
    if form != PACKED:
        return body
    opener = zlib.decompressobj()
    try:
        plain = opener.decompress(body, MOST_PACKED + 1)
    except zlib.error as error:
        raise BadData(value=label, why=f"the value cannot be decompressed: {error}") from error
    if len(plain) > MOST_PACKED:
        raise BadData(
            value=label,
            why=(
                f"the value would decompress to more than {MOST_PACKED} bytes: it was not written"
                " by Holdfast"
            ),
        )
    if not opener.eof or opener.unused_data:
        raise BadData(
            value=label,
            why="the value cannot be decompressed: it is incomplete, or other bytes follow it",
        )
    return plain
