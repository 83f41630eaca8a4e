# Generated from connect/streams.py by tools/generate_blocking.py: do not edit.
"""``engine.streams``: the output of runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.connect.calls import Calls, Prepared
from holdfast.connect.components import Components
from holdfast.connect.engine_options import seconds_of
from holdfast.core.duration import Duration
from holdfast.errors import ResultTimeout
from holdfast.service.streams import StreamFollower, stream_filter
from holdfast.views import streams as views
from holdfast.views.streams import FrameView, ProgressView, StreamView


class Streams:
    """The output of the runs of an ``Engine``."""

    def __init__(self, calls: Calls) -> None:
        self._calls: Calls = calls

    def read(
        self,
        run_id: str,
        *,
        after: int = 0,
        until: int | None = None,
        limit: int = 1000,
        step: str | None = None,
        attempt: int | None = None,
        best_effort: bool = True,
    ) -> Sequence[FrameView]:
        """Return the frames that a run has emitted, in order, from *after* (exclusive) to *until*
        (inclusive). With *step*, only the frames of that step, with *attempt* only those of that
        attempt (the first is 1); without *best_effort*, only durable frames. Raises RunNotFound,
        BadCursor, BadOption."""

        def read(parts: Components) -> list[FrameView]:
            run = parts.client.get(run_id)
            parts.frames.check(run.id, after)
            part = stream_filter(step, attempt, best_effort)
            frames = parts.frames.read(run.id, after, until, limit, part)
            return [views.of(frame) for frame in frames]

        return self._calls.call(read)

    def list(self, run_id: str) -> list[StreamView]:
        """Return the streams of a run, one for each attempt that emitted frames, in the order in
        which they were opened. Raises RunNotFound."""

        def read(parts: Components) -> list[StreamView]:
            streams = parts.store.streams.of_run(parts.client.get(run_id).id)
            return [views.stream_of(stream) for stream in streams]

        return self._calls.call(read)

    def summary(self, run_id: str, *, step: str | None = None, attempt: int | None = None) -> Any:
        """Return the document that results from the patches of the latest stream with patches, or
        of the latest one of *step* or of *attempt*; None if there is none. Raises RunNotFound,
        BadOption."""

        def read(parts: Components) -> Any:
            run = parts.client.get(run_id)
            return parts.frames.latest_summary(run.id, stream_filter(step, attempt))

        return self._calls.call(read)

    def progress(self, run_id: str) -> ProgressView | None:
        """Return the last progress that a run reported; None if it reported none. Raises
        RunNotFound."""

        def read(parts: Components) -> ProgressView | None:
            progress = parts.frames.progress(parts.client.get(run_id).id)
            return None if progress is None else views.progress_of(progress)

        return self._calls.call(read)

    def tail(
        self,
        run_id: str,
        *,
        after: int = 0,
        step: str | None = None,
        attempt: int | None = None,
        best_effort: bool = True,
        timeout: Duration | None = None,
    ) -> Iterator[FrameView]:
        """Yield the frames that a run emits, from *after* (exclusive) on, as they arrive, until the
        run has ended. *step* and *attempt* select frames as in ``read``. Raises RunNotFound,
        BadOption, and ResultTimeout if no frame arrives for *timeout*."""
        seconds = seconds_of(timeout)
        follower = self._calls.prepare(
            lambda parts: StreamFollower(
                parts.frames,
                parts.client.get(run_id).id,
                after,
                stream_filter(step, attempt, best_effort),
            )
        )
        return self._follow(run_id, follower, seconds)

    def _follow(
        self, run_id: str, prepared: Prepared[StreamFollower], seconds: float | None
    ) -> Iterator[FrameView]:
        follower = prepared.get()
        with self._calls.listen() as listener:
            last_frame = time.monotonic()
            while True:
                page = self._calls.call(lambda parts: follower.page())
                for frame in page:
                    yield views.of(frame)
                if follower.is_over:
                    return
                if page:
                    last_frame = time.monotonic()
                left = None if seconds is None else seconds - (time.monotonic() - last_frame)
                if left is not None and left <= 0:
                    run = self._calls.call(lambda parts: parts.client.get(run_id))
                    raise ResultTimeout(run=run_id, status=run.status.value)
                if not page:
                    listener.wait(left)
