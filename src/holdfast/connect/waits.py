"""Waits that others may resume, as an engine is asked about them."""

from __future__ import annotations

from typing import Any

from holdfast.connect.calls import AsyncCalls, Calls
from holdfast.core.tokens import Token
from holdfast.service import keys, waits
from holdfast.service.waits import DeliveryReceipt, WaitInfo


class Waits(Calls):
    """Waits, for ``Engine``."""

    def deliver(
        self,
        wait_id: str,
        token: str,
        name: str | None = None,
        payload: Any = None,
        *,
        source: str | None = None,
        key: str | None = None,
    ) -> DeliveryReceipt:
        """Deliver a signal to a wait that was handed out, and say what it came to. Without the
        token that was made for this wait nothing is told, not even whether there is one:
        TokenRefused. Raises WaitClosed, WaitExpired, TooManySignals."""
        request = waits.deliver(
            self._parts.client, wait_id, token, name, payload, source=source, key=key
        )
        found: DeliveryReceipt = self._do(request)
        return found

    def release(
        self, run_id: str, *, step: str | None = None, payload: Any = None, by: str | None = None
    ) -> str:
        """Let a run that waits with ``wait_for`` go on without its signals, one that sleeps before
        its time, a step be tried again at once, or a run begin now that was to begin later; return
        the step, which is empty when it has not begun. Raises WaitNotFound."""
        parts = self._parts
        run = parts.client.get(parts.client.mine(run_id))
        step = self._do(waits.release(parts.store, parts.codec, run.id, step, payload, by))
        return step

    def waits(
        self, run_id: str | None = None, *, escalated: bool = False, limit: int = 100
    ) -> list[WaitInfo]:
        """Return the waits of a run, or the open ones of all runs; of these, only those that need a
        person, if so asked."""
        found = None if run_id is None else self._parts.client.get(run_id).id
        return waits.listed(self._parts.client, found, escalated=escalated, limit=limit)

    def wait_token(self, wait_id: str) -> Token:
        """Return the token of a wait once more, for whoever operates this database. Raises
        WaitNotFound."""
        parts = self._parts
        return waits.token(parts.client, wait_id, lambda: self._do(keys.need(parts.sealer)))


class AsyncWaits(AsyncCalls):
    """Waits, for ``AsyncEngine``."""

    async def deliver(
        self,
        wait_id: str,
        token: str,
        name: str | None = None,
        payload: Any = None,
        *,
        source: str | None = None,
        key: str | None = None,
    ) -> DeliveryReceipt:
        """Deliver a signal to a wait that was handed out, and say what it came to. Without the
        token that was made for this wait nothing is told, not even whether there is one:
        TokenRefused. Raises WaitClosed, WaitExpired, TooManySignals."""
        return await self._call(
            Waits.deliver, wait_id, token, name, payload, source=source, key=key
        )

    async def release(
        self, run_id: str, *, step: str | None = None, payload: Any = None, by: str | None = None
    ) -> str:
        """Let a run that waits with ``wait_for`` go on without its signals, one that sleeps before
        its time, a step be tried again at once, or a run begin now that was to begin later; return
        the step, which is empty when it has not begun. Raises WaitNotFound."""
        return await self._call(Waits.release, run_id, step=step, payload=payload, by=by)

    async def waits(
        self, run_id: str | None = None, *, escalated: bool = False, limit: int = 100
    ) -> list[WaitInfo]:
        """Return the waits of a run, or the open ones of all runs; of these, only those that need a
        person, if so asked."""
        return await self._call(Waits.waits, run_id, escalated=escalated, limit=limit)

    async def wait_token(self, wait_id: str) -> Token:
        """Return the token of a wait once more, for whoever operates this database. Raises
        WaitNotFound."""
        return await self._call(Waits.wait_token, wait_id)
