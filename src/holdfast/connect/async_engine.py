"""``AsyncEngine``: the engine for asyncio programs.

It wraps an ``Engine`` whose worker has its own thread. Blocking calls are made in a thread pool;
starts and signals are committed by the worker if that worker serves the caller's loop. The
program's loop therefore never waits for the database. Async workflows and steps run on the
program's loop (``engine/runtime/program_loop.py``).
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

MAX_CALLS = 16
"""The maximum number of calls that wait for the database at the same time, each in a thread. Their
writes share commits; further calls are queued."""


class AsyncRun(Generic[T]):
    """A handle to one durable run."""

    def __init__(self, engine: AsyncEngine, run_id: str) -> None:
        self.id = run_id
        self._engine = engine

    async def status(self) -> Status:
        """Return the current status of the run. Raises RunNotFound."""
        engine = await self._engine._opened()
        return (await self._engine._aside(engine._parts.client.get, self.id)).status

    async def record(self) -> Record:
        """Return the stored run, with all values decrypted that this engine has keys for. Raises
        RunNotFound."""
        engine = await self._engine._opened()
        return await self._engine._aside(engine._parts.client.record, self.id)

    async def result(self, timeout: Duration | None = None) -> T:
        """Wait for the run to end and return its result.

        Raises RunFailed, RunCancelled, RunExpired or RunStuck if it has none, ResultTimeout after
        *timeout*, and RunNotFound.
        """
        parts = (await self._engine._opened())._parts
        run_id = run_named(self.id)
        warning = LateWarning(parts)

        async def read() -> Record:
            run = await self._engine._run_reader(parts.client).run(run_id)
            if warning.is_due(run):
                await self._engine._aside(warning.log_blocker, run)
            return run

        run = await parts.ended_runs.wait_async(run_id, read, seconds_of(timeout))
        if run is None:
            raise ResultTimeout(run=self.id, status=(await self.status()).value)
        value: T
        # An input, result or error that is stored apart is read from the store: in a thread.
        if any(digest_of(part) is not None for part in (run.input, run.result, run.error)):
            value = await self._engine._aside(parts.client.value, run)
        else:
            value = parts.client.value(run)
        return value

    async def signal(
        self, name: str, payload: Any = None, *, key: str | None = None, source: str | None = None
    ) -> bool:
        """Send the run a signal. Return False if a signal with the same *key* was sent before."""
        return await self._engine.signal(self.id, name, payload, key=key, source=source)

    async def cancel(self, reason: str = "cancelled by request", *, force: bool = False) -> Status:
        """Request the cancellation of the run, with compensation of its completed steps, and return
        its status. With *force*, the run ends at once and without compensation."""
        return await self._engine.cancel(self.id, reason, force=force)

    async def history(self) -> list[Event]:
        """Return the history of the run: its events, in order. Raises RunNotFound."""
        return await self._engine.history(self.id)

    async def why(self) -> Why:
        """Explain what the run waits for, and what would let it continue."""
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
    """Durable workflows for asyncio programs, on a SQLite file or a PostgreSQL database.

    ``async with AsyncEngine("orders.db") as engine:`` also executes runs, in the background.

    The constructor checks the options and opens nothing. ``async with``, or the first call, opens
    the database in a thread.
    """

    def __init__(self, url: str | os.PathLike[str], **options: Any) -> None:
        self._options = EngineOptions(url, **options)
        self._engine: Engine | None = None
        self._open_lock = threading.Lock()
        self._closed = False
        self._threads = ThreadPool("holdfast call", MAX_CALLS)
        self._shared_reader: RunReader | None = None
        self.flows = AsyncFlows(self)
        """Managed flows: work that another program drives, with its state kept in this database."""
        self.graphs = AsyncGraphs(self)
        """Graphs: runs that depend on each other."""

    async def __aenter__(self) -> AsyncEngine:
        await self.work()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def work(self) -> None:
        """Start the worker, which executes runs until the engine is closed. Async workflows and
        steps run on the calling loop. Raises EngineClosed."""
        await self._call(Engine._work, ProgramLoop(asyncio.get_running_loop()))

    async def close(self, *, grace: Duration | None = None) -> None:
        """Stop the worker and close the database. Executing steps have *grace* to end; other runs
        are parked or their leases returned. Repeated calls do nothing."""
        if self._closed:
            return
        self._closed = True
        await self._threads.run(partial(self._close, grace))
        self._threads.close()

    def _close(self, grace: Duration | None) -> None:
        with self._open_lock:  # wait for a call that is opening the database at this moment
            if self._engine is not None:
                self._engine.close(grace=grace)

    # Helpers of the calls

    async def _opened(self) -> Engine:
        if self._engine is not None and not self._closed:
            return self._engine
        return await self._aside(self._open)

    def _open(self) -> Engine:
        """Return the engine, and open the database if no other call has done so. Any thread may
        call this. Raises EngineClosed."""
        with self._open_lock:
            if self._closed:
                raise EngineClosed
            if self._engine is None:
                self._engine = Engine(self._options)
            return self._engine

    async def _aside(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._closed:
            raise EngineClosed
        value: T = await self._threads.run(partial(call, *args, **kwargs))
        return value

    def _run_reader(self, client: Any) -> RunReader:
        """Return the reader that all waiters for results on the running loop share."""
        loop = asyncio.get_running_loop()
        if self._shared_reader is None or self._shared_reader.loop is not loop:
            self._shared_reader = RunReader(loop, partial(self._aside, client.get_many))
        return self._shared_reader

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
        """Start a run; it is durable when this returns. The options are those of ``Engine.start``.

        *connection* may also be an asynchronous connection. A blocking connection is used in the
        calling thread, because it belongs to that thread, and blocks the loop meanwhile.
        """
        engine = await self._opened()
        if connection is None:
            return await self._start(engine, workflow, args, kwargs)
        if is_asynchronous(connection):
            # An asynchronous connection may be used on its loop only: the thread that starts the
            # run sends each statement to the loop and waits for its result.
            loop_bound = LoopBoundConnection(
                await unwrapped_async(connection), asyncio.get_running_loop()
            )
            run = await self._aside(
                partial(engine.start, workflow, *args, connection=loop_bound, **kwargs)
            )
        else:
            run = engine.start(workflow, *args, connection=connection, **kwargs)
        return AsyncRun(self, run.id)

    async def _start(
        self, engine: Engine, workflow: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> AsyncRun[Any]:
        """Start a run in a transaction of the engine, and execute it here if it was leased to the
        worker."""
        parts = engine._parts
        parts.know(workflow)
        options, workflow_kwargs = split_options(kwargs)
        runs, request = parts.client.start(workflow, args, workflow_kwargs, options, parts.lease)
        answers = await self._do(engine, request)
        parts.adopt(runs, answers)
        return AsyncRun(self, answers[0].id)

    async def _do(self, engine: Engine, request: Request) -> Any:
        """Commit a request and return its decoded answer. The worker commits it if it serves the
        running loop, which saves a thread; otherwise a thread does."""
        parts = engine._parts
        loop = asyncio.get_running_loop()
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
        """Return a handle to a run. Raises RunNotFound."""
        return AsyncRun(self, (await self._call(Engine.run, run_id)).id)

    async def runs(self, **filters: Any) -> list[Record]:
        """Return the runs that match, newest first. The filters are those of ``Engine.runs``."""
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
        """Send a signal to a run, or to one wait of that run. The signal may arrive before the run
        waits for it. Return False if a signal with the same *key* was sent before. Raises
        RunNotFound."""
        engine = await self._opened()
        client = engine._parts.client
        if client.only is not None:  # the client reads the namespace of the run: in a thread
            return await self._aside(
                partial(engine.signal, run_id, name, payload, key=key, source=source, wait=wait)
            )
        answer = await self._do(engine, client.signal(run_id, name, payload, key, source, wait))
        return bool(answer.new)

    async def cancel(
        self, run_id: str, reason: str = "cancelled by request", *, force: bool = False
    ) -> Status:
        """Request the cancellation of a run and its children, with compensation of their completed
        steps, and return the status of the run. With *force*, they end at once and without
        compensation."""
        return await self._call(Engine.cancel, run_id, reason, force=force)

    async def resume(self, run_id: str) -> Status:
        """Make a stuck run claimable again, after its cause was fixed, and return its status."""
        return await self._call(Engine.resume, run_id)

    async def replay(self, run_id: str, *, from_step: str | None = None) -> Status:
        """Make a finished run claimable again, with its children that did not complete, as
        ``Engine.replay`` does. Return its status."""
        return await self._call(Engine.replay, run_id, from_step=from_step)

    async def fork(
        self, run_id: str, *, from_step: str | None = None, id: str | None = None
    ) -> AsyncRun[Any]:
        """Start a new run with the same input and the same history up to *from_step*, as
        ``Engine.fork`` does."""
        return AsyncRun(
            self, (await self._call(Engine.fork, run_id, from_step=from_step, id=id)).id
        )

    async def why(self, run_id: str) -> Why:
        """Explain what a run waits for, what blocks it, and what would let it continue."""
        return await self._call(Engine.why, run_id)

    async def history(self, run_id: str) -> list[Event]:
        """Return the history of a run: its events, in order. Raises RunNotFound."""
        return await self._call(Engine.history, run_id)

    async def export(
        self,
        run_id: str,
        path: str | os.PathLike[str],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Copy a run and its descendants to a new database file, as ``Engine.export`` does. Return
        the number of runs copied."""
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
        """Delete the finished runs that ended before *older_than*, batch by batch, and return their
        number. *progress* is called on the running loop with the size of each batch."""
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
        """Set all limits of a lane, as ``Engine.lane`` does: a limit that is not passed is
        removed."""
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
        """Return the lanes that have settings. Raises NamespaceBound."""
        return await self._call(Engine.lanes)

    async def workers(self) -> list[Session]:
        """Return the sessions of all workers. If the engine is bound to a namespace, return only
        the sessions that serve it."""
        return await self._call(Engine.workers)

    async def unserved(self) -> list[UnservedRoute]:
        """Return the routes with claimable runs that no live worker serves: the number of runs, the
        offer that is missing, and the remedy."""
        return await self._call(Engine.unserved)

    async def check(self) -> list[str]:
        """Check the database and return a message for each damaged row and each violated invariant;
        an empty list means that it is sound. Raises NamespaceBound."""
        return await self._call(Engine.check)
