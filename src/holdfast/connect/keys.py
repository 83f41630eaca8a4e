"""The calls of an engine on the keys that sign tokens."""

from __future__ import annotations

from holdfast.connect.calls import AsyncCalls, Calls
from holdfast.core.duration import Duration
from holdfast.service import keys
from holdfast.service.keys import DEFAULT_GRACE, KeyInfo
from holdfast.service.runs import Request
from holdfast.store.keys.operations import RotatedKey


class Keys(Calls):
    """The calls of ``Engine`` on signing keys."""

    def keys(self) -> list[KeyInfo]:
        """Return the valid signing keys, without their secrets. Raises NamespaceBound."""
        self._parts.client.unbound("keys")
        return keys.listed(self._parts.store.keys.all(), self._parts.store.now())

    def rotate_key(
        self,
        *,
        grace: Duration = DEFAULT_GRACE,
        kid: str | None = None,
        secret: bytes | None = None,
    ) -> RotatedKey:
        """Replace the key that signs new tokens. Tokens of the previous key stay valid for *grace*.
        Raises KeyExists, NamespaceBound."""
        self._parts.client.unbound("rotate_key")
        sealer = self._parts.sealer
        rotated: RotatedKey = self._do(keys.rotate(sealer, kid, secret, grace))
        if sealer.cipher is not None:
            for op in sealer.secrets.outdated(self._parts.store, sealer.cipher.current, {}):
                self._do(Request(op, bool))
        return rotated


class AsyncKeys(AsyncCalls):
    """The calls of ``AsyncEngine`` on signing keys."""

    async def keys(self) -> list[KeyInfo]:
        """Return the valid signing keys, without their secrets. Raises NamespaceBound."""
        return await self._call(Keys.keys)

    async def rotate_key(
        self,
        *,
        grace: Duration = DEFAULT_GRACE,
        kid: str | None = None,
        secret: bytes | None = None,
    ) -> RotatedKey:
        """Replace the key that signs new tokens. Tokens of the previous key stay valid for *grace*.
        Raises KeyExists, NamespaceBound."""
        return await self._call(Keys.rotate_key, grace=grace, kid=kid, secret=secret)
