"""``engine.keys``: the keys that sign tokens, and the encryption of stored values."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.connect.async_calls import AsyncCalls
from holdfast.connect.components import Components
from holdfast.core.duration import Duration
from holdfast.payloads.rekey import Rekeyed, rekey
from holdfast.service import keys
from holdfast.service.keys import DEFAULT_GRACE
from holdfast.service.requests import Request, identity
from holdfast.views import keys as views
from holdfast.views.keys import KeyRotationView, KeyView


class AsyncKeys:
    """The signing keys of an ``AsyncEngine``, and the encryption of its stored values."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls: AsyncCalls = calls

    async def list(self) -> list[KeyView]:
        """Return the valid signing keys, without their secrets. Raises NamespaceBound."""

        def read(parts: Components) -> list[KeyView]:
            parts.client.require_unbound("keys.list")
            valid = keys.valid_keys(parts.store.keys.all(), parts.store.now())
            return [views.of(key) for key in valid]

        return await self._calls.call(read)

    async def rotate(
        self,
        *,
        grace: Duration = DEFAULT_GRACE,
        kid: str | None = None,
        secret: bytes | None = None,
        by: str | None = None,
    ) -> KeyRotationView:
        """Replace the key that signs new tokens. Tokens of the previous key stay valid for *grace*.
        Raises KeyExists, NamespaceBound."""

        def rotate(parts: Components) -> KeyRotationView:
            parts.client.require_unbound("keys.rotate")
            sealer = parts.sealer
            request = keys.rotate(sealer, kid, secret, grace)
            rotated = parts.commit(parts.audit.record(request, by, "keys.rotate", "signing keys"))
            if sealer.cipher is not None:
                for op in sealer.secrets.outdated(parts.store, sealer.cipher.current, {}):
                    parts.commit(Request(op, bool))
            return views.rotation_of(rotated)

        return await self._calls.call(rotate)

    async def rekey(
        self, progress: Callable[[int], None] | None = None, *, by: str | None = None
    ) -> Rekeyed:
        """Encrypt with the current key all values that another key encrypts or that are in clear.
        *progress* is called with numbers of runs. The call can be interrupted and repeated. Raises
        NamespaceBound."""
        report = self._calls.reporter(progress)

        def encrypt(parts: Components) -> Rekeyed:
            parts.client.require_unbound("keys.rekey")
            parts.note_action(by, "keys.rekey", "stored values")
            return rekey(
                parts.store,
                parts.sealer,
                lambda op: parts.commit(Request(op, identity)),
                report,
            )

        return await self._calls.call(encrypt)
