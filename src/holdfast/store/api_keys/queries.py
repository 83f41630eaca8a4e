"""Queries about API keys."""

from __future__ import annotations

from holdfast.core.api_keys import ApiKey
from holdfast.store.api_keys.apply import api_key_from
from holdfast.store.reader import Reader


class ApiKeyQueries:
    """Queries about API keys."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def all(self) -> list[ApiKey]:
        """Return all API keys, newest first, also revoked and expired ones."""
        return self._reader.listed(api_key_from, "api_keys")

    def get(self, key_id: str) -> ApiKey | None:
        """Return an API key by its id; None if there is none."""
        return self._reader.first(api_key_from, "api_key", id=key_id)

    def has_any(self) -> bool:
        """Return whether there is a key that is neither revoked nor expired."""
        return bool(self._reader.rows("any_api_key", now=self._reader.now()))
