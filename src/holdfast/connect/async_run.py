"""``AsyncRun``: a handle to one durable run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.connect.async_calls import AsyncCalls
from holdfast.connect.engine_options import seconds_of
from holdfast.connect.waits import AsyncWaits
from holdfast.core.diagrams import Diagram
from holdfast.core.duration import Duration
from holdfast.core.envelope import digest_of
from holdfast.core.lazy_parts import LazyModule
from holdfast.core.status import FINAL, Status
from holdfast.errors import ResultTimeout
from holdfast.service.run_filters import known_statuses
from holdfast.service.runs import storable_run_id
from holdfast.views.attempts import AttemptView
from holdfast.views.events import EventView
from holdfast.views.runs import RunView
from holdfast.views.steps import StepView
from holdfast.views.timeline import MOST_ROWS, TimelineView
from holdfast.views.why import WhyView

if TYPE_CHECKING:
    from holdfast.connect import run_drawings, run_procedures, run_views
else:
    run_drawings = LazyModule("holdfast.connect.run_drawings")
    run_procedures = LazyModule("holdfast.connect.run_procedures")
    run_views = LazyModule("holdfast.connect.run_views")

T = TypeVar("T")


class AsyncRun(Generic[T]):
    """A handle to one durable run."""

    def __init__(self, calls: AsyncCalls, run_id: str) -> None:
        self.id: str = run_id
        self._calls: AsyncCalls = calls

    # Reading

    async def status(self) -> Status:
        """The current status of the run. Raises RunNotFound."""
        return (await self._calls.call(lambda parts: parts.client.get(self.id))).status

    async def record(self) -> RunView:
        """The run as it is now. In place of a value that this engine has no key for is a text that
        says so. Raises RunNotFound."""
        return await self._calls.call(lambda parts: run_views.record(parts, self.id))

    async def history(self, *, after: int = 0, limit: int | None = None) -> list[EventView]:
        """Return the history of the run: its events, in order. *after* is the ``seq`` of the last
        event of the previous page, *limit* the size of a page. Raises RunNotFound, KeyMissing,
        BadOption."""
        return await self._calls.call(lambda parts: run_views.history(parts, self.id, after, limit))

    async def steps(self) -> list[StepView]:
        """Return the steps of the run, in the order in which they began: calls of steps, timers,
        waits, gates, children. Raises RunNotFound, KeyMissing."""
        return await self._calls.call(lambda parts: run_views.steps(parts, self.id))

    async def attempts(self) -> list[AttemptView]:
        """Return the attempts at the run, oldest first; the last one is the current one. Each has
        its kind, worker, start, end and outcome. Raises RunNotFound, BadData."""
        return await self._calls.call(lambda parts: run_views.attempts(parts, self.id))

    async def timeline(
        self, *, open: str | None = None, after: str | None = None, limit: int = MOST_ROWS
    ) -> TimelineView:
        """Return the history of the run as rows in time; many calls of one name are one row. *open*
        is the id of a row to unfold, *after* the id of the last row of the previous page. Raises
        RunNotFound, StepNotFound, BadOption."""
        return await self._calls.call(
            lambda parts: run_drawings.timeline(parts, self.id, open=open, after=after, limit=limit)
        )

    async def diagram(self) -> Diagram:
        """Return the run drawn as nodes and edges, with the state of each node. Raises
        RunNotFound."""
        return await self._calls.call(lambda parts: run_drawings.diagram(parts, self.id))

    async def why(self) -> WhyView:
        """Explain what the run waits for, what blocks it, and what would let it continue."""
        return await self._calls.call(lambda parts: run_views.why(parts, self.id))

    # Waiting

    async def result(self, timeout: Duration | None = None) -> T:
        """Wait for the run to end and return its result.

        Raises RunFailed, RunCancelled, RunExpired or RunStuck if it has none, ResultTimeout after
        *timeout*, and RunNotFound. In an async step, a blocking engine raises BadOption: it would
        block its own worker.
        """
        run_id = storable_run_id(self.id)
        run = await self._calls.wait_for_run(run_id, timeout)
        if run is None:
            current = await self._calls.call(lambda parts: parts.client.get(run_id))
            raise ResultTimeout(run=run_id, status=current.status.value)
        value: T
        # Only an input, result or error that is stored apart is read from the store.
        if any(digest_of(part) is not None for part in (run.input, run.result, run.error)):
            value = await self._calls.call(lambda parts: parts.client.value(run))
        else:
            value = (await self._calls.opened()).client.value(run)
        return value

    async def wait_until(
        self, status: str | Iterable[str], timeout: Duration | None = None
    ) -> Status:
        """Wait until the run has this status, or one of these, and return its status. It also
        returns when the run has ended with another status. Raises ResultTimeout after *timeout*,
        RunNotFound, BadOption."""
        wanted = {*known_statuses(status), *FINAL}
        seconds = seconds_of(timeout)
        until = None if seconds is None else time.monotonic() + seconds
        async with self._calls.listen() as listener:
            while True:
                run = await self._calls.call(lambda parts: parts.client.get(self.id))
                if run.status in wanted:
                    return run.status
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    raise ResultTimeout(run=self.id, status=run.status.value)
                await listener.wait(left)

    # Changing

    async def signal(
        self,
        name: str,
        payload: Any = None,
        *,
        key: str | None = None,
        source: str | None = None,
        wait: str | None = None,
    ) -> bool:
        """Send a signal to the run, or to one wait of it. The signal may arrive before the run
        waits for it. Return False if a signal with the same *key* was sent before. Raises
        RunNotFound."""
        client = (await self._calls.opened()).client
        if client.only is not None:  # the request reads the namespace of the run
            delivery = await self._calls.commit(
                lambda parts: parts.client.signal(self.id, name, payload, key, source, wait)
            )
        else:
            delivery = await self._calls.send(
                client.signal(self.id, name, payload, key, source, wait)
            )
        return bool(delivery.new)

    async def cancel(
        self, reason: str = "cancelled by request", *, force: bool = False, by: str | None = None
    ) -> Status:
        """Request the cancellation of the run and its children, with compensation of their
        completed steps, and return the status of the run. With *force*, they end at once and
        without compensation. *by* is the person or program that asks for it. Raises RunNotFound,
        RunFinished, BadOption."""
        return await self._calls.call(
            lambda parts: run_procedures.cancel(parts, self.id, reason, force=force, by=by)
        )

    async def set_tags(
        self, tags: Mapping[str, str | None], *, by: str | None = None
    ) -> dict[str, str]:
        """Add tags to the run or change their values, whatever its status; None removes a tag.
        Return all its tags. With *by*, the person or program that asks, the change is recorded in
        ``engine.audit``. Raises RunNotFound, BadOption."""
        return await self._calls.commit(
            lambda parts: parts.audit.record_run(
                parts.client.set_tags(self.id, tags), by, "run.set_tags", self.id, tags=dict(tags)
            )
        )

    async def resume(self, *, by: str | None = None) -> Status:
        """Make the run claimable again if it is stuck, after its cause was fixed, and return its
        status. *by* is the person or program that asks for it. Raises RunNotFound, IllegalMove,
        RunFinished, BadOption."""
        return await self._calls.commit(
            lambda parts: parts.audit.record_run(
                parts.client.resume(self.id, by), by, "run.resume", self.id
            )
        )

    async def replay(self, *, from_step: str | None = None, by: str | None = None) -> Status:
        """Make the finished run claimable again and return its status.

        Completed steps keep their results; failed steps, and all steps from *from_step* on, are
        executed again. Children that did not complete are replayed with the run. If any step was
        compensated, the run starts from the beginning. *by* is the person or program that asks for
        it. Raises RunNotFound, RunNotFinished, StepNotFound, HistoryGone.
        """
        return await self._calls.call(
            lambda parts: run_procedures.replay(parts, self.id, from_step, by)
        )

    async def fork(
        self, *, from_step: str | None = None, id: str | None = None, by: str | None = None
    ) -> AsyncRun[T]:
        """Start a new run with the same input and the same history up to *from_step*, which the new
        run executes itself. If *id* belongs to a fork of the same run from the same step, return
        that fork. *by* is the person or program that asks for it."""
        fork_id = await self._calls.call(
            lambda parts: run_procedures.fork(parts, self.id, from_step, id, by)
        )
        return AsyncRun(self._calls, fork_id)

    async def release(
        self,
        *,
        step: str | None = None,
        payload: Any = None,
        by: str | None = None,
        delay: Duration | None = None,
    ) -> str:
        """Release a wait of the run, as ``release`` of ``engine.waits`` does, and return the step
        that it belongs to. Raises WaitNotFound, BadOption."""
        return await AsyncWaits(self._calls).release(
            self.id, step=step, payload=payload, by=by, delay=delay
        )

    def __repr__(self) -> str:
        return f"<run {self.id}>"
