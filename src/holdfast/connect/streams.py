"""The calls of an engine on the output of runs: ``read``, ``tail``, ``streams``, ``summary``,
``progress``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from holdfast.connect.calls import AsyncCalls, Calls
from holdfast.connect.components import seconds_of
from holdfast.core.duration import Duration
from holdfast.core.streams.model import Frame, Progress, StreamRecord
from holdfast.engine.runtime.notifier import Committed
from holdfast.errors import ResultTimeout
from holdfast.service.streams import StreamFollower


class Streams(Calls):
    """The calls of ``Engine`` on the output of runs."""

    def read(
        self,
        run_id: str,
        *,
        after: int = 0,
        until: int | None = None,
        limit: int = 1000,
        step: str | None = None,
        best_effort: bool = True,
    ) -> list[Frame]:
        """Return the frames that a run has emitted, in order, from *after* (exclusive) to *until*
        (inclusive). With *step*, only the frames of that step; without *best_effort*, only durable
        frames. Raises RunNotFound, BadCursor."""
        run = self._parts.client.get(run_id)
        self._parts.frames.check(run.id, after)
        return self._parts.frames.read(run.id, after, until, limit, step, best_effort=best_effort)

    def streams(self, run_id: str) -> list[StreamRecord]:
        """Return the streams of a run, one for each attempt that emitted frames, in the order in
        which they were opened. Raises RunNotFound."""
        return self._parts.store.streams.of_run(self._parts.client.get(run_id).id)

    def summary(self, run_id: str, *, step: str | None = None) -> Any:
        """Return the document that results from the patches of the latest stream with patches, or
        of the latest one of *step*; None if there is none. Raises RunNotFound."""
        streams = [
            stream
            for stream in self.streams(run_id)
            if stream.summary is not None and step in (None, stream.step)
        ]
        return self._parts.frames.summary(streams[-1]) if streams else None

    def progress(self, run_id: str) -> Progress | None:
        """Return the last progress that a run reported; None if it reported none. Raises
        RunNotFound."""
        return self._parts.frames.progress(self._parts.client.get(run_id).id)

    def _follower(
        self, run_id: str, after: int, step: str | None, *, best_effort: bool
    ) -> StreamFollower:
        return StreamFollower(
            self._parts.frames,
            self._parts.client.get(run_id).id,
            after,
            step,
            best_effort=best_effort,
        )

    def tail(
        self,
        run_id: str,
        *,
        after: int = 0,
        step: str | None = None,
        best_effort: bool = True,
        timeout: Duration | None = None,
    ) -> Iterator[Frame]:
        """Yield the frames that a run emits, from *after* (exclusive) on, as they arrive, until the
        run has ended. Raises RunNotFound, and ResultTimeout if no frame arrives for *timeout*."""
        follower = self._follower(run_id, after, step, best_effort=best_effort)
        return self._follow(run_id, follower, seconds_of(timeout))

    def _follow(
        self, run_id: str, follower: StreamFollower, seconds: float | None
    ) -> Iterator[Frame]:
        listener = self._parts.notifier.subscribe(Committed)
        try:
            last_frame = time.monotonic()
            while True:
                page = follower.page()
                yield from page
                if follower.is_over:
                    return
                if page:
                    last_frame = time.monotonic()
                left = None if seconds is None else seconds - (time.monotonic() - last_frame)
                if left is not None and left <= 0:
                    raise ResultTimeout(
                        run=run_id, status=self._parts.client.get(run_id).status.value
                    )
                if not page:
                    listener.wait(left)
        finally:
            listener.close()


class AsyncStreams(AsyncCalls):
    """The calls of ``AsyncEngine`` on the output of runs."""

    async def read(
        self,
        run_id: str,
        *,
        after: int = 0,
        until: int | None = None,
        limit: int = 1000,
        step: str | None = None,
        best_effort: bool = True,
    ) -> list[Frame]:
        """Return the frames that a run has emitted, as ``Engine.read`` does. Raises RunNotFound,
        BadCursor."""
        return await self._call(
            Streams.read,
            run_id,
            after=after,
            until=until,
            limit=limit,
            step=step,
            best_effort=best_effort,
        )

    async def streams(self, run_id: str) -> list[StreamRecord]:
        """Return the streams of a run, one for each attempt that emitted frames, in the order in
        which they were opened. Raises RunNotFound."""
        return await self._call(Streams.streams, run_id)

    async def summary(self, run_id: str, *, step: str | None = None) -> Any:
        """Return the document that results from the patches of the latest stream, as
        ``Engine.summary`` does. Raises RunNotFound."""
        return await self._call(Streams.summary, run_id, step=step)

    async def progress(self, run_id: str) -> Progress | None:
        """Return the last progress that a run reported; None if it reported none. Raises
        RunNotFound."""
        return await self._call(Streams.progress, run_id)

    async def tail(
        self,
        run_id: str,
        *,
        after: int = 0,
        step: str | None = None,
        best_effort: bool = True,
        timeout: Duration | None = None,
    ) -> AsyncIterator[Frame]:
        """Yield the frames that a run emits as they arrive, until the run has ended, as
        ``Engine.tail`` does. Raises RunNotFound, ResultTimeout."""
        engine = await self._opened()
        seconds = seconds_of(timeout)
        follower = await self._call(Streams._follower, run_id, after, step, best_effort=best_effort)
        loop = asyncio.get_running_loop()
        listener = engine._parts.notifier.subscribe_async(Committed)
        try:
            last_frame = loop.time()
            while True:
                page = await self._aside(follower.page)
                for frame in page:
                    yield frame
                if follower.is_over:
                    return
                if page:
                    last_frame = loop.time()
                left = None if seconds is None else seconds - (loop.time() - last_frame)
                if left is not None and left <= 0:
                    run = await self._aside(engine._parts.client.get, run_id)
                    raise ResultTimeout(run=run_id, status=run.status.value)
                if not page:
                    await listener.wait(left)
        finally:
            listener.close()
