"""Errors about signing keys, tokens and encryption keys."""

from __future__ import annotations

from holdfast.errors.base import UsageError


class KeyExists(UsageError):
    """A key with this name exists and has another secret: choose another name."""


class TokenRefused(UsageError):
    """This token is not valid here: request a new one."""


class TokenExpired(TokenRefused):
    """This token has expired: request a new one."""


class KeyMissing(UsageError):
    """The data is encrypted with a key that is not known here: nothing is lost; supply the key and
    try again."""
