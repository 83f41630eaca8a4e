"""Requests about the signing keys of tokens: list, create and rotate them."""

from __future__ import annotations

from holdfast.core.duration import Duration
from holdfast.core.tokens import SigningKey, checked_grace, checked_kid, checked_secret
from holdfast.engine.runtime.ids import offered_key
from holdfast.payloads.sealer import PayloadSealer
from holdfast.service.requests import Request, identity
from holdfast.store.keys.operations import NeedKey, RotatedKey, RotateKey

DEFAULT_GRACE = "1d"
"""How long tokens of the old key stay valid after a rotation, unless the caller says otherwise."""


def valid_keys(keys: list[SigningKey], now: int) -> list[SigningKey]:
    """Return the keys that have not expired."""
    return [key for key in keys if key.is_good(now)]


def need(sealer: PayloadSealer) -> Request[SigningKey]:
    """Return the request for the current signing key, which is created if there is none. Raises
    KeyMissing."""
    return Request(NeedKey(offered_key(sealer)), identity)


def rotate(
    sealer: PayloadSealer, kid: str | None, secret: bytes | None, grace: Duration
) -> Request[RotatedKey]:
    """Make a new key the current signing key. The answer is RotatedKey. Raises KeyMissing."""
    name = None if kid is None else checked_kid(kid)
    key = offered_key(sealer, name, None if secret is None else checked_secret(secret))
    return Request(RotateKey(key, checked_grace(grace), sealer.secrets.reveal), identity)
