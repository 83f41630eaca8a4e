"""Ids that sort by their time of creation: 26 characters, digits and lower-case letters."""

from __future__ import annotations

import os
import secrets
import threading
import time

from holdfast.payloads.sealer import PayloadSealer
from holdfast.store.keys.operations import OfferedKey

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_LOW = (1 << 20) - 1
"""Mask of the last two pairs. The part before them changes rarely, so its text is cached."""

_guard = threading.Lock()
_last_ms = 0
_tail = 0
_head = ""


def new_id() -> str:
    """Return an id greater than all earlier ones of this process."""
    global _last_ms, _tail, _head
    with _guard:
        ms = time.time_ns() // 1_000_000
        if ms > _last_ms:
            _last_ms = ms
            # The upper bit is zero, to leave room to count up within the millisecond.
            _tail = int.from_bytes(os.urandom(10), "big") >> 1
            _head = ""
        else:
            _tail += 1
        if not _head or not _tail & _LOW:
            _head = _encode(_last_ms, 10) + _encode(_tail >> 20, 12)
        return _head + _PAIRS[_tail >> 10 & 1023] + _PAIRS[_tail & 1023]


def _encode(number: int, length: int) -> str:
    parts = []
    for _ in range(length // 2):
        parts.append(_PAIRS[number & 1023])
        number >>= 10
    return "".join(reversed(parts))


def after_fork() -> None:
    """Make sure that a forked process does not repeat the ids of its parent."""
    global _last_ms
    _last_ms = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=after_fork)


def offered_key(
    sealer: PayloadSealer, kid: str | None = None, secret: bytes | None = None
) -> OfferedKey:
    """Return a new sealed key, with a random name and secret unless they are given. Raises
    KeyMissing."""
    if kid is None:
        kid = f"k{secrets.token_hex(6)}"
    if secret is None:
        secret = secrets.token_bytes(32)
    return OfferedKey(kid, sealer.secrets.seal_key(kid, secret))
