"""Codecs that compress and encrypt. They go around another one, in any order; what is stored says
by itself how to read it.

Keys never leave memory: they are in no repr, no log, no error and no store. Only their ids are.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from holdfast.core.codec import Codec, JsonCodec
from holdfast.core.envelope import KEY_ID
from holdfast.errors import BadData, BadOption, KeyMissing

KEY_BYTES = 32
"""AES-256."""

NONCE_BYTES = 12
TAG_BYTES = 16
KEYS = "HOLDFAST_KEYS"
"""The environment variable that holds keys: ``id=base64`` with commas between them, the current one
first."""

Keys = Mapping[str, bytes | str] | Callable[[str], bytes | str | None]


class Compression(NamedTuple):
    """From how many bytes on a value is compressed, and how hard."""

    over: int
    level: int


class _Around:
    """A codec around another one: values pass through it, what it does to bytes is done when they
    are stored."""

    def __init__(self, codec: Codec | None) -> None:
        self._codec = JsonCodec() if codec is None else codec
        for name in ("name", "encode", "decode"):
            if not hasattr(self._codec, name):
                raise BadOption(option="codec", value=type(codec).__name__, why="it is no codec")
        self.name = self._codec.name
        self.cipher: Cipher | None = getattr(self._codec, "cipher", None)
        self.packing: Compression | None = getattr(self._codec, "packing", None)

    def encode(self, value: object, what: str = "value") -> bytes:
        """Turn *value* into bytes, as the codec within does."""
        return self._codec.encode(value, what)

    def decode(self, data: bytes, type: object = Any, what: str = "value") -> Any:
        """Turn *data* back into a value, as the codec within does."""
        return self._codec.decode(data, type, what)


class Compressed(_Around):
    """Compress what is stored when it has more than *over* bytes: ``Engine(url,
    codec=Compressed(over=1000))``."""

    def __init__(self, *, over: int = 1024, level: int = 6, codec: Codec | None = None) -> None:
        super().__init__(codec)
        if isinstance(over, bool) or not isinstance(over, int) or over < 0:
            raise BadOption(option="over", value=over, why="it is a number of bytes")
        if isinstance(level, bool) or not isinstance(level, int) or not 1 <= level <= 9:
            raise BadOption(
                option="level", value=level, why="it is a number from 1, fast, to 9, small"
            )
        self.packing = Compression(over, level)

    def __repr__(self) -> str:
        return f"Compressed(over={self.packing.over if self.packing else 0}, codec={self._codec!r})"


class Encrypted(_Around):
    """Encrypt what is stored with AES-256-GCM: ``Engine(url, codec=Encrypted(keys={"k1": key},
    current="k1"))``.

    *keys* are 32 bytes each, or base64 of them, by id; or a function that returns the key of an id,
    or None. New data is encrypted with the key *current*, and data is readable as long as its key
    is known."""

    def __init__(self, keys: Keys, current: str, *, codec: Codec | None = None) -> None:
        super().__init__(codec)
        if self.cipher is not None:
            raise BadOption(option="codec", why="it encrypts already: once is enough")
        self.cipher = Cipher(keys, current)

    @classmethod
    def from_environment(cls, *, codec: Codec | None = None) -> Encrypted:
        """Take the keys from the environment variable HOLDFAST_KEYS: ``id=base64,id=base64``, the
        current one first."""
        keys = keys_from(os.environ.get(KEYS, ""))
        return cls(keys, next(iter(keys)), codec=codec)

    def __repr__(self) -> str:
        return f"Encrypted(current={self.cipher.current if self.cipher else ''!r})"


def keys_from(text: str) -> dict[str, str]:
    """Read ``id=base64`` with commas between them. Raises BadOption, which never shows a key."""
    pairs = [
        part.strip().partition("=") for part in text.replace("\n", ",").split(",") if part.strip()
    ]
    if not pairs or any(not name or not value for name, _, value in pairs):
        raise BadOption(
            option=KEYS, why="say id=base64, several with commas, the current one first"
        )
    return {name.strip(): value.strip() for name, _, value in pairs}


class Cipher:
    """AES-256-GCM with the key of an id."""

    def __init__(self, keys: Keys, current: str) -> None:
        self._load = _primitive()
        self._find = keys if callable(keys) else _checked(keys).get
        self._ready: dict[str, tuple[Any, bytes, bytes]] = {}
        self.current = _id(current)
        if not self.knows(current):
            raise KeyMissing(key=current, what="the current key")

    def knows(self, key: str) -> bool:
        """Say whether the key of that id is at hand."""
        return self._key(key) is not None

    def _key(self, key: str) -> tuple[Any, bytes, bytes] | None:
        if key not in self._ready:
            found = self._find(key)
            if found is None:
                return None
            secret = _secret(key, found)
            named = hmac.new(secret, b"holdfast payload digest", hashlib.sha256).digest()
            tagging = hmac.new(secret, b"holdfast payload reference", hashlib.sha256).digest()
            self._ready[key] = (self._load(secret), named, tagging)
        return self._ready[key]

    def _must(self, key: str, what: str) -> tuple[Any, bytes, bytes]:
        found = self._key(key)
        if found is None:
            raise KeyMissing(key=key, what=what)
        return found

    def encrypt(self, data: bytes, bound: bytes) -> bytes:
        """Encrypt with the current key; *bound* must be the same when it is read."""
        nonce = os.urandom(NONCE_BYTES)
        sealed: bytes = self._must(self.current, "the current key")[0].encrypt(nonce, data, bound)
        return nonce + sealed

    def decrypt(self, key: str, data: bytes, bound: bytes, what: str) -> bytes:
        """Undo ``encrypt``. Raises KeyMissing, BadData when it was tampered with or the key is
        another one."""
        aead = self._must(key, what)[0]
        try:
            plain: bytes = aead.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound)
        except Exception as error:
            why = (
                "it cannot be decrypted: it was changed, or moved here from another place, or key"
                f" {key!r} is not the one that it was encrypted with"
            )
            raise BadData(what=what, why=why) from error
        return plain

    def digest(self, data: bytes) -> bytes:
        """Return what a value is known by: the same for the same value and key, and telling nothing
        without the key."""
        return hmac.new(
            self._must(self.current, "the current key")[1], data, hashlib.sha256
        ).digest()

    def tag(self, key: str, data: bytes) -> bytes:
        """Return what proves that *data*, which is stored in clear, was written by one who has the
        key."""
        return hmac.new(self._must(key, "the key")[2], data, hashlib.sha256).digest()[:TAG_BYTES]

    def check(self, key: str, data: bytes, tag: bytes, what: str) -> None:
        """Raise BadData unless *tag* is that of *data*. Raises KeyMissing."""
        expected = hmac.new(self._must(key, what)[2], data, hashlib.sha256).digest()[:TAG_BYTES]
        if not hmac.compare_digest(expected, tag):
            raise BadData(
                what=what,
                why="it was changed, or belongs to another place than the one where it was found",
            )

    def __repr__(self) -> str:
        return f"Cipher(current={self.current!r})"


def _primitive() -> Callable[[bytes], Any]:
    """Import what encrypts, which is not installed unless asked for."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        why = "what encrypts is not installed: pip install 'holdfast[encryption]'"
        raise BadOption(option="codec", value="Encrypted", why=why) from error
    return AESGCM


def _id(key: object) -> str:
    if not isinstance(key, str) or not re.fullmatch(KEY_ID, key):
        raise BadOption(
            option="key id",
            value=key,
            why="it is a short name of letters, digits, '.', '_' and '-'",
        )
    return key


def _checked(keys: object) -> Mapping[str, bytes | str]:
    if not isinstance(keys, Mapping) or not keys:
        raise BadOption(option="keys", why="give keys by their ids, or a function that finds one")
    for key, value in keys.items():
        _secret(_id(key), value)
    return keys


def _secret(key: str, value: object) -> bytes:
    """Return a key as bytes; refuse what is none, without showing it."""
    if isinstance(value, str):
        try:
            value = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise BadOption(
                option="keys", key=key, why="a key that is text must be base64"
            ) from None
    if not isinstance(value, bytes) or len(value) != KEY_BYTES:
        size = f"{len(value)} bytes" if isinstance(value, bytes) else type(value).__name__
        raise BadOption(
            option="keys", key=key, why=f"a key has {KEY_BYTES} bytes, this one is {size}"
        )
    return value
