"""The keys that sign tokens, as an engine is asked about them."""

from __future__ import annotations

from holdfast.connect.areas.calls import AsyncCalls, Calls
from holdfast.core.duration import Duration
from holdfast.engine import keys
from holdfast.engine.keys import DEFAULT_GRACE, KeyInfo
from holdfast.store.contract import Rotated


class Keys(Calls):
    """Keys, for ``Engine``."""

    def keys(self) -> list[KeyInfo]:
        """Return the keys that are good, without their secrets."""
        return keys.listed(self._parts.store.keys(), self._parts.store.now())

    def rotate_key(self, *, grace: Duration = DEFAULT_GRACE, kid: str | None = None, secret: bytes | None = None) -> Rotated:
        """Let a new key sign tokens; what the one before it has signed is taken for *grace* longer. Raises KeyExists."""
        found: Rotated = self._do(keys.rotate(kid, secret, grace))
        return found


class AsyncKeys(AsyncCalls):
    """Keys, for ``AsyncEngine``."""

    def keys(self) -> list[KeyInfo]:
        """Return the keys that are good, without their secrets."""
        return keys.listed(self._parts.store.keys(), self._parts.store.now())

    async def rotate_key(
        self, *, grace: Duration = DEFAULT_GRACE, kid: str | None = None, secret: bytes | None = None
    ) -> Rotated:
        """Let a new key sign tokens; what the one before it has signed is taken for *grace* longer. Raises KeyExists."""
        found: Rotated = await self._do(keys.rotate(kid, secret, grace))
        return found
