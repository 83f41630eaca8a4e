"""How one value is stored: compressed, encrypted and bound to its place, or kept apart; and how it
is read again."""

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
from holdfast.store.contract.reading import RunReads

LARGE = 64 * 1024
"""Above so many bytes a value is kept apart, unless told otherwise."""

PART = 512 * 1024
"""In parts of so many bytes."""

HEAVY = 256 * 1024
"""From so many bytes on it is worth while to seal, or to open, in another thread."""

SAMPLE = 64 * 1024
"""How much of a large value is compressed first, to see whether that is of any use."""

MOST_PACKED = 64 * 1024 * 1024
"""Larger values are stored as they are, so no stored value may open to more bytes than this.
Without a limit, a few kilobytes could fill the memory."""

FAST = 1
"""How hard values are compressed that are kept apart, unless told otherwise."""

MARK = "\x01"
"""How a text begins that is sealed; the id of its key is between two of them."""


class ValueFormat:
    """Seals and opens single values for one engine. A value that is encrypted can be opened only at
    its place."""

    def __init__(
        self,
        store: RunReads,
        cipher: Cipher | None,
        packing: Compression | None,
        large: int,
        *,
        json: bool,
        locked: bool,
    ) -> None:
        self.fetch = store.payload
        self.cipher, self._packing, self.large, self.locked = cipher, packing, large, locked
        always = cipher is not None or locked or not json
        self.small = -1 if always else min(large, packing.over) if packing is not None else large
        """Values of at most so many bytes pass untouched."""

    def passes(self, data: bytes) -> bool:
        """Say whether a value may pass untouched."""
        return len(data) <= self.small

    def value(self, data: bytes, found: list[Payload], place: bytes) -> bytes:
        """Return what stands in the column for *data*, bound to *place*; what is kept apart of it
        is added to *found*."""
        if len(data) <= self.small:
            return data
        if self.locked:
            raise KeyMissing(what="this database is encrypted, and no key is known here")
        if len(data) > self.large:
            payload = self._apart(data)
            found.append(payload)
            stands = reference(payload.key, payload.digest, len(data))
            if self.cipher is None:
                return stands
            return stands + self.cipher.tag(payload.key, place + split(stands).body)
        return self._inline(data, place)

    def maybe_value(self, data: bytes | None, found: list[Payload], place: bytes) -> bytes | None:
        """The same for a value that may not be there."""
        return None if data is None else self.value(data, found, place)

    def inline(self, data: bytes, place: bytes) -> bytes:
        """Return what stands in a column for *data* where nothing can be kept apart. Raises
        KeyMissing."""
        if len(data) <= self.small:
            return data
        if self.locked:
            raise KeyMissing(what="this database is encrypted, and no key is known here")
        return self._inline(data, place)

    def secret(self, data: bytes, place: bytes) -> bytes:
        """Return what stands in a column for *data* that may begin with any byte, however small it
        is. Raises KeyMissing."""
        if self.locked:
            raise KeyMissing(what="this database is encrypted, and no key is known here")
        return self._inline(data, place)

    def _inline(self, data: bytes, place: bytes) -> bytes:
        form, body = self._packed(data)
        begin = head(self.cipher.current if self.cipher is not None else "", form)
        if self.cipher is not None:
            return begin + self.cipher.encrypt(body, begin + place)
        return begin + body if form == PACKED or is_sealed(data) else data

    def text(self, message: str, place: bytes) -> str:
        """Return what stands in a column for text for *message*: with the id of its key, so that it
        can be found. Raises KeyMissing."""
        if self.cipher is None and not self.locked and not message.startswith(MARK):
            return message
        sealed = self.inline(message.encode(), place)
        key = "" if self.cipher is None else self.cipher.current
        return f"{MARK}{key}{MARK}{base64.b64encode(sealed).decode()}"

    def text_opened(self, message: str, what: str, place: bytes) -> str:
        """Undo ``text``. Raises KeyMissing, BadData."""
        if not message.startswith(MARK):
            return message
        try:
            sealed = base64.b64decode(message.split(MARK, 2)[2], validate=True)
            return self.open(sealed, what, place).decode()
        except (IndexError, ValueError):
            raise BadData(what=what, why="it begins like a sealed text and is none") from None

    def _packed(self, data: bytes) -> tuple[bytes, bytes]:
        if self._packing is None or not self._packing.over < len(data) <= MOST_PACKED:
            return PLAIN, data
        packed = zlib.compress(data, self._packing.level)
        return (PACKED, packed) if len(packed) < 0.9 * len(data) else (PLAIN, data)

    def _apart(self, data: bytes) -> Payload:
        level = FAST if self._packing is None else self._packing.level
        sample = data[:SAMPLE]
        form, body = PLAIN, data
        if len(data) <= MOST_PACKED and len(zlib.compress(sample, FAST)) < 0.9 * len(sample):
            form, body = PACKED, zlib.compress(data, level)
        if self.cipher is None:
            key, digest = "", hashlib.sha256(data).digest()
        else:
            key, digest = self.cipher.current, self.cipher.digest(data)
            body = self.cipher.encrypt(body, digest + form)
        parts = [body[place : place + PART] for place in range(0, len(body), PART)]
        return Payload(digest, key, form.decode(), len(data), parts)

    def open(self, data: bytes, what: str, place: bytes) -> bytes:
        """Return a stored value of *place* as it was before it was sealed. Raises KeyMissing,
        BadData."""
        return self.opened(data, what, self.fetch, place) if data[:1] == b"\x00" else data

    def _check_reference(self, key: str, body: bytes, place: bytes, what: str) -> None:
        """Raise BadData if what refers to a payload belongs to another place: payloads themselves
        are shared between places."""
        if key and self.cipher is not None:
            self.cipher.check(key, place + body[:REFERENCE], body[REFERENCE:], what)

    def opened(self, data: bytes, what: str, fetch: Fetch, place: bytes) -> bytes:
        """The same; what is kept apart is found by *fetch*."""
        if not is_sealed(data):
            return data
        key, form, body = split(data)
        if form == APART:
            digest = body[:32]
            if key and self.cipher is None:
                raise KeyMissing(key=key, what=what)
            self._check_reference(key, body, place, what)
            payload = fetch(digest)
            if payload is None:
                raise BadData(
                    what=what,
                    why="the payload that it refers to is not in the store",
                    payload=digest.hex(),
                )
            if (
                payload.key != key
            ):  # a reference without a key has no tag, and must not lead to what is encrypted
                raise BadData(
                    what=what,
                    why=f"it names another key than payload {digest.hex()}, to which it refers",
                )
            return self.content(payload, what)
        return _unpacked(form, self._decrypted(key, body, head(key, form) + place, what), what)

    def content(self, payload: Payload, what: str = "value") -> bytes:
        """Return the value of a payload, and see that it is what its digest says. Raises
        KeyMissing, BadData."""
        form, body = payload.form.encode(), b"".join(payload.parts)
        plain = _unpacked(
            form, self._decrypted(payload.key, body, payload.digest + form, what), what
        )
        if not payload.key and hashlib.sha256(plain).digest() != payload.digest:
            raise BadData(what=what, why=f"payload {payload.digest.hex()} is not what it was")
        return plain

    def _decrypted(self, key: str, body: bytes, bound: bytes, what: str) -> bytes:
        if not key:
            return body
        if self.cipher is None:
            raise KeyMissing(key=key, what=what)
        return self.cipher.decrypt(key, body, bound, what)

    def maybe(self, data: bytes | None, what: str, place: bytes) -> bytes | None:
        """The same for a value that may not be there."""
        return None if data is None else self.open(data, what, place)

    def output(self, data: bytes, what: str, place: bytes) -> bytes | None:
        """Return what a run has put out, opened; None where no key is known at all. Raises
        KeyMissing, BadData."""
        return (
            None
            if self.locked and is_sealed(data) and split(data).key
            else self.open(data, what, place)
        )

    def moved(self, data: bytes | None, place: bytes, target: bytes) -> bytes | None:
        """Return a value that stands at *place* as it stands at *target*. Raises KeyMissing,
        BadData."""
        if data is None or not is_sealed(data) or not split(data).key:
            return data
        key, form, body = split(data)
        if self.cipher is None:
            raise KeyMissing(key=key, what="a value of the run that is forked")
        if form == APART:
            self._check_reference(key, body, place, "a value of the run that is forked")
            return (
                head(key, APART)
                + body[:REFERENCE]
                + self.cipher.tag(key, target + body[:REFERENCE])
            )
        return self._inline(
            self.opened(data, "a value of the run that is forked", self.fetch, place), target
        )


def _unpacked(form: bytes, body: bytes, what: str) -> bytes:
    """Decompress a value. One that opens to more than was ever compressed is refused before it is
    in memory."""
    if form != PACKED:
        return body
    opener = zlib.decompressobj()
    try:
        plain = opener.decompress(body, MOST_PACKED + 1)
    except zlib.error as error:
        raise BadData(what=what, why=f"it cannot be decompressed: {error}") from error
    if len(plain) > MOST_PACKED:
        raise BadData(
            what=what,
            why=(
                f"it would decompress to more than {MOST_PACKED} bytes: it was not written by"
                " Holdfast"
            ),
        )
    if not opener.eof or opener.unused_data:
        raise BadData(
            what=what, why="it cannot be decompressed: it is incomplete, or something follows it"
        )
    return plain
