"""Codecs that compress and encrypt stored values.

``Compressed`` and ``Encrypted`` wrap another codec and can be nested in any order. A stored value
names its own form and key, so reading it does not depend on that order.

Invariant: keys never leave memory. No repr, log line, error or store contains one; they contain
only key ids.
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
"""The environment variable that holds the keys: ``id=base64``, separated by commas, the current key
first."""

Keys = Mapping[str, bytes | str] | Callable[[str], bytes | str | None]


class Compression(NamedTuple):
    """The size in bytes above which a value is compressed, and the level of zlib (1 to 9)."""

    over: int
    level: int


class _Around:
    """A codec that wraps another one.

    ``encode`` and ``decode`` are those of the inner codec. The wrapper only carries settings
    (``cipher``, ``packing``), which ValueFormat applies to the bytes when they are stored."""

    def __init__(self, codec: Codec | None) -> None:
        self._codec = JsonCodec() if codec is None else codec
        for name in ("name", "encode", "decode"):
            if not hasattr(self._codec, name):
                raise BadOption(
                    option="codec",
                    value=type(codec).__name__,
                    why=f"a codec needs the attribute {name!r}",
                )
        self.name = self._codec.name
        self.cipher: Cipher | None = getattr(self._codec, "cipher", None)
        self.packing: Compression | None = getattr(self._codec, "packing", None)

    def encode(self, value: object, label: str = "value") -> bytes:
        """Return *value* as bytes, encoded by the inner codec."""
        return self._codec.encode(value, label)

    def decode(self, data: bytes, type: object = Any, label: str = "value") -> Any:
        """Return the value of *data*, decoded by the inner codec."""
        return self._codec.decode(data, type, label)


class Compressed(_Around):
    """Compress stored values of more than *over* bytes: ``Engine(url,
    codec=Compressed(over=1000))``."""

    def __init__(self, *, over: int = 1024, level: int = 6, codec: Codec | None = None) -> None:
        super().__init__(codec)
        if isinstance(over, bool) or not isinstance(over, int) or over < 0:
            raise BadOption(option="over", value=over, why="give a number of bytes, 0 or more")
        if isinstance(level, bool) or not isinstance(level, int) or not 1 <= level <= 9:
            raise BadOption(
                option="level",
                value=level,
                why="give a number from 1 (fastest) to 9 (smallest)",
            )
        self.packing = Compression(over, level)

    def __repr__(self) -> str:
        over = self.packing.over if self.packing else 0
        return f"Compressed(over={over}, codec={self._codec!r})"


class Encrypted(_Around):
    """Encrypt stored values with AES-256-GCM: ``Engine(url, codec=Encrypted(keys={"k1": key},
    current="k1"))``.

    *keys* maps ids to keys of 32 bytes (or their base64), or is a function that returns the key of
    an id, or None if it has no such key. New values are encrypted with the key *current*; stored
    values are readable as long as *keys* has their key."""

    def __init__(self, keys: Keys, current: str, *, codec: Codec | None = None) -> None:
        super().__init__(codec)
        if self.cipher is not None:
            raise BadOption(
                option="codec", why="the wrapped codec encrypts already: use Encrypted only once"
            )
        self.cipher = Cipher(keys, current)

    @classmethod
    def from_environment(cls, *, codec: Codec | None = None) -> Encrypted:
        """Return a codec with the keys of the environment variable HOLDFAST_KEYS:
        ``id=base64,id=base64``, the current key first. Raises BadOption."""
        keys = keys_from(os.environ.get(KEYS, ""))
        return cls(keys, next(iter(keys)), codec=codec)

    def __repr__(self) -> str:
        return f"Encrypted(current={self.cipher.current if self.cipher else ''!r})"


def keys_from(text: str) -> dict[str, str]:
    """Return keys by id from *text*: ``id=base64``, separated by commas or line breaks.

    Raises BadOption, which never contains a key."""
    pairs = [
        part.strip().partition("=") for part in text.replace("\n", ",").split(",") if part.strip()
    ]
    if not pairs or any(not name or not value for name, _, value in pairs):
        raise BadOption(
            option=KEYS, why="give id=base64, separated by commas, the current key first"
        )
    return {name.strip(): value.strip() for name, _, value in pairs}


def generate_key() -> str:
    """Return a new random key, in base64."""
    return base64.b64encode(os.urandom(KEY_BYTES)).decode()


class Cipher:
    """AES-256-GCM encryption with keys that are selected by id.

    Two more keys are derived from each key by HMAC: one for the digests of payloads, one for the
    tags of references to them."""

    def __init__(self, keys: Keys, current: str) -> None:
        self._new_aead = _primitive()
        self._find = keys if callable(keys) else _checked_keys(keys).get
        # By key id: the AEAD, the digest key, the tag key. Saves deriving them for every value.
        self._ready: dict[str, tuple[Any, bytes, bytes]] = {}
        self.current = _id(current)
        if not self.knows(current):
            raise KeyMissing(key=current, value="the current key")

    def knows(self, key: str) -> bool:
        """Return whether the key with this id is available."""
        return self._key(key) is not None

    def _key(self, key: str) -> tuple[Any, bytes, bytes] | None:
        if key not in self._ready:
            value = self._find(key)
            if value is None:
                return None
            secret = _secret(key, value)
            digest_key = hmac.new(secret, b"holdfast payload digest", hashlib.sha256).digest()
            tag_key = hmac.new(secret, b"holdfast payload reference", hashlib.sha256).digest()
            self._ready[key] = (self._new_aead(secret), digest_key, tag_key)
        return self._ready[key]

    def _required_key(self, key: str, label: str) -> tuple[Any, bytes, bytes]:
        keys = self._key(key)
        if keys is None:
            raise KeyMissing(key=key, value=label)
        return keys

    def encrypt(self, data: bytes, bound: bytes) -> bytes:
        """Return *data*, encrypted with the current key.

        *bound* is the associated data: decryption needs the same bytes."""
        nonce = os.urandom(NONCE_BYTES)
        sealed: bytes = self._required_key(self.current, "the current key")[0].encrypt(
            nonce, data, bound
        )
        return nonce + sealed

    def decrypt(self, key: str, data: bytes, bound: bytes, label: str) -> bytes:
        """Return the plain bytes of *data*, which ``encrypt`` returned.

        Raises KeyMissing, and BadData if *data* was tampered with, is bound to another place or was
        encrypted with another key."""
        aead = self._required_key(key, label)[0]
        try:
            plain: bytes = aead.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound)
        except Exception as error:
            why = (
                "the value cannot be decrypted: it was changed, or moved here from another place,"
                f" or key {key!r} is not the key that encrypted it"
            )
            raise BadData(value=label, why=why) from error
        return plain

    def digest(self, data: bytes) -> bytes:
        """Return the keyed digest that identifies a value.

        The same value and key have the same digest; without the key the digest reveals nothing
        about the value."""
        return hmac.new(
            self._required_key(self.current, "the current key")[1], data, hashlib.sha256
        ).digest()

    def tag(self, key: str, data: bytes) -> bytes:
        """Return the tag that proves that a holder of the key wrote *data*, which is stored in
        clear."""
        return hmac.new(self._required_key(key, "the key")[2], data, hashlib.sha256).digest()[
            :TAG_BYTES
        ]

    def check(self, key: str, data: bytes, tag: bytes, label: str) -> None:
        """Raise BadData unless *tag* is the tag of *data*. Raises KeyMissing."""
        expected = hmac.new(self._required_key(key, label)[2], data, hashlib.sha256).digest()[
            :TAG_BYTES
        ]
        if not hmac.compare_digest(expected, tag):
            raise BadData(
                value=label,
                why="the value was changed, or belongs to another place than where it was found",
            )

    def __repr__(self) -> str:
        return f"Cipher(current={self.current!r})"


def _primitive() -> Callable[[bytes], Any]:
    """Return the AES-GCM class of ``cryptography``, an optional dependency. Raises BadOption."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        why = "the package cryptography is not installed: pip install 'holdfast[encryption]'"
        raise BadOption(option="codec", value="Encrypted", why=why) from error
    return AESGCM


def _id(key: object) -> str:
    if not isinstance(key, str) or not re.fullmatch(KEY_ID, key):
        raise BadOption(
            option="key id",
            value=key,
            why="a key id is a short name of letters, digits, '.', '_' and '-'",
        )
    return key


def _checked_keys(keys: object) -> Mapping[str, bytes | str]:
    if not isinstance(keys, Mapping) or not keys:
        raise BadOption(
            option="keys", why="give a mapping of ids to keys, or a function that returns a key"
        )
    for key, value in keys.items():
        _secret(_id(key), value)
    return keys


def _secret(key: str, value: object) -> bytes:
    """Return a key as bytes. Raises BadOption, which does not contain the key."""
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
            option="keys", key=key, why=f"a key has {KEY_BYTES} bytes, and this one is {size}"
        )
    return value
