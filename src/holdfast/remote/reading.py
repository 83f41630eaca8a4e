"""Read the events of all runs and the output of one over HTTP, page by page."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from holdfast.core import typed_json
from holdfast.core.duration import Duration, parse
from holdfast.core.status import FINAL
from holdfast.core.unset import UNSET
from holdfast.remote.calls import OPERATIONS, HttpCalls
from holdfast.remote.namespaces import RemoteNamespace, call
from holdfast.views.events import RunEventView
from holdfast.views.streams import FrameView

PAUSE = 0.5
"""Seconds between two requests of a reader that waits for more."""


class RemoteEvents(RemoteNamespace):
    """The events of the runs of a server."""

    def __init__(self, calls: HttpCalls) -> None:
        super().__init__(calls, "events")

    def read(self, *, after: str | None = None, **filters: Any) -> Iterator[RunEventView]:
        """Yield the events of all runs so far, after the cursor *after*."""
        while True:
            events, after = self._page(after, filters)
            yield from events
            if not events:
                return

    def follow(
        self, *, after: str | None = None, timeout: Duration | None = None, **filters: Any
    ) -> Iterator[RunEventView]:
        """Yield events and wait for further ones, without end or until none arrives for
        *timeout*."""
        seconds = None if timeout is None else parse(timeout) / 1_000_000
        last = time.monotonic()
        while True:
            events, after = self._page(after, filters)
            yield from events
            if events:
                last = time.monotonic()
            elif seconds is not None and time.monotonic() - last >= seconds:
                return
            else:
                time.sleep(PAUSE)

    def _page(
        self, after: str | None, filters: dict[str, Any]
    ) -> tuple[list[RunEventView], str | None]:
        named = {
            name: value
            for name, value in filters.items()
            if value is not None and value is not UNSET and name not in ("name", "with_result")
        }
        answer = self._calls.call(
            OPERATIONS["events.read"], {"after": after, "limit": 500, **named}
        )
        return typed_json.convert(answer["items"], list[RunEventView]), answer["next"]


class RemoteStreams(RemoteNamespace):
    """The output of the runs of a server."""

    def __init__(self, calls: HttpCalls) -> None:
        super().__init__(calls, "streams")

    def tail(
        self, run_id: str, *, after: int = 0, timeout: Duration | None = None, **part: Any
    ) -> Iterator[FrameView]:
        """Yield the frames that a run emits, as they arrive, until the run has ended."""
        while True:
            is_over = call(self._calls, "run.status", {"id": run_id}) in FINAL
            frames = call(self._calls, "streams.read", {"run_id": run_id}, after=after, **part)
            yield from frames
            if frames:
                after = frames[-1].seq
            elif is_over:
                return
            else:
                time.sleep(PAUSE)
