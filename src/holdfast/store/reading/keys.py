"""Looking at keys."""

from __future__ import annotations

from holdfast.core.tokens import Key
from holdfast.store.reading.asking import Asking
from holdfast.store.transitions.keys import key_from


class KeyReader(Asking):
    """What can be asked about keys."""

    def keys(self) -> list[Key]:
        return self._listed(key_from, "keys")
