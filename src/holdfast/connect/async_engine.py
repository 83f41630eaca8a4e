"""``AsyncEngine``: durable workflows for asyncio programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from holdfast.connect.namespaces import AsyncNamespaces
from holdfast.connect.start_options import split_options
from holdfast.core.codec import Codec
from holdfast.core.duration import Duration
from holdfast.core.payload import INLINE_LIMIT
from holdfast.core.status import Status
from holdfast.core.unset import UNSET
from holdfast.core.waits import MOST_SIGNALS
from holdfast.service.instants import Moment
from holdfast.store.clock import Clock

if TYPE_CHECKING:
    from holdfast.authoring.python.workflow import Workflow
    from holdfast.connect.async_run import AsyncRun
    from holdfast.connect.runs import AsyncRunQuery
    from holdfast.views.why import WhyView

T = TypeVar("T")


class AsyncEngine(AsyncNamespaces):
    """Durable workflows on a SQLite file or a PostgreSQL database.

    ``async with AsyncEngine("orders.db") as engine:`` also executes runs, in the background; with
    ``work=False`` the engine is a client that never claims runs.
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        work: bool = True,
        workflows: Iterable[Any] | None = None,
        handlers: Mapping[str, Callable[..., Any]] | None = None,
        codec: Codec | None = None,
        clock: Clock | None = None,
        store: Any = None,
        driver: str | None = None,
        max_signals: int = MOST_SIGNALS,
        inline_limit: int = INLINE_LIMIT,
        read_only_values: bool = False,
        name: str = "",
        namespace: str | None = None,
        lanes: str | Iterable[str] | None = None,
        capabilities: str | Iterable[str] = (),
        concurrency: int | None = None,
        threads: int | None = None,
        session_ttl: Duration | None = None,
        idle_timeout: Duration | None = None,
        crash_limit: int | None = None,
        poll: Duration | None = None,
        poll_interval: Duration | None = None,
        idle_poll_interval: Duration | None = None,
        shutdown_timeout: Duration | None = None,
        schedules: bool = True,
        stream_window: Duration | None = None,
        capture: bool = False,
        keep_args: bool = False,
        webhook_hosts: str | Iterable[str] | None = None,
        retention_interval: Duration | None = None,
    ) -> None:
        """Check the options. A blocking engine opens the database now; an asynchronous one opens it
        in a thread, with ``async with`` or at the first call.

        With *work*, the context manager also starts a worker. *workflows* are the workflows that it
        executes, all that the process defines if None; *handlers* execute the tasks of models, by
        name. *namespace* binds the engine to one namespace. *codec* encodes values; values of more
        than *inline_limit* bytes are stored apart. A run accepts *max_signals* signals at most.
        *read_only_values* allows an engine without keys to read an encrypted database. *clock* and
        *store* replace those of the engine, for tests; *driver* is the driver of a SQLite file. All
        other options are settings of the worker. Raises BadOption, BadUrl, UnknownWorkflow.
        """
        # Here, not above: opening an engine loads the store, the services and the worker.
        from holdfast.connect.async_calls import AsyncCalls
        from holdfast.connect.engine_options import EngineOptions

        options = EngineOptions(
            url,
            work=work,
            workflows=workflows,
            handlers=handlers,
            codec=codec,
            clock=clock,
            store=store,
            driver=driver,
            max_signals=max_signals,
            inline_limit=inline_limit,
            read_only_values=read_only_values,
            name=name,
            namespace=namespace,
            lanes=lanes,
            capabilities=capabilities,
            concurrency=concurrency,
            threads=threads,
            session_ttl=session_ttl,
            idle_timeout=idle_timeout,
            crash_limit=crash_limit,
            poll=poll,
            poll_interval=poll_interval,
            idle_poll_interval=idle_poll_interval,
            shutdown_timeout=shutdown_timeout,
            schedules=schedules,
            stream_window=stream_window,
            capture=capture,
            keep_args=keep_args,
            webhook_hosts=webhook_hosts,
            retention_interval=retention_interval,
        )
        super().__init__(AsyncCalls(options))

    # Working

    async def __aenter__(self) -> AsyncEngine:
        await self._calls.enter()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def work(self) -> None:
        """Start the worker, which executes runs until the engine is closed, in a thread of its own.
        Async workflows and steps of an ``AsyncEngine`` run on the calling loop. Raises
        EngineClosed."""
        await self._calls.work()

    async def close(self, *, shutdown_timeout: Duration | None = None) -> None:
        """Stop the worker and close the database. Executing steps have *shutdown_timeout* to
        end; other runs are parked or their leases returned. Repeated calls do nothing."""
        await self._calls.close(shutdown_timeout)

    # Starting

    @overload
    async def start(
        self,
        workflow: Workflow[..., Coroutine[Any, Any, T]],
        *args: Any,
        id: str | None = ...,
        key: str | None = ...,
        lane: str | None = ...,
        priority: int = ...,
        delay: Moment | None = ...,
        deadline: Moment | None = ...,
        tags: Mapping[str, str] | None = ...,
        capabilities: str | Iterable[str] | None = ...,
        namespace: str | None = ...,
        version: str | int | None = ...,
        policy: Any = ...,
        budget: Any = ...,
        share: str | None = ...,
        debounce: Duration | None = ...,
        max_wait: Duration | None = ...,
        batch: int | None = ...,
        within: Duration | None = ...,
        connection: Any = ...,
        **kwargs: Any,
    ) -> AsyncRun[T]: ...
    @overload
    async def start(
        self,
        workflow: Workflow[..., T],
        *args: Any,
        id: str | None = ...,
        key: str | None = ...,
        lane: str | None = ...,
        priority: int = ...,
        delay: Moment | None = ...,
        deadline: Moment | None = ...,
        tags: Mapping[str, str] | None = ...,
        capabilities: str | Iterable[str] | None = ...,
        namespace: str | None = ...,
        version: str | int | None = ...,
        policy: Any = ...,
        budget: Any = ...,
        share: str | None = ...,
        debounce: Duration | None = ...,
        max_wait: Duration | None = ...,
        batch: int | None = ...,
        within: Duration | None = ...,
        connection: Any = ...,
        **kwargs: Any,
    ) -> AsyncRun[T]: ...
    @overload
    async def start(
        self,
        workflow: Any,
        *args: Any,
        id: str | None = ...,
        key: str | None = ...,
        lane: str | None = ...,
        priority: int = ...,
        delay: Moment | None = ...,
        deadline: Moment | None = ...,
        tags: Mapping[str, str] | None = ...,
        capabilities: str | Iterable[str] | None = ...,
        namespace: str | None = ...,
        version: str | int | None = ...,
        policy: Any = ...,
        budget: Any = ...,
        share: str | None = ...,
        debounce: Duration | None = ...,
        max_wait: Duration | None = ...,
        batch: int | None = ...,
        within: Duration | None = ...,
        connection: Any = ...,
        **kwargs: Any,
    ) -> AsyncRun[Any]: ...
    async def start(
        self,
        workflow: Any,
        *args: Any,
        id: str | None = UNSET,
        key: str | None = UNSET,
        lane: str | None = UNSET,
        priority: int = UNSET,
        delay: Moment | None = UNSET,
        deadline: Moment | None = UNSET,
        tags: Mapping[str, str] | None = UNSET,
        capabilities: str | Iterable[str] | None = UNSET,
        namespace: str | None = UNSET,
        version: str | int | None = UNSET,
        policy: Any = UNSET,
        budget: Any = UNSET,
        share: str | None = UNSET,
        debounce: Duration | None = UNSET,
        max_wait: Duration | None = UNSET,
        batch: int | None = UNSET,
        within: Duration | None = UNSET,
        connection: Any = UNSET,
        **kwargs: Any,
    ) -> AsyncRun[Any]:
        """Start a run. It is durable when this returns.

        *id* and *key* make the start idempotent: a start with the same input returns the same run,
        another input is refused with RunExists. *lane*, *priority*, *share*, *capabilities* and
        *version* say who executes the run and when; *delay* lets it begin later; *deadline* ends
        it. *tags* are for filters, *policy* is the retry policy of a task, *budget* limits its
        spending. With *debounce* (and *max_wait*) or *batch* (and *within*), starts of a *key*
        share a run. With *connection*, the run is started in the transaction that is open on it,
        and exists once that commits.

        All other arguments are passed to the workflow. A parameter that has the name of an option
        is refused: ``workflow.options(...)`` has the options apart. Raises BadOption, RunExists,
        UnknownWorkflow.
        """
        parts = await self._calls.opened()
        workflow, options, kwargs = split_options(
            workflow,
            {
                "id": id,
                "key": key,
                "lane": lane,
                "priority": priority,
                "delay": delay,
                "deadline": deadline,
                "tags": tags,
                "capabilities": capabilities,
                "namespace": namespace,
                "version": version,
                "policy": policy,
                "budget": budget,
                "share": share,
                "debounce": debounce,
                "max_wait": max_wait,
                "batch": batch,
                "within": within,
                "connection": connection,
            },
            kwargs,
        )
        parts.know(workflow)
        own_connection = options.pop("connection", None)
        if own_connection is not None:
            from holdfast.service.starts import queued, refuse_debounce

            refuse_debounce(options)
            # The run gets no lease: it exists only after the commit of the caller.
            runs, _ = parts.starts.start(workflow, args, kwargs, options, queued)
            started = await self._calls.start_within(own_connection, runs)
            return self._handle(started[0].id)
        runs, request = await self._calls.start_request(workflow, args, kwargs, options)
        answers = await self._calls.start(runs, request)
        return self._handle(answers[0].id)

    async def start_many(
        self,
        workflow: Any,
        items: Iterable[Any],
        *,
        lane: str | None = UNSET,
        priority: int = UNSET,
        delay: Moment | None = UNSET,
        deadline: Moment | None = UNSET,
        tags: Mapping[str, str] | None = UNSET,
        capabilities: str | Iterable[str] | None = UNSET,
        namespace: str | None = UNSET,
        version: str | int | None = UNSET,
        policy: Any = UNSET,
        budget: Any = UNSET,
        share: str | None = UNSET,
    ) -> list[AsyncRun[Any]]:
        """Start one run per item, with the item as its argument. The options are those of
        ``start``.

        Up to 2000 runs are started in one transaction, all of them or none; more are started in
        parts of 2000. Raises StartIncomplete if a part was refused after earlier parts were
        started.
        """
        workflow, options, _ = split_options(
            workflow,
            {
                "lane": lane,
                "priority": priority,
                "delay": delay,
                "deadline": deadline,
                "tags": tags,
                "capabilities": capabilities,
                "namespace": namespace,
                "version": version,
                "policy": policy,
                "budget": budget,
                "share": share,
            },
            {},
        )
        from holdfast.connect import run_procedures

        started = await self._calls.call(
            lambda parts: run_procedures.start_many(parts, workflow, items, options)
        )
        return [self._handle(run_id) for run_id in started]

    # Runs

    def _handle(self, run_id: str) -> AsyncRun[Any]:
        from holdfast.connect.async_run import AsyncRun

        return AsyncRun(self._calls, run_id)

    async def run(self, run_id: str) -> AsyncRun[Any]:
        """Return a handle to a run. Raises RunNotFound."""
        run = await self._calls.call(lambda parts: parts.client.get(run_id))
        return self._handle(run.id)

    def runs(
        self,
        *,
        status: str | Iterable[str] | None = None,
        live: bool | None = None,
        workflow: str | Iterable[str] | None = None,
        version: str | Iterable[str] | None = None,
        lane: str | Iterable[str] | None = None,
        share: str | None = None,
        tags: Mapping[str, str] | None = None,
        key: str | None = None,
        id_prefix: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        worker: str | None = None,
        namespace: str | None = None,
        parent_id: str | None = None,
        roots: bool | None = None,
        ids: Iterable[str] | None = None,
    ) -> AsyncRunQuery:
        """Return the query for the runs that match, newest first by their time of creation. It is
        iterated in pages, and has bulk verbs.

        *status*, *workflow*, *version* and *lane* are one value, or several of which a run has one.
        *live* selects the runs that have not ended; *since* and *until* limit the time of creation;
        *worker* is the name of the worker that executes the runs; *parent_id* selects the children
        of a run, *roots* the runs that are no children. *ids* selects runs by their ids, without
        other filters.
        """
        from holdfast.connect.runs import AsyncRunQuery

        return AsyncRunQuery(
            self._calls,
            {
                "status": status,
                "live": live,
                "workflow": workflow,
                "version": version,
                "lane": lane,
                "share": share,
                "tags": tags,
                "key": key,
                "id_prefix": id_prefix,
                "since": since,
                "until": until,
                "worker": worker,
                "namespace": namespace,
                "parent_id": parent_id,
                "roots": roots,
            },
            ids,
        )

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
        """Send a signal to a run, or to one wait of it; it may arrive before the run waits for it.
        Return False if a signal with the same *key* was sent before. Raises RunNotFound."""
        run = self._handle(run_id)
        return await run.signal(name, payload, key=key, source=source, wait=wait)

    async def cancel(
        self,
        run_id: str,
        reason: str = "cancelled by request",
        *,
        force: bool = False,
        by: str | None = None,
    ) -> Status:
        """Request the cancellation of a run and its children, as ``cancel`` of the run does, and
        return the status of the run. Raises RunNotFound, RunFinished, BadOption."""
        return await self._handle(run_id).cancel(reason, force=force, by=by)

    async def resume(self, run_id: str, *, by: str | None = None) -> Status:
        """Make a stuck run claimable again, after its cause was fixed; return its status."""
        return await self._handle(run_id).resume(by=by)

    async def replay(
        self, run_id: str, *, from_step: str | None = None, by: str | None = None
    ) -> Status:
        """Make a finished run claimable again, as ``replay`` of the run does, and return its
        status. Raises RunNotFound, RunNotFinished, StepNotFound, HistoryGone."""
        return await self._handle(run_id).replay(from_step=from_step, by=by)

    async def fork(
        self,
        run_id: str,
        *,
        from_step: str | None = None,
        id: str | None = None,
        by: str | None = None,
    ) -> AsyncRun[Any]:
        """Start a new run from the history of another, as ``fork`` of the run does."""
        return await self._handle(run_id).fork(from_step=from_step, id=id, by=by)

    async def why(self, run_id: str) -> WhyView:
        """Explain what a run waits for, and what would let it continue."""
        return await self._handle(run_id).why()
