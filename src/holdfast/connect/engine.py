"""``Engine``: durable runs for plain programs. Opened, it can start runs; used with ``with``, it
also works on them."""

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
from holdfast.store.contract import PartlyCancelled

if TYPE_CHECKING:
    from holdfast.core.why.model import Why
    from holdfast.core.why.workers import UnservedRoute

T = TypeVar("T")
log = logging.getLogger("holdfast")


class Run(Generic[T]):
    """A handle on one durable run."""

    def __init__(self, engine: Engine, run_id: str) -> None:
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

    def result(self, timeout: Duration | None = None) -> T:
        """Wait for the run to end and return its result.

        Raises RunFailed, RunCancelled, RunExpired or RunStuck when there is none, ResultTimeout
        when time is up."""
        parts = self._engine._parts
        if self._engine._thread is threading.current_thread():
            raise BadOption(
                option="result",
                why="an async step cannot block its engine: make the step a plain def",
            )
        run_id = run_named(self.id)
        run = parts.results.wait(
            run_id, parts.looking_at(run_id), seconds_of(timeout), time.monotonic
        )
        if run is None:
            raise ResultTimeout(run=self.id, status=self.status.value)
        value: T = parts.client.value(run)
        return value

    def signal(
        self, name: str, payload: Any = None, *, key: str | None = None, source: str | None = None
    ) -> bool:
        """Send the run a signal; False when the key came before."""
        return self._engine.signal(self.id, name, payload, key=key, source=source)

    def cancel(self, reason: str = "cancelled by request", *, force: bool = False) -> Status:
        """Ask the run to stop, and to undo what it did."""
        return self._engine.cancel(self.id, reason, force=force)

    def history(self) -> list[Event]:
        """Return the events of the run, in order."""
        return self._engine._parts.client.history(self.id)

    def why(self) -> Why:
        """Say what the run waits for, and what would make it go on."""
        return self._engine.why(self.id)

    def __repr__(self) -> str:
        return f"<run {self.id}>"


