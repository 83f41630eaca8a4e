"""``Engine``: the blocking engine. It starts and shows runs; used with ``with``, it also executes
them, in a thread."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from holdfast.authoring.python.workflow import Workflow
from holdfast.connect.budgets import Budgets
from holdfast.connect.components import Components, EngineOptions, seconds_of, split_options
from holdfast.connect.events import Subscriptions
from holdfast.connect.flows import Flows
from holdfast.connect.gates import Gates
from holdfast.connect.graphs import Graphs
from holdfast.connect.keys import Keys
from holdfast.connect.open_store import open_store
from holdfast.connect.retention import PayloadCalls
from holdfast.connect.schedules import ScheduleCalls
from holdfast.connect.streams import Streams
from holdfast.connect.tasks import LeaseCalls
from holdfast.connect.waits import Waits
from holdfast.core.duration import Duration
from holdfast.core.events import Event
from holdfast.core.graphs.model import graph_of, name_of
from holdfast.core.runs import RunRecord as Record
from holdfast.core.sessions import Lane, Session
from holdfast.core.status import Status
from holdfast.core.validation import checked_call
from holdfast.engine.runtime.program_loop import ProgramLoop
from holdfast.engine.worker.worker import Worker
from holdfast.errors import (
    BadOption,
    EngineClosed,
    HoldfastError,
    ResultTimeout,
    RunChanged,
    RunFinished,
    RunNotFound,
    StartIncomplete,
)
from holdfast.service import export as export_service
from holdfast.service import fork as fork_service
from holdfast.service.graph_stages import sweep_all
from holdfast.service.replay import TRIES
from holdfast.service.runs import Moment, Request, refuse_debounce, run_named
from holdfast.store.runs.operations import PartlyCancelled

if TYPE_CHECKING:
    from holdfast.core.why.model import Why
    from holdfast.core.why.workers import UnservedRoute

T = TypeVar("T")
log = logging.getLogger("holdfast")


class Run(Generic[T]):
    """A handle to one durable run."""

    def __init__(self, engine: Engine, run_id: str) -> None:
        self.id = run_id
        self._engine = engine

    @property
    def status(self) -> Status:
        """The current status of the run. Raises RunNotFound."""
        return self._engine._parts.client.get(self.id).status

    @property
    def record(self) -> Record:
        """The stored run, with all values decrypted that this engine has keys for. Raises
        RunNotFound."""
        return self._engine._parts.client.record(self.id)

    def result(self, timeout: Duration | None = None) -> T:
        """Wait for the run to end and return its result.

        Raises RunFailed, RunCancelled, RunExpired or RunStuck if it has none, ResultTimeout after
        *timeout*, RunNotFound, and BadOption in an async step of this engine, which would block its
        own worker.
        """
        parts = self._engine._parts
        if self._engine._thread is threading.current_thread():
            raise BadOption(
                option="result",
                why="an async step cannot block its engine: make the step a plain def",
            )
        run_id = run_named(self.id)
        run = parts.ended_runs.wait(
            run_id, parts.reader_of(run_id), seconds_of(timeout), time.monotonic
        )
        if run is None:
            raise ResultTimeout(run=self.id, status=self.status.value)
        value: T = parts.client.value(run)
        return value

    def signal(
        self, name: str, payload: Any = None, *, key: str | None = None, source: str | None = None
    ) -> bool:
        """Send the run a signal. Return False if a signal with the same *key* was sent before."""
        return self._engine.signal(self.id, name, payload, key=key, source=source)

    def cancel(self, reason: str = "cancelled by request", *, force: bool = False) -> Status:
        """Request the cancellation of the run, with compensation of its completed steps, and return
        its status. With *force*, the run ends at once and without compensation."""
        return self._engine.cancel(self.id, reason, force=force)

    def history(self) -> list[Event]:
        """Return the history of the run: its events, in order. Raises RunNotFound."""
        return self._engine._parts.client.history(self.id)

    def why(self) -> Why:
        """Explain what the run waits for, and what would let it continue."""
        return self._engine.why(self.id)

    def __repr__(self) -> str:
        return f"<run {self.id}>"


class Engine(
    LeaseCalls, Keys, Gates, ScheduleCalls, Waits, Streams, Subscriptions, PayloadCalls, Budgets
):
    """Durable workflows on a SQLite file or a PostgreSQL database.

    ``with Engine("orders.db") as engine:`` executes runs in the background; without ``with`` the
    engine only starts and shows them.
    """

    def __init__(self, url: str | os.PathLike[str] | EngineOptions, **options: Any) -> None:
        self._parts = Components(
            url if isinstance(url, EngineOptions) else EngineOptions(url, **options)
        )
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Task[None] | None = None
        self._closed = False
        self.flows = Flows(self._parts.client, self._do)
        """Managed flows: work that another program drives, with its state kept in this database."""
        self.graphs = Graphs(self._parts, self._do)
        """Graphs: runs that depend on each other."""

    # Working

    def __enter__(self) -> Engine:
        self.work()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def work(self) -> None:
        """Start the worker in a thread. It executes runs until the engine is closed. Raises
        EngineClosed."""
        self._work(None)

    def _work(self, program_loop: ProgramLoop | None) -> None:
        """Start the worker in a thread and wait until it is ready. Async user code runs on
        *program_loop*, if that is given, else on the loop of the thread. Raises EngineClosed, and
        the error with which the worker failed to start."""
        if self._closed:
            raise EngineClosed(database=self._parts.store.url)
        if self._thread is not None:
            return
        ready = threading.Event()
        errors: list[BaseException] = []
        self._thread = threading.Thread(
            target=self._run,
            args=(ready, errors, program_loop),
            name="holdfast engine",
            daemon=True,
        )
        self._thread.start()
        ready.wait()
        if errors:
            self._thread = None
            raise errors[0]

    def _run(
        self, ready: threading.Event, errors: list[BaseException], program_loop: ProgramLoop | None
    ) -> None:
        """Run the worker on a new loop until it is stopped. *errors* receives the error with which
        it failed to start; *ready* is set in either case."""
        loop = asyncio.new_event_loop()
        self._loop = loop
        if program_loop is not None:
            program_loop.lost = self._stop_after_program_loop
        try:
            loop.run_until_complete(self._parts.new_worker(program_loop).start())
        except BaseException as error:
            errors.append(error)
            loop.close()
            return
        finally:
            ready.set()
        try:
            _run_forever(loop)
        finally:
            loop.close()

    def _stop_after_program_loop(self) -> None:
        """Stop the worker because the program closed its loop before this engine, so that other
        workers continue the runs. This is called on the loop of the worker."""
        worker = self._parts.worker
        loop = self._loop
        assert worker is not None
        assert loop is not None
        if self._stop is not None:
            return  # the engine is being closed
        log.warning(
            "the program closed its event loop before its AsyncEngine: the worker stops, and its"
            " runs go on elsewhere"
        )
        self._stop = loop.create_task(worker.kill())
        self._stop.add_done_callback(lambda done: loop.stop())

    def _stop_working(
        self, worker: Worker, loop: asyncio.AbstractEventLoop, grace: float | None
    ) -> None:
        """Stop the worker, and then its loop, unless that has begun already. Call it on that
        loop."""
        if self._stop is None:
            self._stop = loop.create_task(worker.stop(grace=grace))
            self._stop.add_done_callback(lambda done: loop.stop())

    def close(self, *, grace: Duration | None = None) -> None:
        """Stop the worker and close the database. Executing steps have *grace* to end; other runs
        are parked or their leases returned. Repeated calls do nothing."""
        if self._closed:
            return
        self._closed = True
        worker = self._parts.worker
        loop = self._loop
        if (
            self._thread is not None
            and worker is not None
            and loop is not None
            and self._thread.is_alive()
        ):
            with suppress(RuntimeError):  # the loop may have ended meanwhile
                loop.call_soon_threadsafe(self._stop_working, worker, loop, seconds_of(grace))
            self._thread.join()
        self._parts.close()
        if self._stop is not None and not self._stop.cancelled():
            self._stop.result()

    # Starting

    @overload
    def start(
        self,
        workflow: Workflow[..., Coroutine[Any, Any, T]],
        *args: Any,
        connection: Any = None,
        **kwargs: Any,
    ) -> Run[T]: ...
    @overload
    def start(
        self, workflow: Workflow[..., T], *args: Any, connection: Any = None, **kwargs: Any
    ) -> Run[T]: ...
    @overload
    def start(
        self, workflow: str, *args: Any, connection: Any = None, **kwargs: Any
    ) -> Run[Any]: ...
    def start(self, workflow: Any, *args: Any, connection: Any = None, **kwargs: Any) -> Run[Any]:
        """Start a run. It is durable when this returns.

        Options: id, key (idempotent: a start with the same input returns the same run, another
        input is refused with RunExists), lane, priority, delay, deadline, tags, capabilities,
        namespace. All other arguments are passed to the workflow. With *connection*, the run is
        started in the transaction that is open on it, and exists once that commits.
        """
        self._parts.know(workflow)
        parts = self._parts
        options, workflow_kwargs = split_options(kwargs)
        # In a transaction of the caller the run gets no lease: it exists only after the commit.
        lease = parts.lease if connection is None else _no_lease
        runs, request = parts.client.start(workflow, args, workflow_kwargs, options, lease)
        if connection is not None:
            refuse_debounce(options)
            started = parts.store.start_within(connection, parts.sealer.seal_runs(runs))
            return Run(self, started[0].id)
        answers = self._do(request)
        self._parts.adopt(runs, answers)
        return Run(self, answers[0].id)

    def start_many(self, workflow: Any, items: Iterable[Any], **options: Any) -> list[Run[Any]]:
        """Start one run per item, with the item as its argument.

        Up to 2000 runs are started in one transaction, all of them or none; more are started in
        parts of 2000. Raises StartIncomplete if a part was refused after earlier parts were
        started.
        """
        self._parts.know(workflow)
        started: list[Run[Any]] = []
        parts = self._parts.client.start_many(workflow, items, options, self._parts.lease)
        for runs, request in parts:
            try:
                answers = self._do(request)
            except HoldfastError as error:
                if not started:
                    raise
                left = sum(len(part) for part, _ in parts) - len(started)
                incomplete = StartIncomplete(started=len(started), left=left, reason=str(error))
                incomplete.run_ids = tuple(run.id for run in started)
                raise incomplete from error
            self._parts.adopt(runs, answers)
            started += [Run(self, answer.id) for answer in answers]
        return started

    # Operating

    def run(self, run_id: str) -> Run[Any]:
        """Return a handle to a run. Raises RunNotFound."""
        return Run(self, self._parts.client.get(run_id).id)

    def runs(self, **filters: Any) -> list[Record]:
        """Return the runs that match, newest first.

        Filters: status (one or several), workflow, tags, since, until, worker, namespace,
        parent_id, roots. ``before`` (the id of the last run of the previous page) and ``limit``
        select a page.
        """
        return self._parts.client.find(**filters)

    def signal(
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
        answer = self._do(self._parts.client.signal(run_id, name, payload, key, source, wait))
        return bool(answer.new)

    def cancel(
        self, run_id: str, reason: str = "cancelled by request", *, force: bool = False
    ) -> Status:
        """Request the cancellation of a run and its children, with compensation of their completed
        steps, and return the status of the run. With *force*, they end at once and without
        compensation. Raises RunNotFound, RunFinished."""
        request = self._parts.client.cancel(run_id, reason, force=force)
        answer: Status | PartlyCancelled = self._do(request)
        while isinstance(answer, PartlyCancelled):
            status = answer.status
            try:
                answer = self._do(request)
            except RunFinished:
                return status  # the run has ended meanwhile, and has cancelled its children itself
        return answer

    def resume(self, run_id: str) -> Status:
        """Make a stuck run claimable again, after its cause was fixed, and return its status."""
        status: Status = self._do(self._parts.client.resume(run_id))
        return status

    def replay(self, run_id: str, *, from_step: str | None = None) -> Status:
        """Make a finished run claimable again and return its status.

        Completed steps keep their results; failed steps, and all steps from *from_step* on, are
        executed again. Children that did not complete are replayed with the run. If any step was
        compensated, the run starts from the beginning. Raises RunNotFound, RunNotFinished,
        StepNotFound, HistoryGone.
        """
        graph_id = graph_of(run_named(run_id))
        if graph_id is not None and self._parts.store.graphs.member(run_id) is not None:
            self.graphs.replay(graph_id, name_of(run_id), from_step=from_step)
            return self._parts.client.get(run_id).status
        for _ in range(TRIES - 1):
            with suppress(RunChanged):
                return self._replay(run_id, from_step)
        return self._replay(run_id, from_step)

    def _replay(self, run_id: str, from_step: str | None) -> Status:
        """Replay a run, part by part. Raises RunChanged if it changed meanwhile: then try again."""
        status: Any = None
        for request in self._parts.client.replay(run_id, from_step):
            status = self._change_finished(request)
        return Status(status)

    def fork(self, run_id: str, *, from_step: str | None = None, id: str | None = None) -> Run[Any]:
        """Start a new run with the same input and the same history up to *from_step*, which the new
        run executes itself. If *id* belongs to a fork of the same run from the same step, return
        that fork."""
        try:
            fork_id = fork_service.fork(self._parts.client, run_id, from_step, id, self._do)
        except RunNotFound:
            # Unless the run was deleted, rekey has replaced a stored value that the fork refers to.
            # A second attempt refers to the new value.
            fork_id = fork_service.fork(self._parts.client, run_id, from_step, id, self._do)
        return Run(self, fork_id)

    def why(self, run_id: str) -> Why:
        """Explain what a run waits for, what blocks it, and what would let it continue."""
        return self._parts.why(run_id)

    def history(self, run_id: str) -> list[Event]:
        """Return the history of a run: its events, in order. Raises RunNotFound."""
        return self._parts.client.history(run_id)

    def export(
        self,
        run_id: str,
        path: str | os.PathLike[str],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Copy a run and its descendants to a new database file, and return the number of runs
        copied.

        The file opens like any other database. If one of the runs has not ended, the file refuses
        writes (StoreSealed), because that run continues in this database. Raises RunNotFound.
        """
        parts = self._parts
        checked_call("progress", progress)
        run = parts.client.get(run_id)
        return export_service.export(
            parts.store,
            parts.sealer,
            run,
            lambda: open_store(path, codec=parts.codec.name),
            progress,
        )

    def prune(
        self,
        older_than: Moment,
        *,
        status: Sequence[str] = (),
        workflow: str | None = None,
        batch: int = 500,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Delete the finished runs that ended before *older_than*, batch by batch, and return their
        number. *progress* is called with the size of each batch."""
        checked_call("progress", progress)
        after = ""
        deleted = 0
        while after is not None:
            done = self._change_finished(
                self._parts.client.prune(
                    older_than, status, batch=batch, after=after, workflow=workflow
                )
            )
            deleted += done.runs
            after = done.last
            if progress is not None:
                progress(done.runs)
        sweep_all(self._do)
        return deleted

    def lane(
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
        """Set all limits of a lane; a limit that is not passed is removed.

        *concurrency* limits the runs that are executed at the same time, *rate* the runs that begin
        per period ("10/s"); *per_share* and *rate_per_share* limit each share likewise. *weights*
        are the weights of the shares. A *paused* lane starts no runs; a *draining* lane accepts no
        new runs. Raises BadOption, NamespaceBound.
        """
        self._do(
            self._parts.client.lane(
                name,
                concurrency,
                rate,
                paused=paused,
                per_share=per_share,
                rate_per_share=rate_per_share,
                weights=weights,
                draining=draining,
            )
        )

    def lanes(self) -> list[Lane]:
        """Return the lanes that have settings. Raises NamespaceBound."""
        self._parts.client.unbound("lanes")
        return self._parts.store.lanes.all()

    def workers(self) -> list[Session]:
        """Return the sessions of all workers. If the engine is bound to a namespace, return only
        the sessions that serve it."""
        return self._parts.workers()

    def unserved(self) -> list[UnservedRoute]:
        """Return the routes with claimable runs that no live worker serves: the number of runs, the
        offer that is missing, and the remedy."""
        return self._parts.unserved()

    def check(self) -> list[str]:
        """Check the database and return a message for each damaged row and each violated invariant;
        an empty list means that it is sound. Raises NamespaceBound."""
        self._parts.client.unbound("check")
        return self._parts.check()

    def _do(self, request: Request) -> Any:
        if self._closed:
            raise EngineClosed(database=self._parts.store.url)
        return request.decode(self._parts.writer.call(self._parts.sealer.seal(request.op)))

    def _change_finished(self, request: Request) -> Any:
        """Commit a request that may change finished runs, and discard the results of such runs that
        this process has read ahead."""
        try:
            return self._do(request)
        finally:
            # After the commit, not before: a read before it would be kept, and be outdated.
            self._parts.ended_runs.discard_reads()


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped. If a task raises SystemExit or KeyboardInterrupt, asyncio
    also ends the loop: here that would stop all runs, so the loop is entered again."""
    while True:
        try:
            loop.run_forever()
            return
        except (KeyboardInterrupt, SystemExit) as error:
            log.error(
                "a task or callback of a step raised %s; the engine goes on",
                type(error).__name__,
                exc_info=error,
            )


def _no_lease(route: object) -> None:
    """Return no session, so that a new run is queued and claimed."""
    return None
