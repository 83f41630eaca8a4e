# Generated from connect/waits.py by tools/generate_blocking.py: do not edit.
"""``engine.waits``: list the waits of runs, deliver signals to them, and release them."""

from __future__ import annotations

from typing import Any

from holdfast.connect.calls import Calls
from holdfast.connect.components import Components
from holdfast.core.duration import Duration
from holdfast.core.tokens import Token
from holdfast.service import keys, waits
from holdfast.service.requests import Request
from holdfast.service.waits import DeliveryReceipt
from holdfast.views import waits as views
from holdfast.views.pages import Page
from holdfast.views.waits import WaitView


class Waits:
    """The waits of the runs of an ``Engine``."""

    def __init__(self, calls: Calls) -> None:
        self._calls: Calls = calls

    def list(
        self,
        run_id: str | None = None,
        *,
        escalated: bool = False,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[WaitView]:
        """Return the waits of a run, oldest first, or the open waits of all runs, the next to time
        out first; with *escalated*, only the open waits that need an operator. *after* is the
        ``next`` of the page before. Raises RunNotFound, BadCursor."""

        def read(parts: Components) -> Page[WaitView]:
            checked = None if run_id is None else parts.client.get(run_id).id
            page = waits.listed(
                parts.client, checked, escalated=escalated, after=after, limit=limit
            )
            return Page((views.of(wait) for wait in page.waits), page.next)

        return self._calls.call(read)

    def get(self, wait_id: str) -> WaitView:
        """Return an issued wait by its id, without its token. Raises WaitNotFound."""
        return views.of(self._calls.call(lambda parts: waits.get(parts.client, wait_id)))

    def token(self, wait_id: str, *, by: str | None = None) -> Token:
        """Return the token of an issued wait again, for an operator of this database. With *by*,
        the person or program that asks, it is recorded in ``engine.audit``. Raises WaitNotFound."""

        def read(parts: Components) -> Token:
            token = waits.token(
                parts.client, wait_id, lambda: parts.commit(keys.need(parts.sealer))
            )
            parts.note_action(by, "waits.token", wait_id)
            return token

        return self._calls.call(read)

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
        return self._calls.commit(
            lambda parts: waits.deliver(
                parts.client, wait_id, token, name, payload, source=source, key=key
            )
        )

    def release(
        self,
        run_id: str,
        *,
        step: str | None = None,
        payload: Any = None,
        by: str | None = None,
        delay: Duration | None = None,
    ) -> str:
        """Release a wait of a run, and return the step that it belongs to. With *delay*, a
        suspended task or a delayed run resumes only after that time.

        A run in ``wait_for`` continues without its signals, a sleep ends early, a step is retried
        at once, a delayed run begins now (then the returned step is empty). Raises RunNotFound,
        WaitNotFound, and BadOption if several waits match and *step* is None.
        """

        def make_request(parts: Components) -> Request[str]:
            run = parts.client.get(parts.client.own_run_id(run_id))
            request = waits.release(parts.store, parts.codec, run.id, step, payload, by, delay)
            return parts.audit.record_run(request, by, "run.release", run.id, step=step)

        return self._calls.commit(make_request)