class Engine(
    LeaseCalls, Keys, Gates, ScheduleCalls, Waits, Streams, Subscriptions, PayloadCalls, Budgets
):
    """Durable workflows on a SQLite file or a PostgreSQL database.

    ``with Engine("orders.db") as engine:`` works on runs in the background; without ``with`` it
    only starts and shows them.
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
        """Work that somebody outside drives."""
        self.graphs = Graphs(self._parts, self._do)
        """Runs that depend on each other."""

    # Working

    def __enter__(self) -> Engine:
        self.work()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def work(self) -> None:
        """Work on runs, in a thread, until the engine is closed."""
        self._work(None)

    def _work(self, program_loop: ProgramLoop | None) -> None:
        """Work in a thread; async user code runs on *program_loop*, if there is one, else on the
        loop of that thread."""
        if self._closed:
            raise EngineClosed(database=self._parts.store.url)
        if self._thread is not None:
            return
        ready = threading.Event()
        trouble: list[BaseException] = []
        self._thread = threading.Thread(
            target=self._run,
            args=(ready, trouble, program_loop),
            name="holdfast engine",
            daemon=True,
        )
        self._thread.start()
        ready.wait()
        if trouble:
            self._thread = None
            raise trouble[0]

    def _run(
        self, ready: threading.Event, trouble: list[BaseException], program_loop: ProgramLoop | None
    ) -> None:
        loop = self._loop = asyncio.new_event_loop()
        if program_loop is not None:
            program_loop.lost = self._stop_alone
        try:
            loop.run_until_complete(self._parts.new_worker(program_loop).start())
        except BaseException as error:
            trouble.append(error)
            loop.close()
            return
        finally:
            ready.set()
        try:
            _run_forever(loop)
        finally:
            loop.close()

    def _stop_alone(self) -> None:
        """The program's loop was closed before this engine was: stop working, so that other workers
        go on with the runs."""
        worker, loop = self._parts.worker, self._loop
        assert worker is not None
        assert loop is not None
        if self._stop is not None:
            return  # it is being closed
        log.warning(
            "the program closed its event loop before its AsyncEngine: the worker stops, and its"
            " runs go on elsewhere"
        )
        self._stop = loop.create_task(worker.kill())
        self._stop.add_done_callback(lambda done: loop.stop())

    def _stop_working(
        self, worker: Worker, loop: asyncio.AbstractEventLoop, grace: float | None
    ) -> None:
        """Stop the worker, on its loop, and then the loop; unless that is under way already."""
        if self._stop is None:
            self._stop = loop.create_task(worker.stop(grace=grace))
            self._stop.add_done_callback(lambda done: loop.stop())

    def close(self, *, grace: Duration | None = None) -> None:
        """Stop working: steps at work may end, the rest is parked or handed back; then let go of
        the database."""
        if self._closed:
            return
        self._closed = True
        worker, loop = self._parts.worker, self._loop
        if (
            self._thread is not None
            and worker is not None
            and loop is not None
            and self._thread.is_alive()
        ):
            with suppress(RuntimeError):  # the loop has ended by itself meanwhile
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

        Options: id, key (idempotent: the same input gives the same run, other input is refused),
        lane, priority, delay, deadline, tags, capabilities, namespace. All other arguments are the
        workflow's. With *connection*, the run is started inside the transaction that is open there,
        and exists when that commits."""
        self._parts.know(workflow)
        options, own = split_options(kwargs)
        runs, request = self._parts.client.start(
            workflow, args, own, options, self._parts.lease if connection is None else _nobody
        )
        if connection is not None:
            refuse_debounce(options)
            return Run(
                self,
                self._parts.store.start_within(connection, self._parts.sealer.seal_runs(runs))[
                    0
                ].id,
            )
        answers = self._do(request)
        self._parts.adopt(runs, answers)
        return Run(self, answers[0].id)

    def start_many(self, workflow: Any, items: Iterable[Any], **options: Any) -> list[Run[Any]]:
        """Start one run per item, with the item as its argument: up to 2000 of them all or none, in
        one transaction; more in parts of 2000. Raises StartIncomplete when a part was refused after
        others were started."""
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
        """Return a handle on a run. Raises RunNotFound."""
        return Run(self, self._parts.client.get(run_id).id)

    def runs(self, **filters: Any) -> list[Record]:
        """List runs from new to old. Filters: status (one or several), workflow, tags, since,
        until, worker, namespace, parent_id, roots; ``before`` (an id) and ``limit`` page."""
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
        """Send a signal to a run, or to a wait of that run, which may not wait for it yet; False
        when the key came before."""
        answer = self._do(self._parts.client.signal(run_id, name, payload, key, source, wait))
        return bool(answer.new)

    def cancel(
        self, run_id: str, reason: str = "cancelled by request", *, force: bool = False
    ) -> Status:
        """Ask a run and its children to stop, and to undo what they did; forced, they end at once
        and undo nothing."""
        request = self._parts.client.cancel(run_id, reason, force=force)
        answer: Status | PartlyCancelled = self._do(request)
        while isinstance(answer, PartlyCancelled):
            status = answer.status
            try:
                answer = self._do(request)
            except RunFinished:
                return status  # it has ended meanwhile, and has asked its children itself
        return answer

    def resume(self, run_id: str) -> Status:
        """Put a stuck run back to work, after a fix."""
        status: Status = self._do(self._parts.client.resume(run_id))
        return status

    def replay(self, run_id: str, *, from_step: str | None = None) -> Status:
        """Put a finished run back to work. What completed stands; what failed, and all from
        *from_step* on, is done again. Its children that did not complete are replayed with it. If
        the run had undone its steps, it begins anew."""
        graph_id = graph_of(run_named(run_id))
        if graph_id is not None and self._parts.store.member(run_id) is not None:
            self.graphs.replay(graph_id, name_of(run_id), from_step=from_step)
            return self._parts.client.get(run_id).status
        for _ in range(TRIES - 1):
            with suppress(RunChanged):
                return self._replay(run_id, from_step)
        return self._replay(run_id, from_step)

    def _replay(self, run_id: str, from_step: str | None) -> Status:
        status: Any = None
        for request in self._parts.client.replay(run_id, from_step):
            status = self._change_finished(request)
        return Status(status)

    def fork(self, run_id: str, *, from_step: str | None = None, id: str | None = None) -> Run[Any]:
        """Start a new run with the same input and the same history up to *from_step*, which it
        does itself. With the *id* of a fork of the same run from the same step, that fork is
        returned."""
        try:
            fork_id = fork_service.fork(self._parts.client, run_id, from_step, id, self._do)
        except (
            RunNotFound
        ):  # unless the run is gone, rekey has replaced a value of it that the fork was to refer to
            fork_id = fork_service.fork(self._parts.client, run_id, from_step, id, self._do)
        return Run(self, fork_id)

    def why(self, run_id: str) -> Why:
        """Say what a run waits for, who holds it up, and what would make it go on."""
        return self._parts.why(run_id)

    def history(self, run_id: str) -> list[Event]:
        """Return the events of a run, in order."""
        return self._parts.client.history(run_id)

    def export(
        self,
        run_id: str,
        path: str | os.PathLike[str],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Copy a run and all below it to a new file, and return how many runs. It opens like any
        other database, but takes no writes if one of the runs has not ended (StoreSealed): that one
        continues here."""
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
        """Delete finished runs that ended longer ago than *older_than*, batch by batch, and return
        how many went; after each batch *progress* is told how many that were."""
        checked_call("progress", progress)
        after, gone = "", 0
        while after is not None:
            done = self._change_finished(
                self._parts.client.prune(
                    older_than, status, batch=batch, after=after, workflow=workflow
                )
            )
            gone, after = gone + done.runs, done.last
            if progress is not None:
                progress(done.runs)
        sweep_all(self._do)
        return gone

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
        """Set the limits of a lane: how many of its runs work at once and begin per time ("10/s"),
        in all and of each share; what its shares weigh; whether it is paused, or takes no new runs.
        All of it is set: what is not named is no limit."""
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
        """Return the lanes that have settings."""
        self._parts.client.unbound("lanes")
        return self._parts.store.lanes()

    def workers(self) -> list[Session]:
        """Return the sessions of all workers, or of those that serve the namespace of this
        engine."""
        return self._parts.workers()

    def unserved(self) -> list[UnservedRoute]:
        """Return what is ready and no live worker serves: how many runs of which route, what nobody
        offers, and what helps."""
        return self._parts.unserved()

    def check(self) -> list[str]:
        """Return every damaged row, and every law of the database that does not hold, in words.
        Empty is good."""
        self._parts.client.unbound("check")
        return self._parts.check()

    def _do(self, request: Request) -> Any:
        if self._closed:
            raise EngineClosed(database=self._parts.store.url)
        return request.decode(self._parts.writer.call(self._parts.sealer.seal(request.op)))

    def _change_finished(self, request: Request) -> Any:
        """Make a call that may change runs that have ended, whose results this process may have
        read ahead."""
        try:
            return self._do(request)
        finally:
            # after the commit: an earlier read must not be remembered
            self._parts.results.discard_reads()


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped. A task that calls ``sys.exit()`` fails with it, and asyncio
    also ends its loop: here that would end the work on all runs."""
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


def _nobody(route: object) -> None:
    return None
