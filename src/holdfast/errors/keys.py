"""Errors about signing keys, tokens and encryption keys."""

from __future__ import annotations

from holdfast.errors.base import UsageError


class KeyExists(UsageError):
    """A key of that name has another secret: choose another name."""


class TokenRefused(UsageError):
    """This token is not known here: ask for a new one."""


class TokenExpired(TokenRefused):
    """This token was good once, and its time is over: ask for a new one."""


class KeyMissing(UsageError):
    """This is encrypted with a key that is not known here: nothing is lost; give the key, and try
    again."""
