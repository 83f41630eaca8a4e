"""``AsyncEngine``: the same engine for asyncio programs.

It is an ``Engine`` whose calls are made by its worker or in threads, so that the program's loop
never waits for the database, and whose worker has a thread of its own. Async workflows and steps
run on the program's loop (``engine/runtime/program_loop.py``).
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from holdfast.authoring.python.workflow import Workflow
from holdfast.connect.budgets import AsyncBudgets
from holdfast.connect.calls import on_this_loop
from holdfast.connect.components import EngineOptions, LateWarning, seconds_of, split_options
from holdfast.connect.engine import Engine
from holdfast.connect.events import AsyncSubscriptions
from holdfast.connect.flows import AsyncFlows
from holdfast.connect.gates import AsyncGates
from holdfast.connect.graphs import AsyncGraphs
from holdfast.connect.keys import AsyncKeys
from holdfast.connect.retention import AsyncPayloadCalls
from holdfast.connect.run_reads import RunReader
from holdfast.connect.schedules import AsyncScheduleCalls
from holdfast.connect.streams import AsyncStreams
from holdfast.connect.tasks import AsyncLeaseCalls
from holdfast.connect.waits import AsyncWaits
from holdfast.core.duration import Duration
from holdfast.core.envelope import digest_of
from holdfast.core.events import Event
from holdfast.core.runs import RunRecord as Record
from holdfast.core.sessions import Lane, Session
from holdfast.core.status import Status
from holdfast.engine.runtime.program_loop import ProgramLoop
from holdfast.engine.runtime.thread_pool import ThreadPool
from holdfast.errors import EngineClosed, ResultTimeout
from holdfast.service.runs import Moment, Request, run_named
from holdfast.store.user_connections import LoopBoundConnection, is_asynchronous, unwrapped_async

if TYPE_CHECKING:
    from holdfast.core.why.model import Why
    from holdfast.core.why.workers import UnservedRoute

P = ParamSpec("P")
T = TypeVar("T")

MOST = 16
"""How many calls wait for the database at once. They share commits; the rest waits for its turn."""


class AsyncRun(Generic[T]):
    """A handle on one durable run."""

    def __init__(self, engine: AsyncEngine, run_id: str) -> None:
        self.id = run_id
        self._engine = engine

    async def status(self) -> Status:
        """Return where the run stands now."""
        engine = await self._engine._opened()
        return (await self._engine._aside(engine._parts.client.get, self.id)).status

    async def record(self) -> Record:
        """Return the run as it is stored now, with those of its values that can be read here."""
        engine = await self._engine._opened()
        return await self._engine._aside(engine._parts.client.record, self.id)

    async def result(self, timeout: Duration | None = None) -> T:
        """Wait for the run to end and return its result, or raise why there is none."""
        parts = (await self._engine._opened())._parts
        run_id = run_named(self.id)
        unease = LateWarning(parts)

        async def look() -> Record:
            run = await self._engine._looks(parts.client).run(run_id)
            if unease.is_due(run):
                await self._engine._aside(unease.tell, run)
            return run

        run = await parts.results.wait_async(run_id, look, seconds_of(timeout))
        if run is None:
            raise ResultTimeout(run=self.id, status=(await self.status()).value)
        value: T
        if any(digest_of(part) is not None for part in (run.input, run.result, run.error)):
            value = await self._engine._aside(parts.client.value, run)
        else:
            value = parts.client.value(run)
        return value

    async def signal(
        self, name: str, payload: Any = None, *, key: str | None = None, source: str | None = None
    ) -> bool:
        """Send the run a signal; False when the key came before."""
        return await self._engine.signal(self.id, name, payload, key=key, source=source)

    async def cancel(self, reason: str = "cancelled by request", *, force: bool = False) -> Status:
        """Ask the run to stop, and to undo what it did."""
        return await self._engine.cancel(self.id, reason, force=force)

    async def history(self) -> list[Event]:
        """Return the events of the run, in order."""
        return await self._engine.history(self.id)

    async def why(self) -> Why:
        """Say what the run waits for, and what would make it go on."""
        return await self._engine.why(self.id)

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
    """Durable workflows for asyncio programs: ``async with AsyncEngine("orders.db") as engine:``
    also works on them.

    Making it checks the options and opens nothing; ``async with``, or the first call, opens the
    database, in a thread."""

    def __init__(self, url: str | os.PathLike[str], **options: Any) -> None:
        self._plan = EngineOptions(url, **options)
        self._engine: Engine | None = None
        self._opening = threading.Lock()
        self._closed = False
        self._threads = ThreadPool("holdfast call", MOST)
        self._looking: RunReader | None = None
        self.flows = AsyncFlows(self)
        """Work that somebody outside drives."""
        self.graphs = AsyncGraphs(self)
        """Runs that depend on each other."""

    async def __aenter__(self) -> AsyncEngine:
        await self.work()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def work(self) -> None:
        """Work on runs until the engine is closed. Async workflows and steps run on this loop."""
        await self._call(Engine._work, ProgramLoop(asyncio.get_running_loop()))

    async def close(self, *, grace: Duration | None = None) -> None:
        """Stop working: steps at work may end, the rest is parked or handed back; then let go of
        the database."""
        if self._closed:
            return
        self._closed = True
        await self._threads.run(partial(self._close, grace))
        self._threads.close()

    def _close(self, grace: Duration | None) -> None:
        with self._opening:  # whoever opens it at this moment is done first
            if self._engine is not None:
                self._engine.close(grace=grace)

    # What its calls are made of

    async def _opened(self) -> Engine:
        if self._engine is not None and not self._closed:
            return self._engine
        return await self._aside(self._open)

    def _open(self) -> Engine:
        """Open the database, unless another call has done so. May be called by any thread."""
        with self._opening:
            if self._closed:
                raise EngineClosed
            if self._engine is None:
                self._engine = Engine(self._plan)
            return self._engine

    async def _aside(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._closed:
            raise EngineClosed
        value: T = await self._threads.run(partial(call, *args, **kwargs))
        return value

    def _looks(self, client: Any) -> RunReader:
        """Return what reads runs for all who wait for their ends on this loop."""
        loop = asyncio.get_running_loop()
        if self._looking is None or self._looking.loop is not loop:
            self._looking = RunReader(loop, partial(self._aside, client.get_many))
        return self._looking

    # Starting

    @overload
    async def start(
        self,
        workflow: Workflow[..., Coroutine[Any, Any, T]],
        *args: Any,
        connection: Any = None,
        **kwargs: Any,
    ) -> AsyncRun[T]: ...
    @overload
    async def start(
        self, workflow: Workflow[..., T], *args: Any, connection: Any = None, **kwargs: Any
    ) -> AsyncRun[T]: ...
    @overload
    async def start(
        self, workflow: str, *args: Any, connection: Any = None, **kwargs: Any
    ) -> AsyncRun[Any]: ...
    async def start(
        self, workflow: Any, *args: Any, connection: Any = None, **kwargs: Any
    ) -> AsyncRun[Any]:
        """Start a run; it is durable when this returns. The options are those of ``Engine.start``;
        *connection* may also be an asynchronous one. One that blocks is used here, in the thread
        that it belongs to, and blocks it."""
        engine = await self._opened()
        if connection is None:
            return await self._start(engine, workflow, args, kwargs)
        if is_asynchronous(
            connection
        ):  # what belongs to the loop stays there: a thread asks for it step by step
            held = LoopBoundConnection(
                await unwrapped_async(connection), asyncio.get_running_loop()
            )
            run = await self._aside(
                partial(engine.start, workflow, *args, connection=held, **kwargs)
            )
        else:
            run = engine.start(workflow, *args, connection=connection, **kwargs)
        return AsyncRun(self, run.id)

    async def _start(
        self, engine: Engine, workflow: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> AsyncRun[Any]:
        parts = engine._parts
        parts.know(workflow)
        options, own = split_options(kwargs)
        runs, request = parts.client.start(workflow, args, own, options, parts.lease)
        answers = await self._do(engine, request)
        parts.adopt(runs, answers)
        return AsyncRun(self, answers[0].id)

    async def _do(self, engine: Engine, request: Request) -> Any:
        """Let the worker commit a request, if there is one that has this loop; else a thread
        does."""
        parts, loop = engine._parts, asyncio.get_running_loop()
        worker = parts.worker
        works_here = (
            worker is not None
            and worker.program_loop is not None
            and worker.program_loop.loop is loop
        )
        if worker is None or not works_here or worker.stopping or parts.sealer.is_heavy(request.op):
            return await self._aside(engine._do, request)
        return request.decode(await worker.ask(parts.sealer.seal(request.op)))

    async def start_many(
        self, workflow: Any, items: Iterable[Any], **options: Any
    ) -> list[AsyncRun[Any]]:
        """Start one run per item, as ``Engine.start_many`` does. Raises StartIncomplete."""
        engine = await self._opened()
        return [
            AsyncRun(self, run.id)
            for run in await self._aside(engine.start_many, workflow, items, **options)
        ]

    # Operating

    async def run(self, run_id: str) -> AsyncRun[Any]:
        """Return a handle on a run. Raises RunNotFound."""
        return AsyncRun(self, (await self._call(Engine.run, run_id)).id)

    async def runs(self, **filters: Any) -> list[Record]:
        """List runs from new to old. The filters are those of ``Engine.runs``."""
        engine = await self._opened()
        return await self._aside(engine.runs, **filters)

    async def signal(
        self,
        run_id: str,
        name: str,
        payload: Any = None,
        *,
        key: str | None = None,
        source: str | None = None,
        wait: str | None = None,
    ) -> bool:
        """Send a signal to a run, or to a wait of that run, which may not wait for it yet; False
        when the key came before."""
        engine = await self._opened()
        client = engine._parts.client
        if client.only is not None:  # whether the run is one of this namespace must be read
            return await self._aside(
                partial(engine.signal, run_id, name, payload, key=key, source=source, wait=wait)
            )
        answer = await self._do(engine, client.signal(run_id, name, payload, key, source, wait))
        return bool(answer.new)

    async def cancel(
        self, run_id: str, reason: str = "cancelled by request", *, force: bool = False
    ) -> Status:
        """Ask a run and its children to stop, and to undo what they did."""
        return await self._call(Engine.cancel, run_id, reason, force=force)

    async def resume(self, run_id: str) -> Status:
        """Put a stuck run back to work, after a fix."""
        return await self._call(Engine.resume, run_id)

    async def replay(self, run_id: str, *, from_step: str | None = None) -> Status:
        """Put a finished run back to work, and its children that did not complete."""
        return await self._call(Engine.replay, run_id, from_step=from_step)

    async def fork(
        self, run_id: str, *, from_step: str | None = None, id: str | None = None
    ) -> AsyncRun[Any]:
        """Start a new run with the same input and the same history up to *from_step*."""
        return AsyncRun(
            self, (await self._call(Engine.fork, run_id, from_step=from_step, id=id)).id
        )

    async def why(self, run_id: str) -> Why:
        """Say what a run waits for, who holds it up, and what would make it go on."""
        return await self._call(Engine.why, run_id)

    async def history(self, run_id: str) -> list[Event]:
        """Return the events of a run, in order."""
        return await self._call(Engine.history, run_id)

    async def export(
        self,
        run_id: str,
        path: str | os.PathLike[str],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Copy a run and all below it to a new file."""
        return await self._call(Engine.export, run_id, path, progress=on_this_loop(progress))

    async def prune(
        self,
        older_than: Moment,
        *,
        status: Sequence[str] = (),
        workflow: str | None = None,
        batch: int = 500,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Delete finished runs that ended longer ago than *older_than*, batch by batch, and return
        how many went."""
        return await self._call(
            Engine.prune,
            older_than,
            status=status,
            workflow=workflow,
            batch=batch,
            progress=on_this_loop(progress),
        )

    async def lane(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        rate: str | None = None,
        paused: bool = False,
        per_share: int | None = None,
        rate_per_share: str | None = None,
        weights: Mapping[str, float] | None = None,
        draining: bool = False,
    ) -> None:
        """Set the limits of a lane: how many of its runs work at once and begin per time ("10/s"),
        in all and of each share; what its shares weigh; whether it is paused, or takes no new runs.
        All of it is set: what is not named is no limit."""
        await self._call(
            Engine.lane,
            name,
            concurrency=concurrency,
            rate=rate,
            paused=paused,
            per_share=per_share,
            rate_per_share=rate_per_share,
            weights=weights,
            draining=draining,
        )

    async def lanes(self) -> list[Lane]:
        """Return the lanes that have settings."""
        return await self._call(Engine.lanes)

    async def workers(self) -> list[Session]:
        """Return the sessions of all workers, or of those that serve the namespace of this
        engine."""
        return await self._call(Engine.workers)

    async def unserved(self) -> list[UnservedRoute]:
        """Return what is ready and no live worker serves: how many runs of which route, what nobody
        offers, and what helps."""
        return await self._call(Engine.unserved)

    async def check(self) -> list[str]:
        """Return every damaged row, and every law of the database that does not hold, in words.
        Empty is good."""
        return await self._call(Engine.check)
