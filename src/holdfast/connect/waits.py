"""The calls of an engine on waits: deliver signals, release, list."""

from __future__ import annotations

from typing import Any

from holdfast.connect.calls import AsyncCalls, Calls
from holdfast.core.tokens import Token
from holdfast.service import keys, waits
from holdfast.service.waits import DeliveryReceipt, WaitInfo


class Waits(Calls):
    """The calls of ``Engine`` on waits."""

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
        """Deliver a signal to an issued wait and return the receipt, which states its effect.

        Raises TokenRefused without the token of this wait; that error does not reveal whether the
        wait exists. Raises WaitClosed, WaitExpired, TooManySignals.
        """
        request = waits.deliver(
            self._parts.client, wait_id, token, name, payload, source=source, key=key
        )
        receipt: DeliveryReceipt = self._do(request)
        return receipt

    def release(
        self, run_id: str, *, step: str | None = None, payload: Any = None, by: str | None = None
    ) -> str:
        """Release a wait of a run, and return the step that it belongs to.

        A run in ``wait_for`` continues without its signals, a sleep ends early, a step is retried
        at once, a delayed run begins now (then the returned step is empty). Raises RunNotFound,
        WaitNotFound, and BadOption if several waits match and *step* is None.
        """
        parts = self._parts
        run = parts.client.get(parts.client.mine(run_id))
        step = self._do(waits.release(parts.store, parts.codec, run.id, step, payload, by))
        return step

    def waits(
        self, run_id: str | None = None, *, escalated: bool = False, limit: int = 100
    ) -> list[WaitInfo]:
        """Return the waits of a run, or the open waits of all runs; with *escalated*, only the open
        waits that need an operator. Raises RunNotFound."""
        if run_id is not None:
            run_id = self._parts.client.get(run_id).id
        return waits.listed(self._parts.client, run_id, escalated=escalated, limit=limit)

    def wait_token(self, wait_id: str) -> Token:
        """Return the token of an issued wait again, for an operator of this database. Raises
        WaitNotFound."""
        parts = self._parts
        return waits.token(parts.client, wait_id, lambda: self._do(keys.need(parts.sealer)))


class AsyncWaits(AsyncCalls):
    """The calls of ``AsyncEngine`` on waits."""

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
        """Deliver a signal to an issued wait and return the receipt, which states its effect.

        Raises TokenRefused without the token of this wait; that error does not reveal whether the
        wait exists. Raises WaitClosed, WaitExpired, TooManySignals.
        """
        return await self._call(
            Waits.deliver, wait_id, token, name, payload, source=source, key=key
        )

    async def release(
        self, run_id: str, *, step: str | None = None, payload: Any = None, by: str | None = None
    ) -> str:
        """Release a wait of a run, and return the step that it belongs to.

        A run in ``wait_for`` continues without its signals, a sleep ends early, a step is retried
        at once, a delayed run begins now (then the returned step is empty). Raises RunNotFound,
        WaitNotFound, and BadOption if several waits match and *step* is None.
        """
        return await self._call(Waits.release, run_id, step=step, payload=payload, by=by)

    async def waits(
        self, run_id: str | None = None, *, escalated: bool = False, limit: int = 100
    ) -> list[WaitInfo]:
        """Return the waits of a run, or the open waits of all runs; with *escalated*, only the open
        waits that need an operator. Raises RunNotFound."""
        return await self._call(Waits.waits, run_id, escalated=escalated, limit=limit)

    async def wait_token(self, wait_id: str) -> Token:
        """Return the token of an issued wait again, for an operator of this database. Raises
        WaitNotFound."""
        return await self._call(Waits.wait_token, wait_id)
