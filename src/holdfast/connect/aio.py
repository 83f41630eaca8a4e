"""``AsyncEngine``: the same engine for asyncio programs. Steps and workflows run on the program's own loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from holdfast.authoring.code.workflow import Workflow
from holdfast.connect.areas.budgets import AsyncBudgets
from holdfast.connect.areas.flows import AsyncFlows
from holdfast.connect.areas.gates import AsyncGates
from holdfast.connect.areas.graphs import AsyncGraphs
from holdfast.connect.areas.keys import AsyncKeys
from holdfast.connect.areas.leases import AsyncLeaseCalls
from holdfast.connect.areas.payloads import AsyncPayloadCalls
from holdfast.connect.areas.schedules import AsyncScheduleCalls
from holdfast.connect.areas.streams import AsyncStreams
from holdfast.connect.areas.subscriptions import AsyncSubscriptions
from holdfast.connect.areas.waits import AsyncWaits
from holdfast.connect.parts import Parts, seconds_of, split_options
from holdfast.connect.store import open_store
from holdfast.core.duration import Duration
from holdfast.core.graphs.records import graph_of, name_of
from holdfast.core.records import Event, Lane, NewRun, Session
from holdfast.core.records import Run as Record
from holdfast.core.sealed import digest_of
from holdfast.core.status import Status
from holdfast.engine import export
from holdfast.engine.client import Moment, Request, refuse_gathering, run_named
from holdfast.errors import EngineClosed, ResultTimeout
from holdfast.store.borrowing import OnLoop, is_asynchronous, unwrapped_async
from holdfast.store.contract import Started

if TYPE_CHECKING:
    from holdfast.core.why.facts import Why
    from holdfast.core.why.serving import Unserved

T = TypeVar("T")


class AsyncRun(Generic[T]):
    """A handle on one durable run."""

    def __init__(self, engine: AsyncEngine, run_id: str) -> None:
        self.id = run_id
        self._engine = engine

    @property
    def status(self) -> Status:
        """Where the run stands now."""
        return self._engine._parts.client.get(self.id).status

    @property
    def record(self) -> Record:
        """The run as it is stored now, with those of its values that can be read here."""
        return self._engine._parts.client.record(self.id)

    async def result(self, timeout: Duration | None = None) -> T:
        """Wait for the run to end and return its result, or raise why there is none."""
        parts = self._engine._parts
        run = await parts.results.wait_async(self.id, parts.looking_at(self.id), seconds_of(timeout))
        if run is None:
            raise ResultTimeout(run=self.id, status=self.status.value)
        apart = digest_of(run.result) is not None
        value: T = await asyncio.to_thread(parts.client.value, run) if apart else parts.client.value(run)
        return value

    async def signal(self, name: str, payload: Any = None, *, key: str | None = None, source: str | None = None) -> bool:
        """Send the run a signal; False when the key came before."""
        return await self._engine.signal(self.id, name, payload, key=key, source=source)

    async def cancel(self, reason: str = "cancelled by request", *, force: bool = False) -> Status:
        """Ask the run to stop, and to undo what it did."""
        return await self._engine.cancel(self.id, reason, force=force)

    def history(self) -> list[Event]:
        """Return the events of the run, in order."""
        return self._engine._parts.client.history(self.id)

    def why(self) -> Why:
        """Say what the run waits for, and what would make it go on."""
        return self._engine.why(self.id)

    def __repr__(self) -> str:
        return f"<run {self.id}>"


class AsyncEngine(
    AsyncLeaseCalls,
    AsyncKeys,
    AsyncGates,
    AsyncScheduleCalls,
    AsyncWaits,
    AsyncStreams,
    AsyncSubscriptions,
    AsyncPayloadCalls,
    AsyncBudgets,
):
    """Durable workflows for asyncio programs: ``async with AsyncEngine("orders.db") as engine:`` also works on them."""

    def __init__(self, url: str | os.PathLike[str], **options: Any) -> None:
        self._parts = Parts(url, **options)
        self._closed = False
        self.flows = AsyncFlows(self._parts.client, self._do)
        """Work that somebody outside drives."""
        self.graphs = AsyncGraphs(self._parts, self._do)
        """Runs that depend on each other."""

    async def __aenter__(self) -> AsyncEngine:
        await self.work()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def work(self) -> None:
        """Work on runs, on this loop, until the engine is closed."""
        if self._closed:
            raise EngineClosed(database=self._parts.store.url)
        if self._parts.worker is None:
            await self._parts.new_worker().start()

    async def close(self, *, grace: Duration | None = None) -> None:
        """Stop working: steps at work may end, the rest is parked or handed back; then let go of the database."""
        if self._closed:
            return
        self._closed = True
        if self._parts.worker is not None:
            await self._parts.worker.stop(grace=seconds_of(grace))
        self._parts.close()

    @overload
    async def start(
        self, workflow: Workflow[..., Coroutine[Any, Any, T]], *args: Any, connection: Any = None, **kwargs: Any
    ) -> AsyncRun[T]: ...
    @overload
    async def start(self, workflow: Workflow[..., T], *args: Any, connection: Any = None, **kwargs: Any) -> AsyncRun[T]: ...
    @overload
    async def start(self, workflow: str, *args: Any, connection: Any = None, **kwargs: Any) -> AsyncRun[Any]: ...
    async def start(self, workflow: Any, *args: Any, connection: Any = None, **kwargs: Any) -> AsyncRun[Any]:
        """Start a run; it is durable when this returns. The options are those of ``Engine.start``; *connection* may also be an
        asynchronous one."""
        self._parts.know(workflow)
        options, own = split_options(kwargs)
        lease = self._parts.lease if connection is None else (lambda route: None)
        runs, request = self._parts.client.start(workflow, args, own, options, lease)
        if connection is not None:
            refuse_gathering(options)
            return AsyncRun(self, (await self._start_within(connection, self._parts.vault.seal_runs(runs)))[0].id)
        answers = await self._do(request)
        self._parts.adopt(runs, answers)
        return AsyncRun(self, answers[0].id)

    async def _start_within(self, connection: Any, runs: Sequence[NewRun]) -> list[Started]:
        """Start runs in the caller's transaction. What is asynchronous stays on its loop: a thread asks for it step by step."""
        within = self._parts.store.start_within
        if not is_asynchronous(connection):
            return within(connection, runs)
        held = OnLoop(await unwrapped_async(connection), asyncio.get_running_loop())
        return await asyncio.to_thread(within, held, runs)

    async def start_many(self, workflow: Any, items: Iterable[Any], **options: Any) -> list[AsyncRun[Any]]:
        """Start one run per item: all of them or none, in one transaction."""
        self._parts.know(workflow)
        runs, request = self._parts.client.start_many(workflow, items, options, self._parts.lease)
        if not runs:
            return []
        answers = await self._do(request)
        self._parts.adopt(runs, answers)
        return [AsyncRun(self, answer.id) for answer in answers]

    def run(self, run_id: str) -> AsyncRun[Any]:
        """Return a handle on a run. Raises RunNotFound."""
        return AsyncRun(self, self._parts.client.get(run_id).id)

    def runs(self, **filters: Any) -> list[Record]:
        """List runs from new to old. The filters are those of ``Engine.runs``."""
        return self._parts.client.find(**filters)

    async def signal(
        self, run_id: str, name: str, payload: Any = None, *, key: str | None = None, source: str | None = None,
        wait: str | None = None,
    ) -> bool:  # fmt: skip
        """Send a signal to a run, or to a wait of that run, which may not wait for it yet; False when the key came before."""
        answer = await self._do(self._parts.client.signal(run_id, name, payload, key, source, wait))
        return bool(answer.new)

    async def cancel(self, run_id: str, reason: str = "cancelled by request", *, force: bool = False) -> Status:
        """Ask a run and its children to stop, and to undo what they did."""
        status: Status = await self._do(self._parts.client.cancel(run_id, reason, force=force))
        return status

    async def resume(self, run_id: str) -> Status:
        """Put a stuck run back to work, after a fix."""
        status: Status = await self._do(self._parts.client.resume(run_id))
        return status

    async def replay(self, run_id: str, *, from_step: str | None = None) -> Status:
        """Put a finished run back to work."""
        graph_id = graph_of(run_named(run_id))
        if graph_id is not None and self._parts.store.member(run_id) is not None:
            await self.graphs.replay(graph_id, name_of(run_id), from_step=from_step)
            return self._parts.client.get(run_id).status
        status: Status = await self._do(self._parts.client.replay(run_id, from_step))
        return status

    async def fork(self, run_id: str, *, from_step: str | None = None) -> AsyncRun[Any]:
        """Start a new run with the same input and the same history up to *from_step*."""
        return AsyncRun(self, await self._do(self._parts.client.fork(run_id, from_step)))

    def why(self, run_id: str) -> Why:
        """Say what a run waits for, who holds it up, and what would make it go on."""
        return self._parts.why(run_id)

    def history(self, run_id: str) -> list[Event]:
        """Return the events of a run, in order."""
        return self._parts.client.history(run_id)

    def export(self, run_id: str, path: str | os.PathLike[str], *, progress: Callable[[int], None] | None = None) -> int:
        """Copy a run and all below it to a new file."""
        parts = self._parts
        return export.export(parts.store, parts.client.get(run_id), lambda: open_store(path, codec=parts.codec.name), progress)

    async def prune(
        self, older_than: Moment, *, status: Sequence[str] = (), workflow: str | None = None, batch: int = 500,
        progress: Callable[[int], None] | None = None,
    ) -> int:  # fmt: skip
        """Delete finished runs that ended longer ago than *older_than*, batch by batch, and return how many went."""
        after, gone = "", 0
        while after is not None:
            done = await self._do(self._parts.client.prune(older_than, status, batch=batch, after=after, workflow=workflow))
            gone, after = gone + done.runs, done.last
            if progress is not None:
                progress(done.runs)
        return gone

    async def lane(
        self, name: str, *, concurrency: int | None = None, rate: str | None = None, paused: bool = False,
        per_share: int | None = None, rate_per_share: str | None = None, weights: Mapping[str, float] | None = None,
        draining: bool = False,
    ) -> None:  # fmt: skip
        """Set the limits of a lane: how many of its runs work at once and begin per time ("10/s"), in all and of each share;
        what its shares weigh; whether it is paused, or takes no new runs. All of it is set: what is not named is no limit."""
        await self._do(
            self._parts.client.lane(
                name, concurrency, rate, paused=paused, per_share=per_share, rate_per_share=rate_per_share, weights=weights,
                draining=draining,
            )
        )  # fmt: skip

    def lanes(self) -> list[Lane]:
        """Return the lanes that have settings."""
        return self._parts.store.lanes()

    def workers(self) -> list[Session]:
        """Return the sessions of all workers."""
        return self._parts.store.sessions()

    def unserved(self) -> list[Unserved]:
        """Return what is ready and no live worker serves: how many runs of which route, what nobody offers, and what helps."""
        return self._parts.unserved()

    def check(self) -> list[str]:
        """Return every law of the database that does not hold, in words. Empty is good."""
        return self._parts.store.check()

    async def _do(self, request: Request) -> Any:
        if self._closed:
            raise EngineClosed(database=self._parts.store.url)
        vault, op = self._parts.vault, request.op
        op = await asyncio.to_thread(vault.seal, op) if vault.is_heavy(op) else vault.seal(op)
        if self._parts.worker is None:
            return request.understand(await self._parts.writer.call_aside(op))
        return request.understand(await self._parts.writer.submit(op))
