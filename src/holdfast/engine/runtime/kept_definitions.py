"""Which definitions are known to be stored, so that not every start sends them again.

A start that does not send its definition relies on the stored one. The store deletes a frozen
definition only a day after the last start that sent it, and this process sends it again after an
hour.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.core.definitions import StoredDefinition

HOUR = 3_600_000_000
"""Microseconds for which this process relies on a definition that it has stored."""

MOST = 10_000
"""How many definitions are remembered."""

Key = tuple[str, str, str, str]


class KeptDefinitions:
    """The definitions that this process has stored within the last hour."""

    __slots__ = ("_now", "_stored")

    def __init__(self, now: Callable[[], int]) -> None:
        self._now: Callable[[], int] = now
        self._stored: dict[Key, tuple[str, int]] = {}
        """The digest and the time of the start that stored it."""

    def has(self, definition: StoredDefinition) -> bool:
        """Return whether a new run need not send this definition."""
        digest, at = self._stored.get(_key(definition), ("", 0))
        return digest == definition.digest and self._now() - at < HOUR

    def note(self, definition: StoredDefinition) -> None:
        """Note that a start has stored this definition, after its commit."""
        # All at once: a definition that is forgotten costs one more write of it, no error.
        if len(self._stored) >= MOST:
            self._stored.clear()
        self._stored[_key(definition)] = (definition.digest, self._now())


def _key(definition: StoredDefinition) -> Key:
    return (definition.namespace, definition.kind, definition.name, definition.version)
