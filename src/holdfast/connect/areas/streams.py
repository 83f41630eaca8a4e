"""The output of runs: ``read``, ``tail``, ``streams``, ``summary``, ``progress``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from holdfast.connect.areas.calls import AsyncCalls, Calls
from holdfast.connect.parts import Parts, seconds_of
from holdfast.core.duration import Duration
from holdfast.core.streams import Frame, Progress, Stream
from holdfast.engine.frames import Follower
from holdfast.errors import ResultTimeout


class _Looks:
    """What both engines are asked in the same way: it only reads."""

    _parts: Parts

    def read(
        self, run_id: str, *, after: int = 0, until: int | None = None, limit: int = 1000, step: str | None = None,
        best_effort: bool = True,
    ) -> list[Frame]:  # fmt: skip
        """Return what a run has put out, in order: the frames above *after*, and not above *until*; of one step only, or without
        those of best effort, if so asked."""
        run = self._parts.client.get(run_id)
        self._parts.frames.check(run.id, after)
        return self._parts.frames.read(run.id, after, until, limit, step, best_effort=best_effort)

    def streams(self, run_id: str) -> list[Stream]:
        """Return the streams of a run, one for each attempt that put anything out, in the order in which they were opened."""
        return self._parts.store.streams(self._parts.client.get(run_id).id)

    def summary(self, run_id: str, *, step: str | None = None) -> Any:
        """Return the document that the patches of the latest stream have come to, or of the latest one of *step*; None if there
        were none."""
        found = [stream for stream in self.streams(run_id) if stream.summary is not None and step in (None, stream.step)]
        return self._parts.frames.summary(found[-1]) if found else None

    def progress(self, run_id: str) -> Progress | None:
        """Return how far a run says that it is; None when it never said anything."""
        return self._parts.frames.progress(self._parts.client.get(run_id).id)

    def _follower(self, run_id: str, after: int, step: str | None, *, best_effort: bool) -> Follower:
        return Follower(self._parts.frames, self._parts.client.get(run_id).id, after, step, best_effort=best_effort)


class Streams(_Looks, Calls):
    """For ``Engine``."""

    def tail(
        self, run_id: str, *, after: int = 0, step: str | None = None, best_effort: bool = True, timeout: Duration | None = None
    ) -> Iterator[Frame]:
        """Yield what a run puts out, from the frame above *after* on, as it comes, until the run has ended. Raises ResultTimeout
        when nothing comes for *timeout*."""
        follower = self._follower(run_id, after, step, best_effort=best_effort)
        return self._follow(run_id, follower, seconds_of(timeout))

    def _follow(self, run_id: str, follower: Follower, seconds: float | None) -> Iterator[Frame]:
        listener = self._parts.news.listen()
        try:
            heard = time.monotonic()
            while True:
                page = follower.page()
                yield from page
                if follower.is_over:
                    return
                heard = time.monotonic() if page else heard
                left = None if seconds is None else seconds - (time.monotonic() - heard)
                if left is not None and left <= 0:
                    raise ResultTimeout(run=run_id, status=self._parts.client.get(run_id).status.value)
                if not page:
                    listener.wait(left)
        finally:
            listener.close()


class AsyncStreams(_Looks, AsyncCalls):
    """For ``AsyncEngine``."""

    def tail(
        self, run_id: str, *, after: int = 0, step: str | None = None, best_effort: bool = True, timeout: Duration | None = None
    ) -> AsyncIterator[Frame]:
        """Yield what a run puts out as it comes, until the run has ended."""
        follower = self._follower(run_id, after, step, best_effort=best_effort)
        return self._follow(run_id, follower, seconds_of(timeout))

    async def _follow(self, run_id: str, follower: Follower, seconds: float | None) -> AsyncIterator[Frame]:
        loop = asyncio.get_running_loop()
        listener = self._parts.news.listen_async()
        try:
            heard = loop.time()
            while True:
                page = follower.page()
                for frame in page:
                    yield frame
                if follower.is_over:
                    return
                heard = loop.time() if page else heard
                left = None if seconds is None else seconds - (loop.time() - heard)
                if left is not None and left <= 0:
                    raise ResultTimeout(run=run_id, status=self._parts.client.get(run_id).status.value)
                if not page:
                    await listener.wait(left)
        finally:
            listener.close()
