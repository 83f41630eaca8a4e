"""``engine.events``: the events of all runs, graphs or flows, and the named cursors over them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from holdfast.connect.async_calls import AsyncCalls, AsyncPrepared
from holdfast.connect.components import Components
from holdfast.connect.engine_options import seconds_of
from holdfast.connect.subscription_reads import subscriptions_of
from holdfast.core.duration import Duration
from holdfast.core.envelope import is_sealed
from holdfast.core.events import EventKind
from holdfast.core.subscriptions import EventCursor, RunEvent
from holdfast.core.unset import UNSET, without_unset
from holdfast.core.validation import checked_flag
from holdfast.errors import EngineClosed
from holdfast.service.subscriptions import EventPages
from holdfast.store.user_code import CodeRaised
from holdfast.views import events as views
from holdfast.views.events import RunEventView
from holdfast.views.subscriptions import SubscriptionView

Callback = Callable[[list[RunEventView], Any], object]
"""Called with events and the connection of the transaction in which the cursor moves."""


class AsyncEvents:
    """The events of the runs of an ``AsyncEngine``."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls: AsyncCalls = calls

    def read(
        self,
        *,
        after: str | None = None,
        name: str | None = None,
        workflow: str | None = UNSET,
        namespace: str | None = UNSET,
        run: str | None = UNSET,
        kind: str | Sequence[str] | None = UNSET,
        tags: Mapping[str, str] | None = UNSET,
        with_result: bool = False,
        source: str = UNSET,
    ) -> AsyncIterator[RunEventView]:
        """Yield the events of all runs so far, each at least once; the events of one run are in
        order.

        Start at the beginning, at the cursor *after*, at ``now``, or, with a *name*, at the stored
        cursor of that name, which moves as events are consumed. Filters: *workflow*, *namespace*,
        *run*, *tags* and *kind* (an event kind, a topic such as ``completions``, or several). With
        *with_result*, the event ``run_completed`` has the result of its run, as it is when the
        event is read. With *source* ``graphs`` or ``flows``, the events are the lines of their
        audit trails, and *workflow* and *run* are the name and id of the graph, or the controller
        and id of the flow. Raises BadCursor.
        """
        filters = without_unset(
            {
                "workflow": workflow,
                "namespace": namespace,
                "run": run,
                "kind": kind,
                "tags": tags,
                "source": source,
            }
        )
        reader = self._calls.prepare(lambda parts: _reader(parts, name, after, filters))
        results = checked_flag("with_result", with_result)
        return self._events(reader, name, follow=False, seconds=None, results=results)

    def follow(
        self,
        *,
        after: str | None = None,
        name: str | None = None,
        timeout: Duration | None = None,
        workflow: str | None = UNSET,
        namespace: str | None = UNSET,
        run: str | None = UNSET,
        kind: str | Sequence[str] | None = UNSET,
        tags: Mapping[str, str] | None = UNSET,
        with_result: bool = False,
        source: str = UNSET,
    ) -> AsyncIterator[RunEventView]:
        """Yield the events of all runs, as ``read`` does, and wait for further events, without end
        or until none arrives for *timeout*. Raises BadCursor."""
        filters = without_unset(
            {
                "workflow": workflow,
                "namespace": namespace,
                "run": run,
                "kind": kind,
                "tags": tags,
                "source": source,
            }
        )
        seconds = seconds_of(timeout)
        reader = self._calls.prepare(lambda parts: _reader(parts, name, after, filters))
        results = checked_flag("with_result", with_result)
        return self._events(reader, name, follow=True, seconds=seconds, results=results)

    async def _events(
        self,
        prepared: AsyncPrepared[EventPages],
        name: str | None,
        *,
        follow: bool,
        seconds: float | None,
        results: bool,
    ) -> AsyncIterator[RunEventView]:
        reader = await prepared.get()
        consumed: EventCursor | None = None
        async with self._calls.listen() as listener:
            try:
                last_event = time.monotonic()
                while True:
                    events, page_end, more = await self._calls.call(lambda parts: _page(reader))
                    for event in events:
                        # Sealed values and results are read from the store; most events have none.
                        has_result = results and event.kind == EventKind.RUN_COMPLETED
                        if has_result or is_sealed(event.data) or is_sealed(event.error):
                            yield views.of_run(await self._opened(reader, event, results))
                        else:
                            yield views.of_run(event)
                        # After the yield, not before: the caller has processed an event only when
                        # it requests the next one.
                        consumed = reader.place_after(event)
                    if more:
                        await self._store_cursor(name, page_end)
                        consumed = None
                        if events:
                            last_event = time.monotonic()
                        continue
                    left = None if seconds is None else seconds - (time.monotonic() - last_event)
                    if not follow or (left is not None and left <= 0):
                        return
                    await listener.wait(left)
            finally:
                if consumed is not None:
                    with suppress(EngineClosed):  # then the last events are yielded again next time
                        await self._store_cursor(name, consumed)

    async def _opened(self, reader: EventPages, event: RunEvent, results: bool) -> RunEvent:
        return await self._calls.call(lambda parts: reader.opened(event, with_result=results))

    async def _store_cursor(self, name: str | None, place: EventCursor) -> None:
        """Store the cursor of a named subscription; without a name there is none to store."""
        if name is not None:
            await self._calls.commit(lambda parts: parts.subscriptions.move_cursor(name, place))

    async def consume(
        self,
        name: str,
        callback: Callback,
        *,
        after: str | None = None,
        batch: int = 100,
        follow: bool = False,
        timeout: Duration | None = None,
        workflow: str | None = UNSET,
        namespace: str | None = UNSET,
        run: str | None = UNSET,
        kind: str | Sequence[str] | None = UNSET,
        tags: Mapping[str, str] | None = UNSET,
        with_result: bool = False,
        source: str = UNSET,
    ) -> int:
        """Call ``callback(events, connection)``, a plain function, with the events after the stored
        cursor of *name*, and return the number of events.

        The callback's writes on *connection* and the move of the cursor are one transaction: both
        are committed, or neither. If the callback raises, nothing is committed, and its error is
        raised here. It must not commit, nor call the engine. With *follow*, wait for further
        events, without end or until none arrives for *timeout*. The filters are those of ``read``.
        """
        checked_flag("follow", follow)
        results = checked_flag("with_result", with_result)
        filters = without_unset(
            {
                "workflow": workflow,
                "namespace": namespace,
                "run": run,
                "kind": kind,
                "tags": tags,
                "source": source,
            }
        )
        seconds = seconds_of(timeout)
        total = 0
        async with self._calls.listen() as listener:
            last_event = time.monotonic()
            while True:
                try:
                    done = await self._calls.commit(
                        lambda parts: parts.subscriptions.consume(
                            name, _with_views(callback), after, batch, filters, with_result=results
                        )
                    )
                except CodeRaised as raised:
                    raise raised.error from None
                total += done.events
                if done.more:
                    last_event = time.monotonic()
                    continue
                left = None if seconds is None else seconds - (time.monotonic() - last_event)
                while follow and (left is None or left > 0):
                    await listener.wait(left)
                    if await self._calls.call(lambda parts: parts.subscriptions.has_events(name)):
                        break
                    left = None if seconds is None else seconds - (time.monotonic() - last_event)
                else:
                    return total

    async def subscriptions(self) -> Sequence[SubscriptionView]:
        """Return all subscriptions, named cursors and webhooks, with their positions."""
        return await self._calls.call(subscriptions_of)

    async def unsubscribe(self, name: str, *, by: str | None = None) -> None:
        """Delete a named cursor. Raises SubscriptionNotFound."""
        await self._calls.commit(
            lambda parts: parts.audit.record(
                parts.subscriptions.remove(name), by, "events.unsubscribe", name
            )
        )


def _with_views(callback: Callback) -> Callable[[list[RunEvent], Any], object]:
    """Return a function that calls *callback* with the views of events."""
    if not callable(callback):
        return callback  # the service refuses it

    def call(events: list[RunEvent], connection: Any) -> object:
        return callback([views.of_run(event) for event in events], connection)

    return call


def _reader(
    parts: Components, name: str | None, after: str | None, filters: dict[str, Any]
) -> EventPages:
    """Return a reader that starts at *after*, or at the stored cursor of *name*."""
    service = parts.subscriptions
    if name is None:
        return service.reader(after, filters)
    return parts.commit(service.open_reader(name, after, filters))


def _page(reader: EventPages) -> tuple[list[RunEvent], EventCursor, bool]:
    """Read a page. ``place_after`` reads the id of the installation at its first call; calling it
    here keeps that read off the program's loop."""
    events, page_end, more = reader.page()
    if events:
        reader.place_after(events[0])
    return events, page_end, more
