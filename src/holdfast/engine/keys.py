"""Keys and tokens, as whoever is no worker asks for them: the dice are rolled here."""

from __future__ import annotations

import secrets

import msgspec

from holdfast.core.duration import Duration
from holdfast.core.tokens import Key, checked_grace, checked_kid, checked_secret
from holdfast.engine.client import Request
from holdfast.store import contract as c

DEFAULT_GRACE = "1d"


class KeyInfo(msgspec.Struct):
    """A key without its secret."""

    kid: str
    current: bool
    created_at: int
    expires_at: int | None


def offered() -> c.OfferedKey:
    """Return a new key, for whoever needs one in case there is none yet."""
    return c.OfferedKey(f"k{secrets.token_hex(6)}", secrets.token_bytes(32))


def listed(keys: list[Key], now: int) -> list[KeyInfo]:
    """Return what may be shown of the keys that are good."""
    return [KeyInfo(key.kid, key.current, key.created_at, key.expires_at) for key in keys if key.is_good(now)]


def need() -> Request:
    """Ask for the key that signs; the first one makes itself."""
    return Request(c.NeedKey(offered()), lambda answer: answer)


def rotate(kid: str | None, secret: bytes | None, grace: Duration) -> Request:
    """Let a new key sign; the answer is Rotated."""
    made = offered()
    key = c.OfferedKey(made.kid if kid is None else checked_kid(kid), made.secret if secret is None else checked_secret(secret))
    return Request(c.RotateKey(key, checked_grace(grace)), lambda answer: answer)
