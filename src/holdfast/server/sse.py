"""Streams of events and of output, as server-sent events.

One reader per process reads the events of all runs and passes them to all open streams; a stream
that resumes from a cursor first reads what it missed. The reader starts with the first stream and
ends with the last, because a mounted app is not told when its program starts.

Invariants:
- A stream joins the reader before it reads what it missed, and drops what it has sent already: it
  gets every event once.
- Places of events only grow, in the order in which the store returns them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.connect.components import Components
from holdfast.connect.faces import AsyncFaces
from holdfast.core.subscriptions import EventCursor, EventFilter, RunEvent, order_of, place_of
from holdfast.server.masking import masked
from holdfast.service.subscriptions import EventPages
from holdfast.views import events as views
from holdfast.views.events import RunEventView
from holdfast.views.values import as_json

PING_EVERY = 15.0
"""Seconds of silence after which a comment is sent, so that proxies keep the connection open."""
MOST_WAITING = 1000
"""Events that may wait for a client that reads slowly."""
CHUNK = 64 * 1024
"""Bytes of events that are written at once, or one event if it is larger."""
READ_WITHIN = 30.0
"""Seconds within which a client must make room for the next message, and between two checks that
its caller is still admitted."""
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
PING = b": ping\n\n"


class SentEvent:
    """An event with its place; encoded once for all streams that send it."""

    __slots__ = ("_hidden", "_shown", "place", "view")

    def __init__(self, view: RunEventView, place: EventCursor) -> None:
        self.view: RunEventView = view
        self.place: EventCursor = place
        self._shown: bytes | None = None
        self._hidden: bytes | None = None

    def encoded(self, *, with_values: bool) -> bytes:
        """Return the event as a message of a stream."""
        if with_values:
            if self._shown is None:
                self._shown = message(self.view.cursor, as_json(self.view))
            return self._shown
        if self._hidden is None:
            self._hidden = message(self.view.cursor, as_json(masked(self.view)))
        return self._hidden


def message(cursor: str, data: bytes) -> bytes:
    """Return one message of a stream. It has no name, so that one listener of a browser receives
    all messages. JSON has no line breaks of its own."""
    return b"id: %s\ndata: %s\n\n" % (cursor.encode(), data)


class StreamClient:
    """An open stream of events: its filter and the events that wait to be sent."""

    __slots__ = ("_waiter", "is_behind", "waiting", "which")

    def __init__(self, which: EventFilter) -> None:
        self.which: EventFilter = which
        self.waiting: deque[SentEvent] = deque()
        self.is_behind: bool = False
        self._waiter: asyncio.Future[None] | None = None
        """Set while the stream waits for an event."""

    def offer(self, event: SentEvent) -> None:
        """Add an event if it matches; a client that falls too far behind gets no more."""
        if self.is_behind or not matches(self.which, event.view):
            return
        if len(self.waiting) >= MOST_WAITING:
            self.is_behind = True
        else:
            self.waiting.append(event)
        self._wake()

    def fall_behind(self) -> None:
        """Let the stream end; its client comes back with its cursor."""
        self.is_behind = True
        self._wake()

    async def wait(self, seconds: float) -> None:
        """Wait for an event, at most so long."""
        if self.waiting or self.is_behind:
            return
        # Not ``wait_for``: it may start a task for each event of each stream.
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(seconds, self._wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def matches(which: EventFilter, event: RunEventView) -> bool:
    """Return whether an event passes a filter without tags."""
    return (
        (which.workflow is None or which.workflow == event.workflow)
        and (which.namespace is None or which.namespace == event.namespace)
        and (which.run_id is None or which.run_id == event.run_id)
        and (which.kinds is None or event.kind in which.kinds)
    )


class EventHub:
    """The one reader of events of a process, and the streams that it feeds."""

    def __init__(self, faces: AsyncFaces) -> None:
        self._faces: AsyncFaces = faces
        self._clients: set[StreamClient] = set()
        self._reader: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None

    async def join(self, client: StreamClient) -> None:
        """Feed a client from now on. When this returns, no later event is missed."""
        self._clients.add(client)
        if self._reader is None or self._reader.done():
            self._ready = asyncio.get_running_loop().create_future()
            self._reader = asyncio.create_task(self._read(self._ready))
        assert self._ready is not None
        await asyncio.shield(self._ready)

    def leave(self, client: StreamClient) -> None:
        """Feed a client no longer. The last one ends the reader."""
        self._clients.discard(client)
        if not self._clients and self._reader is not None:
            self._reader.cancel()
            self._reader = None

    async def _read(self, ready: asyncio.Future[None]) -> None:
        calls = (await self._faces.of(None))._calls
        try:
            async with calls.listen() as listener:
                pages = await calls.call(lambda parts: parts.subscriptions.reader("now", {}))
                ready.set_result(None)
                while True:
                    events, more = await calls.call(lambda parts: read_page(parts, pages))
                    for event in events:
                        for client in list(self._clients):
                            client.offer(event)
                    if not more:
                        await listener.wait()
        except Exception as error:
            if not ready.done():
                ready.set_exception(error)
                return
            for client in self._clients:
                client.fall_behind()


def read_page(parts: Components, pages: EventPages) -> tuple[list[SentEvent], bool]:
    """Return the next events with their places, and whether there may be more."""
    events, _, more = pages.page()
    return [_sent(parts, pages, event) for event in events], more


def _sent(parts: Components, pages: EventPages, event: RunEvent) -> SentEvent:
    place = place_of(event.cursor, order_of(parts.subscriptions.installation, event.source))
    return SentEvent(views.of_run(pages.opened(event)), place)


async def missed_events(
    faces: AsyncFaces, namespace: str | None, pages: EventPages
) -> AsyncIterator[SentEvent]:
    """Yield the events that a resuming stream has missed."""
    calls = (await faces.of(namespace))._calls
    while True:
        events, more = await calls.call(lambda parts: read_page(parts, pages))
        for event in events:
            yield event
        if not more:
            return


async def live_messages(
    client: StreamClient, after: EventCursor | None, *, with_values: bool
) -> AsyncIterator[bytes]:
    """Yield the messages of a client that the hub feeds, without the events up to *after*; a client
    that reads too slowly gets a last message and may resume from its cursor."""
    while True:
        await client.wait(PING_EVERY)
        if not client.waiting and not client.is_behind:
            yield PING
        while client.waiting:
            chunk = _next_chunk(client, after, with_values=with_values)
            if chunk:
                yield chunk
            if client.waiting:
                await asyncio.sleep(0)  # a client that is far behind must not hold up the others
        if client.is_behind:
            yield b"event: behind\ndata: {}\n\n"
            return


def _next_chunk(client: StreamClient, after: EventCursor | None, *, with_values: bool) -> bytes:
    """Take the next events that wait for a client. Not all of them at once: written bytes wait in
    the memory of the connection while the client does not read."""
    messages = []
    size = 0
    while client.waiting and size < CHUNK:
        event = client.waiting.popleft()
        if after is None or event.place > after:
            messages.append(event.encoded(with_values=with_values))
            size += len(messages[-1])
    return b"".join(messages)


class OpenStreams:
    """All open streams of an app, so that a stop ends them at once."""

    def __init__(self) -> None:
        self._writers: set[asyncio.Task[None]] = set()
        self.is_stopped: bool = False
        self._polls: set[asyncio.Future[None]] = set()

    async def stopped(self) -> None:
        """Return when the server stops: long polls end then."""
        if self.is_stopped:
            return
        poll: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._polls.add(poll)
        try:
            await poll
        finally:
            self._polls.discard(poll)

    def add(self, writer: asyncio.Task[None]) -> None:
        """Remember the task that writes a stream."""
        self._writers.add(writer)
        writer.add_done_callback(self._writers.discard)

    def stop(self) -> None:
        """End all streams, and every stream that begins later."""
        self.is_stopped = True
        for poll in self._polls:
            if not poll.done():
                poll.set_result(None)
        for writer in list(self._writers):
            writer.cancel()


class EventStream(Response):
    """A response that sends messages until its source ends, the client goes away, stops reading,
    or is not admitted any more, or the server stops."""

    def __init__(
        self,
        messages: AsyncIterator[bytes],
        streams: OpenStreams,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(headers=HEADERS, media_type="text/event-stream")
        del self.headers["content-length"]
        self._messages: AsyncIterator[bytes] = messages
        self._streams: OpenStreams = streams
        self._on_end: Callable[[], None] | None = on_end
        """Called when the stream ends, also one that has not sent its first message."""
        self.is_admitted: Callable[[], Awaitable[bool]] | None = None
        """Returns whether the caller may read on: an API key may be revoked while it streams."""
        self._sending_since: float | None = None
        """When the message was passed on that the client has not made room for yet."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the messages; only the headers if the client asks for no more."""
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            if scope["method"] == "HEAD":
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await self._send_all(receive, send)
        finally:
            if self._on_end is not None:
                self._on_end()

    async def _send_all(self, receive: Receive, send: Send) -> None:
        writer = asyncio.create_task(self._write(send))
        self._streams.add(writer)
        if self._streams.is_stopped:
            writer.cancel()
        gone = asyncio.create_task(until_gone(receive))
        try:
            done: set[asyncio.Task[None]] = set()
            while not done and not self._is_stalled(READ_WITHIN):
                done, _ = await asyncio.wait(
                    {writer, gone}, timeout=READ_WITHIN, return_when=asyncio.FIRST_COMPLETED
                )
                if not done and self.is_admitted is not None and not await self.is_admitted():
                    break
        finally:
            is_stalled = self._is_stalled(0)
            gone.cancel()
            writer.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await writer
        # A client that does not read gets no end: the server closes the connection without one.
        if gone not in done and not is_stalled:
            with suppress(OSError):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _is_stalled(self, seconds: float) -> bool:
        """Return whether the client has not made room for a message for so long."""
        if self._sending_since is None:
            return False
        return asyncio.get_running_loop().time() - self._sending_since >= seconds

    async def _write(self, send: Send) -> None:
        try:
            await self._send(send, b": connected\n\n")
            async for chunk in self._messages:
                await self._send(send, chunk)
        finally:
            close = getattr(self._messages, "aclose", None)
            if close is not None:
                await close()

    async def _send(self, send: Send, body: bytes) -> None:
        self._sending_since = asyncio.get_running_loop().time()
        await send({"type": "http.response.body", "body": body, "more_body": True})
        self._sending_since = None


async def until_gone(receive: Receive) -> None:
    """Return when the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass
