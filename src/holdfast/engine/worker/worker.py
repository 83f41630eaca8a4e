"""A worker: a session that claims runs and executes them on one event loop.

It claims when it is notified (of a commit in this process or another one, or by a timer) and,
slowly, without a notification.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

from holdfast.core.budgets.model import BudgetLine
from holdfast.core.codec import Codec
from holdfast.core.events import Event
from holdfast.core.program import Definition
from holdfast.core.runs import NewRun, Route, RunRecord, leased_at_start
from holdfast.core.waits import Signal
from holdfast.engine.execution.execution import RunExecution
from holdfast.engine.maintenance import retention as house
from holdfast.engine.maintenance.graphs import GraphResolver
from holdfast.engine.maintenance.kept_messages import KeptMessages
from holdfast.engine.maintenance.operations import OperationKeeper
from holdfast.engine.maintenance.resolvers import GateResolvers
from holdfast.engine.maintenance.webhooks import WebhookDispatcher
from holdfast.engine.runtime.capacity import Capacity
from holdfast.engine.runtime.code_threads import WorkerCodeThreads
from holdfast.engine.runtime.eager_task import EagerTasks, eager_tasks_of
from holdfast.engine.runtime.group_commit import ENCRYPTED_SINCE, GroupCommit
from holdfast.engine.runtime.inline_task import InlineTask
from holdfast.engine.runtime.log_records import of_run
from holdfast.engine.runtime.long_steps import LongSteps
from holdfast.engine.runtime.notifier import CommitNotifier
from holdfast.engine.runtime.program_loop import ProgramLoop
from holdfast.engine.runtime.settings import WorkerSettings
from holdfast.engine.runtime.stored_definitions import StoredDefinitions
from holdfast.engine.runtime.thread_pool import ThreadPool
from holdfast.engine.runtime.timer_queue import TimerQueue
from holdfast.engine.worker.begin_window import BeginWindow
from holdfast.engine.worker.claim_loop import ClaimLoop
from holdfast.engine.worker.claimed_runs import Orphans
from holdfast.engine.worker.dispatch import CommitDispatcher
from holdfast.engine.worker.leader import Leader, end_session
from holdfast.engine.worker.session_keeper import SessionKeeper
from holdfast.errors import (
    EngineClosed,
    HoldfastError,
    RowDamaged,
    StoreError,
    StoreHalfCopied,
    StoreSealed,
    UsageError,
)
from holdfast.payloads.compose import composer
from holdfast.payloads.sealer import PayloadSealer
from holdfast.store.clock import Clock
from holdfast.store.database import Operation
from holdfast.store.store import Store

log = logging.getLogger("holdfast")

SEALED_PAUSE = 30.0
"""Seconds between two attempts at a job while the store is sealed."""


class Worker:
    """Claims runs for one session and executes them on one loop."""

    code_threads: WorkerCodeThreads

    def __init__(
        self,
        store: Store,
        writer: GroupCommit,
        codec: Codec,
        definitions: Callable[[], Mapping[str, Definition]],
        clock: Clock,
        settings: WorkerSettings,
        learn: Callable[[Definition], None],
        sealer: PayloadSealer | None = None,
        program_loop: ProgramLoop | None = None,
        stored_definitions: StoredDefinitions | None = None,
    ) -> None:
        self.store: Store = store
        self.writer: GroupCommit = writer
        self.codec: Codec = codec
        self.settings: WorkerSettings = settings
        self.definitions: Callable[[], Mapping[str, Definition]] = definitions
        self.clock: Clock = clock
        self.learn: Callable[[Definition], None] = learn
        self.stored_definitions = stored_definitions or StoredDefinitions(store, definitions)
        self.definition = self.stored_definitions.find
        self.sealer = sealer or PayloadSealer(store)
        self.program_loop = program_loop
        self.session_id = ""
        self.stopping = False
        self.idle_timeout = settings.idle_timeout
        self.pause = settings.retention_interval
        self.lines_of_turn: dict[tuple[str, ...], list[BudgetLine]] = {}
        self.stream_window = settings.stream_window / 1_000_000
        self.captures = settings.capture
        self.keeps_args = settings.keep_args
        self.executions: dict[str, RunExecution] = {}
        self.claims = ClaimLoop(self, store)
        self.dispatcher = CommitDispatcher(self)
        self.session = SessionKeeper(self, self.dispatcher.on_remote_commit)
        # Assigned, not wrapped: each step asks, and this saves a call.
        self.session_is_certain: Callable[[], bool] = self.session.is_certain
        self.capacity = Capacity(
            settings.concurrency,
            settings.threads,
            self.executions,
            definitions,
            self.claims.ready.set,
        )
        self.declare: Callable[[], list[Operation]] = list
        """Returns operations that write what the code declares, such as schedules."""
        self.threads = ThreadPool()
        self.notifier: CommitNotifier = writer.notifier
        self.webhooks = WebhookDispatcher(self, settings.poll / 1_000_000)
        self.loop: asyncio.AbstractEventLoop
        self.timers: TimerQueue
        self.long_steps: LongSteps
        self.eager_tasks: EagerTasks
        self._tasks: set[InlineTask] = set()
        self._jobs: list[asyncio.Task[None]] = []
        self._orphans = Orphans(store, writer, self.executions)
        self.graph_resolver: GraphResolver = self._new_graph_resolver()
        self.operations = OperationKeeper()
        self.leader: Leader = self._new_leader()

    @cached_property
    def _window(self) -> BeginWindow:
        return BeginWindow()

    def waits(self, execution: object) -> None:
        """Note that an execution waits for something that takes its time."""
        self._window.leave(execution)

    @cached_property
    def resolvers(self) -> GateResolvers:
        """The job that asks the resolvers of gates."""
        return GateResolvers(self)

    def _new_graph_resolver(self) -> GraphResolver:
        return GraphResolver(
            self.writer,
            composer(self.sealer, self.codec),
            self.lease_member,
            lambda run, created_at: self.adopt(self.sealer.opener.new_run(run), created_at),
        )

    def _new_leader(self) -> Leader:
        return Leader(
            self.store,
            self.writer,
            session_ttl=self.settings.session_ttl,
            own_session=lambda: self.session_id,
            on_freed=self.claims.ready.set,
            resolve_graphs=self.graph_resolver.wake,
            continue_operations=self.operations.wake,
            start_with_kept=KeptMessages(self.store, self.writer, self.sealer).start_runs,
        )

    # Starting and stopping

    async def start(self) -> None:
        """Open a session, and start the jobs of the worker."""
        self.loop = asyncio.get_running_loop()
        self.writer.attach(self.loop)
        self.timers = TimerQueue(self.clock, self.loop)
        self.long_steps = LongSteps(self.timers)
        self.eager_tasks = eager_tasks_of(self.loop)
        self.code_threads = WorkerCodeThreads(self.loop, self.writer)
        self.threads.post = self.code_threads.post
        if self.program_loop is not None:
            self.program_loop.attach(self.loop, self.writer)
        self.dispatcher.attach()
        self.writer.closing.append(self.graph_resolver.closing_operation)
        self.writer.capacity = self.capacity
        # Before the session exists: other processes check the lock of every session they find.
        self.session.slot = self.store.liveness.acquire()
        try:
            await self.session.open()
            await self.declare_all()
            await self.leader.run_all()
            await self.leader.tick()
            await house.unlock(self)
        except BaseException:
            # Other processes must not take this session for a live one.
            self._withdraw()
            raise
        jobs = (
            self.claims.forever,
            self.dispatcher.poll_forever,
            self.session.beat_forever,
            self.leader.forever,
            self.graph_resolver.forever,
            self.operations.forever,
            self.resolvers.forever,
            self.webhooks.forever,
            partial(house.run_forever, self),
        )
        self._jobs = [self.loop.create_task(self.guarded(job)) for job in jobs]

    async def stop(self, *, shutdown_timeout: float | None = None) -> None:
        """Claim nothing more, let running steps end, park or hand back all runs, and end the
        session."""
        self.stopping = True
        # Executions that sleep must see that the worker stops.
        for execution in list(self.executions.values()):
            execution.notify()
        if self._tasks:
            ends = [task.over for task in self._tasks]
            if shutdown_timeout is None:
                shutdown_timeout = self.settings.shutdown_timeout
            await asyncio.wait(ends, timeout=shutdown_timeout)
        await self.kill()

    def is_shut_out(self, error: Exception) -> bool:
        """Return whether the database was encrypted after it was opened here without keys.

        If so, this worker releases all its runs.
        """
        shut_out = self.sealer.cipher is None and isinstance(error, ENCRYPTED_SINCE)
        if shut_out and not self.stopping:
            self.stopping = True
            log.error(
                "this worker stops: the database was encrypted after it was opened here: %s",
                error,
            )
            for execution in list(self.executions.values()):
                execution.notify()
        return shut_out

    async def kill(self) -> None:
        """Stop at once, and free all runs for other workers."""
        self.stopping = True
        jobs = list(self._jobs)
        if self.session.verification is not None:
            jobs.append(self.session.verification)
        for job in jobs:
            job.cancel()
        self.webhooks.close()
        if self.program_loop is not None:
            self.program_loop.abandoned = True
        for execution in list(self.executions.values()):
            execution.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*jobs, *(task.over for task in self._tasks), return_exceptions=True)
        try:
            if self.session_id:
                await end_session(self.writer, self.session_id, crashed=False)
        except HoldfastError as error:
            log.warning("the session could not be ended and will expire: %s", error)
        finally:
            self._withdraw()

    def _withdraw(self) -> None:
        """Release everything by which other processes take this worker for live, and all threads
        and timers."""
        self.dispatcher.detach()
        if self.graph_resolver.closing_operation in self.writer.closing:
            self.writer.closing.remove(self.graph_resolver.closing_operation)
        if self.writer.capacity is self.capacity:
            self.writer.capacity = None
        self.store.liveness.release(self.session.slot)
        self.timers.close()
        self.eager_tasks.close()
        self.threads.close()
        self.code_threads.close()
        if self.program_loop is not None:
            self.program_loop.close()

    async def declare_all(self) -> None:
        """Write what the code declares: its schedules."""
        declared = self.declare() if self.settings.schedules else []
        for answer in await asyncio.gather(
            *map(self.writer.submit, declared), return_exceptions=True
        ):
            if isinstance(answer, UsageError | RowDamaged) and not isinstance(answer, EngineClosed):
                log.error("a declaration in the code was not used: %s", answer)
            elif isinstance(answer, BaseException):
                raise answer

    async def guarded(self, job: Callable[[], Any]) -> None:
        """Run a job for ever, whatever it raises; errors are logged and the job is started
        again."""
        while True:
            try:
                await job()
                return
            except EngineClosed:
                return
            except (StoreSealed, StoreHalfCopied) as error:
                log.error("this worker was paused: %s", error)
                await asyncio.sleep(SEALED_PAUSE)
            except (StoreError, RowDamaged) as error:
                self.writer.had_errors = True
                log.warning("the store failed, the job is started again: %s", error)
            except Exception:
                self.writer.had_errors = True
                log.exception("a job of the worker failed and is started again")
            await asyncio.sleep(0.5)

    # Runs of this session

    async def ask(self, op: Operation, on_answer: Callable[[Any], object] | None = None) -> Any:
        """Commit an operation for a coroutine of user code, on whichever loop it runs; return
        the answer. *on_answer* is called with the answer, on the worker's loop, even if the
        coroutine is cancelled meanwhile."""
        submit = partial(self._submit, op, on_answer)
        if self.program_loop is None:
            return await submit()
        return await self.program_loop.ask(submit)

    def _submit(
        self, op: Operation, on_answer: Callable[[Any], object] | None
    ) -> asyncio.Future[Any]:
        future = self.writer.submit(op)
        if on_answer is not None:
            future.add_done_callback(partial(_pass_on, on_answer))
        return future

    def resolve_graphs_with_commit(self) -> None:
        """Resolve graphs in the transaction that is about to be committed: it ends a member."""
        self.graph_resolver.resolve_with_commit()

    def lease_for(self, route: Route) -> str | None:
        """Return this session's id if a new run of that route may be leased to it at its start.

        Whether a place is free is decided when the run is written.
        """
        if self.stopping or not self.capacity.has_birthplace():
            return None
        if not self.claims.can_start(route):
            return None
        return self.session_id

    def lease_member(self, route: Route) -> str | None:
        """Return the same for a graph member, which starts inside a transaction."""
        return self.capacity.lease_member(route, self.lease_for)

    def may_reach(self, run_id: str) -> bool:
        """Return whether runs of this worker may signal and cancel that run: only in its own
        namespace."""
        if self.settings.namespace is None:
            return True
        run = self.store.runs.get(run_id)
        # None: a child that the same commit creates.
        return run is None or run.namespace == self.settings.namespace

    def may_stay_in_memory(self, lane: str) -> bool:
        """Return whether runs of that lane may wait in memory: not where they occupy a limited
        place."""
        return (
            not self.claims.route_cache.is_limited(lane)
            and len(self.executions) < 10 * self.settings.concurrency
        )

    def adopt(self, run: NewRun, created_at: int) -> None:
        """Execute a run that was leased to this session at its start."""
        if run.id in self._orphans.started:
            self.capacity.arrived(run.id)
        else:
            self.start_execution(leased_at_start(run, created_at), [], [], fresh=True)

    def adopt_all(self, born: list[tuple[NewRun, int]]) -> None:
        """Execute several such runs, each with the time of its creation."""
        for run, created_at in born:
            self.adopt(run, created_at)

    def start_execution(
        self, run: RunRecord, history: list[Event], signals: list[Signal], *, fresh: bool = False
    ) -> None:
        """Start the execution of a run that this session has leased.

        *history* and *signals* were read just now: a notification that comes later finds the
        execution.
        """
        if run.session_id != self.session_id:  # the session was ended, and its runs were freed
            return self.capacity.arrived(run.id)
        definition = self.definition(run.namespace, run.workflow, run.version)
        assert definition is not None, "only runs of routes that are served are leased"
        execution = self.executions[run.id] = RunExecution(run, definition, self, signals)
        self.capacity.arrived(run.id)
        task = InlineTask(
            execution.execute(history, fresh=fresh),
            self.loop,
            lambda done: self._release(run.id, execution, done),
        )
        self._tasks.add(task)
        # The code of a thread may block, and threads are limited anyway.
        if definition.needs_thread or self.store.overlaps_commits:
            task.start()
        else:
            self._window.enter(execution, task.start)

    def _release(self, run_id: str, execution: RunExecution, task: InlineTask) -> None:
        self._tasks.discard(task)
        self._window.leave(execution)
        if self.executions.get(run_id) is execution:
            del self.executions[run_id]
        self.capacity.goes_on(execution)
        if task.error is not None:
            log.error(
                "the execution of run %s failed; the run will be started again",
                run_id,
                exc_info=task.error,
                extra=of_run(execution.run),
            )
            self.writer.had_errors = True
        self.claims.place_freed(
            execution.run.lane,
            is_claimable=bool(
                not execution.finished or execution.blocking or execution.run.crashes
            ),
        )

    # The session

    def verify_session(self) -> asyncio.Task[None]:
        """Verify that this session is alive; if it is not, drop all its executions."""
        return self.session.verify()

    async def ensure_session(self) -> None:
        """Return when this session is certainly alive; otherwise the caller is cancelled. Raises
        EngineClosed."""
        await self.session.ensure()

    def recover_orphans(self) -> None:
        """Start runs that are leased to this session but have no execution, if there may be any."""
        if self.capacity.forget_lost() or self.writer.had_errors:
            self._orphans.recover(self.session_id, self.definition, self.start_execution)

    async def replace_session(self) -> None:
        """Drop all executions and open a new session: the old one was taken over while the
        process hung."""
        log.warning(
            "session %s was taken over; its %d runs continue on other workers",
            self.session_id,
            len(self.executions),
        )
        for execution in list(self.executions.values()):
            execution.close()
        for task in list(self._tasks):
            task.cancel()
        await self.session.open()
        self.claims.ready.set()

    def is_abandoned(self) -> bool:
        # A loop that ends cancels all its tasks: those of the jobs, and with them those of steps.
        return any(job.cancelling() for job in self._jobs)


def _pass_on(on_answer: Callable[[Any], object], future: asyncio.Future[Any]) -> None:
    """Call *on_answer* with the result of a future, unless it has none."""
    if not future.cancelled() and future.exception() is None:
        on_answer(future.result())
