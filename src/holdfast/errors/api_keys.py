"""Errors about API keys."""

from __future__ import annotations

from holdfast.errors.base import UsageError


class ApiKeyNotFound(UsageError):
    """There is no API key of this name or id: `holdfast api-keys list` lists them."""


class ApiKeyExists(UsageError):
    """An API key that is not revoked has this name: choose another name, or revoke that key."""
