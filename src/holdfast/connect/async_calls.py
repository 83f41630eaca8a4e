"""``AsyncCalls``: how ``AsyncEngine`` and its namespaces reach the database.

The worker has a thread of its own, and blocking calls are made in a thread pool. Starts and signals
are committed by the worker if that worker serves the caller's loop. The program's loop therefore
never waits for the database. Async workflows and steps run on the program's loop
(``engine/runtime/program_loop.py``).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Generic, TypeVar

from holdfast.connect.components import Components, LateWarning
from holdfast.connect.engine_options import EngineOptions, seconds_of
from holdfast.connect.run_reads import RunReader
from holdfast.connect.worker_thread import WorkerThread
from holdfast.core.duration import Duration
from holdfast.core.runs import NewRun, RunRecord
from holdfast.core.validation import checked_call
from holdfast.engine.runtime.notifier import AsyncListener, Committed, Topic
from holdfast.engine.runtime.program_loop import ProgramLoop
from holdfast.engine.runtime.thread_pool import ThreadPool
from holdfast.engine.worker.worker import Worker
from holdfast.errors import EngineClosed
from holdfast.service.requests import Request
from holdfast.service.starts import StartRequest
from holdfast.store.database import Started
from holdfast.store.user_connections import LoopBoundConnection, is_asynchronous, unwrapped_async

T = TypeVar("T")
AsyncAnswer = Awaitable[object]
"""What a call of any namespace returns."""

MAX_CALLS = 16
"""The maximum number of calls that wait for the database at the same time, each in a thread. Their
writes share commits; further calls are queued."""


class AsyncCalls:
    """Makes the calls of an ``AsyncEngine``, and starts and stops its worker. The first call opens
    the database, in a thread."""

    def __init__(self, options: EngineOptions) -> None:
        self._options: EngineOptions = options
        self._parts: Components | None = None
        self._worker_thread: WorkerThread | None = None
        self._open_lock = threading.Lock()
        self._closed = False
        self._threads = ThreadPool("holdfast call", MAX_CALLS)
        self._shared_reader: RunReader | None = None

    def sharing(self, parts: Components) -> AsyncCalls:
        """Return calls on open components, with the threads of these."""
        calls = AsyncCalls(self._options)
        calls._parts = parts
        calls._threads = self._threads
        return calls

    # The life of the engine

    def open(self) -> Components:
        """Return the components of the engine, and open the database if no other call has done so.
        This blocks; any thread may call it. Raises EngineClosed."""
        with self._open_lock:
            if self._closed:
                raise EngineClosed
            if self._parts is None:
                self._parts = Components(self._options)
                self._worker_thread = WorkerThread(self._parts)
            return self._parts

    @property
    def worker_thread(self) -> WorkerThread:
        """The thread of the worker. The first call opens the database, and blocks. Raises
        EngineClosed."""
        self.open()
        assert self._worker_thread is not None
        return self._worker_thread

    async def enter(self) -> None:
        """Open the database, and start the worker, unless the engine is a client that never
        claims."""
        if self._options.work:
            await self.work()
        else:
            await self.opened()

    async def work(self) -> None:
        """Start the worker. Async workflows and steps run on the calling loop. Raises
        EngineClosed."""
        program_loop = ProgramLoop(asyncio.get_running_loop())
        await self._in_thread(lambda: self.worker_thread.start(program_loop))

    async def close(self, shutdown_timeout: Duration | None) -> None:
        """Stop the worker and close the database. Repeated calls do nothing."""
        if self._closed:
            return
        seconds = seconds_of(shutdown_timeout)
        self._closed = True
        await self._threads.run(partial(self._close, seconds))
        self._threads.close()

    def _close(self, seconds: float | None) -> None:
        with self._open_lock:  # wait for a call that is opening the database at this moment
            parts = self._parts
            worker_thread = self._worker_thread
        if parts is None:
            return
        parts.closed = True
        if worker_thread is not None:
            worker_thread.stop(seconds)
        parts.close()
        if worker_thread is not None:
            worker_thread.check_stopped()

    # Reading and writing

    async def opened(self) -> Components:
        """Return the components of the engine; the first caller opens the database, in a thread.
        Raises EngineClosed."""
        if self._parts is not None and not self._closed:
            return self._parts
        return await self._in_thread(self.open)

    async def _in_thread(self, function: Callable[[], T]) -> T:
        if self._closed:
            raise EngineClosed
        value: T = await self._threads.run(function)
        return value

    async def call(self, function: Callable[[Components], T]) -> T:
        """Call a function that reads or writes the database, in a thread, and return its result.
        Raises EngineClosed."""
        return await self._in_thread(lambda: function(self._parts or self.open()))

    async def commit(self, make_request: Callable[[Components], Request[T]]) -> T:
        """Make a request, commit it, and return its decoded answer, all in a thread. Raises
        EngineClosed."""
        return await self.call(lambda parts: parts.commit(make_request(parts)))

    async def send(self, request: Request[T]) -> T:
        """Commit a request and return its decoded answer. The worker commits it if it serves the
        running loop, which saves a thread; otherwise a thread does."""
        parts = await self.opened()
        worker = _worker_of_this_loop(parts)
        if worker is None or parts.sealer.is_heavy(request.op):
            return await self._in_thread(lambda: parts.commit(request))
        return request.decode(await worker.ask(parts.sealer.seal(request.op)))

    async def start_request(
        self, workflow: Any, args: Any, kwargs: dict[str, Any], options: dict[str, Any]
    ) -> StartRequest:
        """Return the request that starts a run. A name that the process does not define may be a
        deployed definition, which is read from the database, so in a thread."""
        parts = await self.opened()
        make = partial(parts.starts.start, workflow, args, kwargs, options, parts.lease)
        if parts.client.may_be_deployed(workflow):
            return await self._in_thread(make)
        return make()

    async def start(self, runs: list[NewRun], request: Request[list[Started]]) -> list[Started]:
        """Commit the start of runs and return the answers. The worker executes the runs that the
        commit has leased to it, even if the caller is cancelled meanwhile."""
        parts = await self.opened()

        def adopted(answers: list[Started]) -> list[Started]:
            parts.adopt(runs, answers)
            return answers

        worker = _worker_of_this_loop(parts)
        if worker is None or parts.sealer.is_heavy(request.op):
            return await self._in_thread(lambda: adopted(parts.commit(request)))
        answer = await worker.ask(
            parts.sealer.seal(request.op), lambda answer: adopted(request.decode(answer))
        )
        return request.decode(answer)

    async def lease(self, function: Callable[[], T], give_back: Callable[[T], None]) -> T:
        """Call a function that leases runs, in a thread, and return the leases. If the caller is
        cancelled meanwhile, *give_back* receives them."""
        task = asyncio.ensure_future(self._in_thread(function))

        def on_done(task: asyncio.Task[T]) -> None:
            if not task.cancelled() and task.exception() is None:
                give_back(task.result())

        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(on_done)
            raise

    def prepare(self, function: Callable[[Components], T]) -> AsyncPrepared[T]:
        """Return a call that is made, in a thread, when its result is first needed."""
        return AsyncPrepared(self, function)

    async def start_within(self, connection: Any, runs: Sequence[NewRun]) -> list[Started]:
        """Start runs in the transaction that is open on a connection of the program.

        *connection* may also be an asynchronous connection. A blocking connection is used in the
        calling thread, because it belongs to that thread, and blocks the loop meanwhile.
        """
        parts = await self.opened()
        if not is_asynchronous(connection):
            return parts.store.start_within(connection, parts.sealer.seal_runs(runs))
        # An asynchronous connection may be used on its loop only: the thread that starts the run
        # sends each statement to the loop and waits for its result.
        loop_bound = LoopBoundConnection(
            await unwrapped_async(connection), asyncio.get_running_loop()
        )
        return await self._in_thread(
            lambda: parts.store.start_within(loop_bound, parts.sealer.seal_runs(runs))
        )

    async def commit_within(
        self, connection: Any, make_request: Callable[[Components], Request[T]]
    ) -> T:
        """Commit a request in a transaction of its own, as ``commit`` does; or, if *connection* is
        given, apply it in the transaction that is open there, as ``start_within`` does. Return the
        decoded answer."""
        if connection is None:
            return await self.commit(make_request)
        parts = await self.opened()
        request = make_request(parts)
        op = parts.sealer.seal(request.op)
        if not is_asynchronous(connection):
            return request.decode(parts.store.apply_within(connection, op))
        loop_bound = LoopBoundConnection(
            await unwrapped_async(connection), asyncio.get_running_loop()
        )
        return request.decode(
            await self._in_thread(lambda: parts.store.apply_within(loop_bound, op))
        )

    def reporter(self, progress: Callable[[int], None] | None) -> Callable[[int], None] | None:
        """Return a function with which a thread calls *progress* on the running loop; None for
        None. Raises BadOption if *progress* is not callable."""
        if progress is None:
            return None
        checked_call("progress", progress)
        loop = asyncio.get_running_loop()
        callback = progress

        def report(count: int) -> None:
            loop.call_soon_threadsafe(callback, count)

        return report

    # Waiting

    async def wait_for_run(self, run_id: str, timeout: Duration | None) -> RunRecord | None:
        """Wait for a run to end, or to be stuck, and return it; None after *timeout*. Raises
        RunNotFound."""
        parts = await self.opened()
        warning = LateWarning(parts)

        async def read() -> RunRecord:
            run = await self._run_reader(parts).run(run_id)
            if warning.is_due(run):
                await self._in_thread(lambda: warning.log_blocker(run))
            return run

        return await parts.ended_runs.wait_async(run_id, read, seconds_of(timeout))

    def _run_reader(self, parts: Components) -> RunReader:
        """Return the reader that all waiters for results on the running loop share."""
        loop = asyncio.get_running_loop()
        if self._shared_reader is None or self._shared_reader.loop is not loop:
            self._shared_reader = RunReader(
                loop, lambda run_ids: self._in_thread(partial(parts.client.get_many, run_ids))
            )
        return self._shared_reader

    async def wait_for_graph(
        self, graph_id: str, read: Callable[[Components], RunRecord], timeout: Duration | None
    ) -> RunRecord | None:
        """Wait for a graph to end and return what *read* returns of it; None after *timeout*."""
        parts = await self.opened()
        return await parts.ended_runs.wait_async(
            graph_id, lambda: self.call(read), seconds_of(timeout)
        )

    @asynccontextmanager
    async def listen(self, topic: Topic = Committed) -> AsyncIterator[AsyncListener]:
        """Listen for commits: check, then wait, and no commit is missed in between."""
        parts = await self.opened()
        listener = parts.notifier.subscribe_async(topic, self._in_thread)
        try:
            yield listener
        finally:
            listener.close()


def _worker_of_this_loop(parts: Components) -> Worker | None:
    """Return the worker if it serves the running loop and accepts operations."""
    worker = parts.worker
    if worker is None or worker.program_loop is None or worker.stopping:
        return None
    return worker if worker.program_loop.loop is asyncio.get_running_loop() else None


class AsyncPrepared(Generic[T]):
    """A call that is made when its result is first needed. Callers that need it at the same time
    may each make it."""

    def __init__(self, calls: AsyncCalls, function: Callable[[Components], T]) -> None:
        self._calls: AsyncCalls = calls
        self._function: Callable[[Components], T] = function
        self._values: list[T] = []

    async def get(self) -> T:
        """Make the call, unless that was done before, and return its result."""
        if not self._values:
            self._values.append(await self._calls.call(self._function))
        return self._values[0]
