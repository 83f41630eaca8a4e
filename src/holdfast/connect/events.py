"""The calls of an engine on events and subscriptions: ``events``, ``consume``, webhooks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

from holdfast.connect.calls import AsyncCalls, Calls
from holdfast.connect.components import seconds_of
from holdfast.core.duration import Duration
from holdfast.core.envelope import is_sealed
from holdfast.core.subscriptions import DeadLetter, EventCursor, RunEvent, Subscription
from holdfast.core.validation import checked_flag
from holdfast.engine.runtime.notifier import Committed
from holdfast.errors import EngineClosed
from holdfast.service.subscriptions import Callback, EventPages
from holdfast.store.subscriptions.operations import Consumed


class Subscriptions(Calls):
    """The calls of ``Engine`` on events and subscriptions."""

    def subscriptions(self) -> list[Subscription]:
        """Return all subscriptions, named cursors and webhooks, with their positions."""
        return self._parts.subscriptions.all()

    def dead_letters(self, name: str) -> list[DeadLetter]:
        """Return the dead letters of a webhook, the events that it could not deliver, oldest first.
        Raises SubscriptionNotFound."""
        return self._parts.subscriptions.letters(name)

    def events(
        self,
        *,
        after: str | None = None,
        name: str | None = None,
        follow: bool = False,
        timeout: Duration | None = None,
        **filters: Any,
    ) -> Iterator[RunEvent]:
        """Yield the events of all runs, each at least once; the events of one run are in order.

        Start at the beginning, at the cursor *after*, at ``now``, or, with a *name*, at the stored
        cursor of that name, which moves as events are consumed. With *follow*, wait for further
        events, without end or until none arrives for *timeout*. Filters: ``workflow``,
        ``namespace``, ``run``, ``tags`` and ``kind`` (an event kind, a topic such as
        ``completions``, or several). Raises BadCursor.
        """
        checked_flag("follow", follow)
        return self._events(self._reader(name, after, filters), name, follow, seconds_of(timeout))

    def _reader(self, name: str | None, after: str | None, filters: dict[str, Any]) -> EventPages:
        """Return a reader that starts at *after*, or at the stored cursor of *name*."""
        service = self._parts.subscriptions
        if name is None:
            return service.reader(after, filters)
        reader: EventPages = self._do(service.named(name, after, filters))
        return reader

    def _events(
        self, reader: EventPages, name: str | None, follow: bool, seconds: float | None
    ) -> Iterator[RunEvent]:
        listener = self._parts.notifier.subscribe(Committed)
        consumed: EventCursor | None = None
        try:
            last_event = time.monotonic()
            while True:
                events, page_end, more = reader.page()
                for event in events:
                    yield reader.opened(event)
                    # After the yield, not before: the caller has processed an event only when it
                    # requests the next one.
                    consumed = reader.place_after(event)
                if more:
                    self._store_cursor(name, page_end)
                    consumed = None
                    if events:
                        last_event = time.monotonic()
                    continue
                left = None if seconds is None else seconds - (time.monotonic() - last_event)
                if not follow or (left is not None and left <= 0):
                    return
                listener.wait(left)
        finally:
            listener.close()
            if consumed is not None:
                with suppress(EngineClosed):  # then the last events are yielded again next time
                    self._store_cursor(name, consumed)

    def _store_cursor(self, name: str | None, place: EventCursor) -> None:
        """Store the cursor of a named subscription; without a name there is none to store."""
        if name is not None:
            self._do(self._parts.subscriptions.moved(name, place))

    def consume(
        self,
        name: str,
        callback: Callback,
        *,
        after: str | None = None,
        batch: int = 100,
        follow: bool = False,
        timeout: Duration | None = None,
        **filters: Any,
    ) -> int:
        """Call ``callback(events, connection)`` with the events after the stored cursor of *name*,
        and return the number of events.

        The callback's writes on *connection* and the move of the cursor are one transaction: both
        are committed, or neither. If the callback raises, nothing is committed, and its error is
        raised here. It must not commit, nor call the engine. With *follow*, wait for further
        events, without end or until none arrives for *timeout*. The filters are those of
        ``events``.
        """
        checked_flag("follow", follow)
        listener = self._parts.notifier.subscribe(Committed)
        total = 0
        last_event = time.monotonic()
        seconds = seconds_of(timeout)
        try:
            while True:
                done = self._consume_batch(name, callback, after, batch, filters)
                total += done.events
                if done.more:
                    last_event = time.monotonic()
                    continue
                left = None if seconds is None else seconds - (time.monotonic() - last_event)
                while follow and (left is None or left > 0):
                    listener.wait(left)
                    if self._parts.subscriptions.has_events(name):
                        break
                    left = None if seconds is None else seconds - (time.monotonic() - last_event)
                else:
                    return total
        finally:
            listener.close()

    def _consume_batch(
        self, name: str, callback: Callback, after: str | None, batch: int, filters: dict[str, Any]
    ) -> Consumed:
        """Call the callback with the next events and move the cursor, in one transaction."""
        done: Consumed = self._do(
            self._parts.subscriptions.consume(name, callback, after, batch, filters)
        )
        return done

    def add_webhook(
        self,
        name: str,
        url: str,
        *,
        secret: str | None = None,
        after: str | None = None,
        attempts: int | None = None,
        **filters: Any,
    ) -> str:
        """Deliver events to *url*, starting now or at the cursor *after*, and return the secret
        that signs the deliveries.

        Workers deliver the events one after another, each at least once. An event becomes a dead
        letter after *attempts* failed attempts. The filters are those of ``events``. Raises
        SubscriptionExists.
        """
        signing_secret: str = self._do(
            self._parts.subscriptions.add_webhook(name, url, secret, after, attempts, filters)
        )
        return signing_secret

    def unsubscribe(self, name: str) -> None:
        """Delete a named cursor or a webhook, with its dead letters. Raises
        SubscriptionNotFound."""
        self._do(self._parts.subscriptions.remove(name))

    def replay_dead_letters(self, name: str) -> int:
        """Deliver the dead letters of a webhook again, and return their number. Raises
        SubscriptionNotFound."""
        count: int = self._do(self._parts.subscriptions.replay(name))
        return count


class AsyncSubscriptions(AsyncCalls):
    """The calls of ``AsyncEngine`` on events and subscriptions."""

    async def subscriptions(self) -> list[Subscription]:
        """Return all subscriptions, named cursors and webhooks, with their positions."""
        return await self._call(Subscriptions.subscriptions)

    async def dead_letters(self, name: str) -> list[DeadLetter]:
        """Return the dead letters of a webhook, the events that it could not deliver, oldest first.
        Raises SubscriptionNotFound."""
        return await self._call(Subscriptions.dead_letters, name)

    async def events(
        self,
        *,
        after: str | None = None,
        name: str | None = None,
        follow: bool = False,
        timeout: Duration | None = None,
        **filters: Any,
    ) -> AsyncIterator[RunEvent]:
        """Yield the events of all runs, as ``Engine.events`` does. Raises BadCursor."""
        checked_flag("follow", follow)
        engine = await self._opened()
        reader = await self._call(Subscriptions._reader, name, after, filters)
        loop = asyncio.get_running_loop()
        seconds = seconds_of(timeout)
        listener = engine._parts.notifier.subscribe_async(Committed)
        consumed: EventCursor | None = None
        try:
            last_event = loop.time()
            while True:
                events, page_end, more = await self._aside(_page, reader)
                for event in events:
                    # Only sealed values need a thread: this saves one for every other event.
                    if is_sealed(event.data) or is_sealed(event.error):
                        yield await self._aside(reader.opened, event)
                    else:
                        yield event
                    consumed = reader.place_after(event)
                if more:
                    await self._call(Subscriptions._store_cursor, name, page_end)
                    consumed = None
                    if events:
                        last_event = loop.time()
                    continue
                left = None if seconds is None else seconds - (loop.time() - last_event)
                if not follow or (left is not None and left <= 0):
                    return
                await listener.wait(left)
        finally:
            listener.close()
            if consumed is not None:
                with suppress(EngineClosed):
                    await self._call(Subscriptions._store_cursor, name, consumed)

    async def consume(
        self,
        name: str,
        callback: Callback,
        *,
        after: str | None = None,
        batch: int = 100,
        follow: bool = False,
        timeout: Duration | None = None,
        **filters: Any,
    ) -> int:
        """Call a plain function with the events after the stored cursor of *name*, as
        ``Engine.consume`` does. The function is called in a thread, because it uses the
        database."""
        checked_flag("follow", follow)
        engine = await self._opened()
        loop = asyncio.get_running_loop()
        seconds = seconds_of(timeout)
        listener = engine._parts.notifier.subscribe_async(Committed)
        total = 0
        last_event = loop.time()
        try:
            while True:
                done = await self._call(
                    Subscriptions._consume_batch, name, callback, after, batch, filters
                )
                total += done.events
                if done.more:
                    last_event = loop.time()
                    continue
                left = None if seconds is None else seconds - (loop.time() - last_event)
                while follow and (left is None or left > 0):
                    await listener.wait(left)
                    if await self._aside(engine._parts.subscriptions.has_events, name):
                        break
                    left = None if seconds is None else seconds - (loop.time() - last_event)
                else:
                    return total
        finally:
            listener.close()

    async def add_webhook(
        self,
        name: str,
        url: str,
        *,
        secret: str | None = None,
        after: str | None = None,
        attempts: int | None = None,
        **filters: Any,
    ) -> str:
        """Deliver events to *url*, as ``Engine.add_webhook`` does, and return the signing secret.
        Raises SubscriptionExists."""
        engine = await self._opened()
        return await self._aside(
            engine.add_webhook, name, url, secret=secret, after=after, attempts=attempts, **filters
        )

    async def unsubscribe(self, name: str) -> None:
        """Delete a named cursor or a webhook, with its dead letters. Raises
        SubscriptionNotFound."""
        await self._call(Subscriptions.unsubscribe, name)

    async def replay_dead_letters(self, name: str) -> int:
        """Deliver the dead letters of a webhook again, and return their number. Raises
        SubscriptionNotFound."""
        return await self._call(Subscriptions.replay_dead_letters, name)


def _page(reader: EventPages) -> tuple[list[RunEvent], EventCursor, bool]:
    """Read a page in a thread. ``place_after`` reads the id of the installation at its first call;
    calling it here keeps that read off the program's loop."""
    events, page_end, more = reader.page()
    if events:
        reader.place_after(events[0])
    return events, page_end, more
