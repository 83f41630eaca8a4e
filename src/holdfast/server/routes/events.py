"""Events of all runs and output of one run: pages, and streams with resume."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from typing import Any

from holdfast.connect.components import Components
from holdfast.core.api_keys import Right
from holdfast.core.subscriptions import RUNS
from holdfast.errors import BadRequest
from holdfast.server.answers import ItemPage
from holdfast.server.calls import ITEMS, MOST_ITEMS, HttpCall
from holdfast.server.masking import masked
from holdfast.server.operation import HttpParameter, operation
from holdfast.server.sse import (
    PING,
    PING_EVERY,
    EventStream,
    StreamClient,
    live_messages,
    message,
    missed_events,
    read_page,
)
from holdfast.service.subscriptions import EventPages
from holdfast.views.events import RunEventView
from holdfast.views.streams import FrameView
from holdfast.views.values import as_json

_FRAME_NUMBER = re.compile(r"[0-9]{1,18}")
FILTERS = ("workflow", "namespace", "run", "kind", "tags", "source")
LIMIT = HttpParameter("limit", int, False)


def _filters(call: HttpCall) -> dict[str, Any]:
    return {name: value for name, value in call.arguments.items() if name in FILTERS}


async def read(call: HttpCall) -> ItemPage[RunEventView]:
    """Return a page of the events of all runs, oldest first, after the cursor *after*; ``next`` is
    the cursor to continue from. ``kind=operator`` selects what operators did to runs. Raises
    BadCursor, BadOption."""
    limit = call.arguments.get("limit", ITEMS)
    if not 1 <= limit <= MOST_ITEMS:
        raise BadRequest(parameter="limit", why=f"it must be from 1 to {MOST_ITEMS}")

    def read_some(parts: Components) -> ItemPage[RunEventView]:
        pages = parts.subscriptions.reader(call.arguments.get("after"), _filters(call))
        items: list[RunEventView] = []
        more = True
        while more and len(items) < limit:
            events, more = read_page(parts, pages)
            items += [event.view for event in events]
        if len(items) > limit:
            return ItemPage(items[:limit], items[limit - 1].cursor)
        return ItemPage(items, pages.cursor)

    return await call.engine._calls.call(read_some)


async def stream(call: HttpCall) -> EventStream:
    """Send the events of all runs as they happen. ``Last-Event-ID`` or *after* resumes without loss
    and without duplicates. Raises BadCursor, BadOption, NamespaceBound."""
    after = call.request.headers.get("last-event-id") or call.arguments.get("after")
    filters = _filters(call)

    def open_pages(parts: Components) -> tuple[EventPages, EventPages]:
        service = parts.subscriptions
        return service.reader("now", filters), service.reader(after or "now", filters)

    start, pages = await call.engine._calls.call(open_pages)
    if start._which.tags or start._which.source != RUNS:
        return EventStream(_tagged(call, pages), call.streams)
    client = StreamClient(start._which)
    await call.hub.join(client)
    # Not at the end of the messages: a stream may end before the first one.
    return EventStream(
        _messages(call, client, pages if after else None),
        call.streams,
        on_end=lambda: call.hub.leave(client),
    )


async def _messages(
    call: HttpCall, client: StreamClient, pages: EventPages | None
) -> AsyncIterator[bytes]:
    """Yield what the stream has missed, then what the hub passes on."""
    with_values = call.identity.grant.sees_values
    last = None
    if pages is not None:
        last = pages.place
        async for event in missed_events(call.faces, call.identity.grant.namespace, pages):
            last = event.place
            yield event.encoded(with_values=with_values)
    async for chunk in live_messages(client, last, with_values=with_values):
        yield chunk


async def _tagged(call: HttpCall, pages: EventPages) -> AsyncIterator[bytes]:
    """Yield the events of runs with given tags, or of graphs or flows: the database filters them,
    so this stream reads by itself."""
    calls = call.engine._calls
    with_values = call.identity.grant.sees_values
    sent_at = time.monotonic()
    async with calls.listen() as listener:
        while True:
            events, more = await calls.call(lambda parts: read_page(parts, pages))
            for event in events:
                yield event.encoded(with_values=with_values)
                sent_at = time.monotonic()
            if not more:
                await listener.wait(PING_EVERY)  # it returns for each check that is due
            if time.monotonic() - sent_at >= PING_EVERY:
                yield PING
                sent_at = time.monotonic()


async def output_stream(call: HttpCall) -> EventStream:
    """Send the output of a run as it is emitted, until the run has ended; then the message ``end``.
    ``Last-Event-ID`` or *after* resumes after that frame. Raises RunNotFound, BadCursor,
    BadOption."""
    header = call.request.headers.get("last-event-id", "")
    if header and not _FRAME_NUMBER.fullmatch(header):
        raise BadRequest(header="Last-Event-ID", why="it must be the number of a frame")
    run_id = call.path["run_id"]
    arguments = dict(call.arguments)
    if header:
        arguments["after"] = int(header)
    after = arguments.get("after", 0)
    await call.engine.streams.read(run_id, after=after, limit=1)  # refuses what cannot be read
    return EventStream(_frames(call, run_id, arguments), call.streams)


async def _frames(call: HttpCall, run_id: str, arguments: dict[str, Any]) -> AsyncIterator[bytes]:
    frames = call.engine.streams.tail(run_id, **arguments)
    with_values = call.identity.grant.sees_values
    pending: asyncio.Future[FrameView] = asyncio.ensure_future(anext(frames))
    try:
        while True:
            done, _ = await asyncio.wait({pending}, timeout=PING_EVERY)
            if not done:
                yield PING
                continue
            try:
                frame = pending.result()
            except StopAsyncIteration:
                yield b"event: end\ndata: {}\n\n"
                return
            shown = frame if with_values else masked(frame)
            yield message(str(frame.seq), as_json(shown))
            pending = asyncio.ensure_future(anext(frames))
    finally:
        pending.cancel()


OPERATIONS = (
    operation(
        "events.read",
        "GET /events",
        Right.VIEW,
        handler=read,
        fixed={"name": None, "with_result": False},
        extra=(LIMIT,),
        answer=ItemPage[RunEventView],
    ),
    operation(
        "events.follow",
        "GET /events/stream",
        Right.VIEW,
        handler=stream,
        fixed={"name": None, "with_result": False, "timeout": None},
        media="text/event-stream",
        answer=Any,
    ),
    operation(
        "streams.tail",
        "GET /runs/{run_id}/output/stream",
        Right.VIEW,
        handler=output_stream,
        fixed={"timeout": None},
        media="text/event-stream",
        answer=Any,
    ),
)
