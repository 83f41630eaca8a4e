"""``Calls``: how ``Engine`` and its namespaces reach the database: in the calling thread.

``AsyncCalls`` has the same verbs for asyncio programs. The namespaces know only these verbs, so the
blocking namespaces are generated from the asynchronous ones (``tools/generate_blocking.py``).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from holdfast.connect.components import Components
from holdfast.connect.engine_options import EngineOptions, seconds_of
from holdfast.connect.worker_thread import WorkerThread
from holdfast.core.duration import Duration
from holdfast.core.runs import NewRun, RunRecord
from holdfast.core.validation import checked_call
from holdfast.engine.runtime.notifier import Committed, Listener, Topic
from holdfast.errors import BadOption
from holdfast.service.requests import Request
from holdfast.service.starts import StartRequest
from holdfast.store.database import Started

T = TypeVar("T")
Answer = object
"""What a call of any namespace returns."""


class Calls:
    """Makes the calls of an ``Engine``, each in the thread of its caller, and starts and stops its
    worker. The constructor opens the database."""

    def __init__(self, options: EngineOptions | Components) -> None:
        """Open the database, or share the one of *options* that are components already."""
        self._parts: Components = (
            options if isinstance(options, Components) else Components(options)
        )
        self._works: bool = isinstance(options, EngineOptions) and options.work
        self.worker_thread: WorkerThread = WorkerThread(self._parts)

    # The life of the engine

    def open(self) -> Components:
        """Return the components of the engine."""
        return self._parts

    def enter(self) -> None:
        """Start the worker, unless the engine is a client that never claims."""
        if self._works:
            self.worker_thread.start()

    def work(self) -> None:
        """Start the worker. Raises EngineClosed."""
        self.worker_thread.start()

    def close(self, shutdown_timeout: Duration | None) -> None:
        """Stop the worker and close the database. Repeated calls do nothing."""
        if self._parts.closed:
            return
        seconds = seconds_of(shutdown_timeout)
        self._parts.closed = True
        self.worker_thread.stop(seconds)
        self._parts.close()
        self.worker_thread.check_stopped()

    # Reading and writing

    def opened(self) -> Components:
        """Return the components of the engine."""
        return self._parts

    def call(self, function: Callable[[Components], T]) -> T:
        """Call a function that reads or writes the database, and return its result."""
        return function(self._parts)

    def commit(self, make_request: Callable[[Components], Request[T]]) -> T:
        """Make a request, commit it, and return its decoded answer. Raises EngineClosed."""
        return self._parts.commit(make_request(self._parts))

    def send(self, request: Request[T]) -> T:
        """Commit a request and return its decoded answer. Raises EngineClosed."""
        return self._parts.commit(request)

    def start_request(
        self, workflow: Any, args: Any, kwargs: dict[str, Any], options: dict[str, Any]
    ) -> StartRequest:
        """Return the request that starts a run."""
        parts = self._parts
        return parts.starts.start(workflow, args, kwargs, options, parts.lease)

    def start(self, runs: list[NewRun], request: Request[list[Started]]) -> list[Started]:
        """Commit the start of runs, let the worker execute the runs that the commit has leased to
        it, and return the answers. Raises EngineClosed."""
        answers = self._parts.commit(request)
        self._parts.adopt(runs, answers)
        return answers

    def lease(self, function: Callable[[], T], give_back: Callable[[T], None]) -> T:
        """Call a function that leases runs, and return the leases. No caller is cancelled here, so
        nothing is given back."""
        return function()

    def prepare(self, function: Callable[[Components], T]) -> Prepared[T]:
        """Call a function whose result is needed later, so that its errors are raised now."""
        return Prepared(function(self._parts))

    def start_within(self, connection: Any, runs: Sequence[NewRun]) -> list[Started]:
        """Start runs in the transaction that is open on a connection of the program."""
        return self._parts.store.start_within(connection, self._parts.sealer.seal_runs(runs))

    def commit_within(self, connection: Any, make_request: Callable[[Components], Request[T]]) -> T:
        """Commit a request in a transaction of its own, as ``commit`` does; or, if *connection* is
        given, apply it in the transaction that is open there. Return the decoded answer."""
        if connection is None:
            return self.commit(make_request)
        request = make_request(self._parts)
        op = self._parts.sealer.seal(request.op)
        return request.decode(self._parts.store.apply_within(connection, op))

    def reporter(self, progress: Callable[[int], None] | None) -> Callable[[int], None] | None:
        """Return the function that reports progress to the program. Raises BadOption if *progress*
        is not callable."""
        checked_call("progress", progress)
        return progress

    # Waiting

    def wait_for_run(self, run_id: str, timeout: Duration | None) -> RunRecord | None:
        """Wait for a run to end, or to be stuck, and return it; None after *timeout*. Raises
        RunNotFound, and BadOption in the thread of the worker, which would wait for itself."""
        if self.worker_thread.thread is threading.current_thread():
            raise BadOption(
                option="result",
                why="an async step cannot block its engine: make the step a plain def",
            )
        return self._parts.ended_runs.wait(
            run_id, self._parts.reader_of(run_id), seconds_of(timeout), time.monotonic
        )

    def wait_for_graph(
        self, graph_id: str, read: Callable[[Components], RunRecord], timeout: Duration | None
    ) -> RunRecord | None:
        """Wait for a graph to end and return what *read* returns of it; None after *timeout*."""
        parts = self._parts
        return parts.ended_runs.wait(
            graph_id, lambda: read(parts), seconds_of(timeout), time.monotonic
        )

    @contextmanager
    def listen(self, topic: Topic = Committed) -> Iterator[Listener]:
        """Listen for commits: check, then wait, and no commit is missed in between."""
        listener = self._parts.notifier.subscribe(topic)
        try:
            yield listener
        finally:
            listener.close()


class Prepared(Generic[T]):
    """The result of a call that was made in advance."""

    def __init__(self, value: T) -> None:
        self._value: T = value

    def get(self) -> T:
        """Return the result."""
        return self._value
