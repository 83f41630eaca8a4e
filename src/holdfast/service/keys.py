"""Requests about the keys that sign tokens. Random names and secrets are made here."""

from __future__ import annotations

import msgspec

from holdfast.core.duration import Duration
from holdfast.core.tokens import SigningKey, checked_grace, checked_kid, checked_secret
from holdfast.engine.runtime.ids import offered_key
from holdfast.payloads.sealer import PayloadSealer
from holdfast.service.runs import Request
from holdfast.store.contract.keys import NeedKey, RotateKey

DEFAULT_GRACE = "1d"


class KeyInfo(msgspec.Struct):
    """A key without its secret."""

    kid: str
    current: bool
    created_at: int
    expires_at: int | None


def listed(keys: list[SigningKey], now: int) -> list[KeyInfo]:
    """Return what may be shown of the keys that are good."""
    return [
        KeyInfo(key.kid, key.current, key.created_at, key.expires_at)
        for key in keys
        if key.is_good(now)
    ]


def need(sealer: PayloadSealer) -> Request:
    """Ask for the key that signs; the first one is created on demand. Raises KeyMissing."""
    return Request(NeedKey(offered_key(sealer)), lambda answer: answer)


def rotate(
    sealer: PayloadSealer, kid: str | None, secret: bytes | None, grace: Duration
) -> Request:
    """Let a new key sign; the answer is Rotated. Raises KeyMissing."""
    name = None if kid is None else checked_kid(kid)
    key = offered_key(sealer, name, None if secret is None else checked_secret(secret))
    return Request(
        RotateKey(key, checked_grace(grace), sealer.secrets.reveal), lambda answer: answer
    )
