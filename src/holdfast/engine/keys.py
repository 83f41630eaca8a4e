"""Requests about the keys that sign tokens. Random names and secrets are made here."""

from __future__ import annotations

import secrets

import msgspec

from holdfast.core.duration import Duration
from holdfast.core.tokens import Key, checked_grace, checked_kid, checked_secret
from holdfast.engine.client import Request
from holdfast.engine.payloads.vault import Vault
from holdfast.store import contract as c

DEFAULT_GRACE = "1d"


class KeyInfo(msgspec.Struct):
    """A key without its secret."""

    kid: str
    current: bool
    created_at: int
    expires_at: int | None


def offered(vault: Vault, kid: str | None = None, secret: bytes | None = None) -> c.OfferedKey:
    """Return a new key, sealed, with a random name and secret unless they are given. Raises KeyMissing."""
    name = f"k{secrets.token_hex(6)}" if kid is None else kid
    return c.OfferedKey(name, vault.secrets.seal_key(name, secrets.token_bytes(32) if secret is None else secret))


def listed(keys: list[Key], now: int) -> list[KeyInfo]:
    """Return what may be shown of the keys that are good."""
    return [KeyInfo(key.kid, key.current, key.created_at, key.expires_at) for key in keys if key.is_good(now)]


def need(vault: Vault) -> Request:
    """Ask for the key that signs; the first one is created on demand. Raises KeyMissing."""
    return Request(c.NeedKey(offered(vault)), lambda answer: answer)


def rotate(vault: Vault, kid: str | None, secret: bytes | None, grace: Duration) -> Request:
    """Let a new key sign; the answer is Rotated. Raises KeyMissing."""
    name = None if kid is None else checked_kid(kid)
    key = offered(vault, name, None if secret is None else checked_secret(secret))
    return Request(c.RotateKey(key, checked_grace(grace), vault.secrets.reveal), lambda answer: answer)
