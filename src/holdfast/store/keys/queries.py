"""Queries about signing keys."""

from __future__ import annotations

from holdfast.core.tokens import SigningKey
from holdfast.store.reader import Queries
from holdfast.store.transitions.keys import key_from


class KeyQueries(Queries):
    """Queries about signing keys."""

    def keys(self) -> list[SigningKey]:
        return self._listed(key_from, "keys")
