"""Queries about signing keys."""

from __future__ import annotations

from holdfast.core.tokens import SigningKey
from holdfast.store.keys.apply import key_from
from holdfast.store.reader import Reader


class KeyQueries:
    """Queries about signing keys."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def all(self) -> list[SigningKey]:
        """Return all current and former signing keys, oldest first, with their secrets."""
        return self._reader.listed(key_from, "keys")
