"""``engine.tasks``: programs that lease runs and execute them themselves."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from holdfast.connect import run_views
from holdfast.connect.async_calls import AsyncCalls
from holdfast.connect.async_run import AsyncRun
from holdfast.connect.components import Components
from holdfast.connect.engine_options import seconds_of
from holdfast.connect.held_lease import HeldLease
from holdfast.connect.lease import AsyncLease
from holdfast.connect.lease_holder import LeaseHolder
from holdfast.connect.lease_renewal import LeaseRenewal
from holdfast.connect.start_options import split_options
from holdfast.core.duration import Duration
from holdfast.core.status import Status
from holdfast.core.unset import UNSET
from holdfast.core.validation import checked_count, checked_flag, checked_words
from holdfast.engine.runtime.notifier import WorkReady
from holdfast.errors import BadOption, LeaseLost
from holdfast.service.instants import Moment
from holdfast.service.tasks.lease_state import RunEnded
from holdfast.service.tasks.service import TaskService
from holdfast.views.attempts import AttemptView


class AsyncTaskWorker:
    """A holder of leases. All its leases are valid while it is renewed; when it is closed or dies,
    other workers may claim its runs."""

    def __init__(self, calls: AsyncCalls, holder: LeaseHolder) -> None:
        self._calls: AsyncCalls = calls
        self._holder: LeaseHolder = holder
        self._opened = calls.prepare(holder.open)

    @property
    def session_id(self) -> str:
        """The id of the session; empty until it is open."""
        return self._holder.session_id

    async def __aenter__(self) -> AsyncTaskWorker:
        await self._opened.get()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def claim(self, limit: int = 1, *, wait: Duration | None = None) -> list[AsyncLease]:
        """Lease up to *limit* runs, in claim order; with *wait*, wait so long for the first.
        Several callers may call this at the same time. A holder that was not renewed in time has
        lost its leases, and gets a new session here. Raises LeaseLost if the holder was closed."""
        seconds = seconds_of(wait) or 0.0
        limit = checked_count("limit", limit)
        await self._opened.get()
        leases = await self._take(limit)
        if leases or seconds <= 0:
            return leases
        until = time.monotonic() + seconds
        async with self._calls.listen(WorkReady) as listener:
            while True:
                leases = await self._take(limit)
                left = until - time.monotonic()
                if leases or left <= 0:
                    return leases
                await listener.wait(left)

    async def _take(self, limit: int) -> list[AsyncLease]:
        holder = self._holder
        taken = await self._calls.lease(lambda: holder.take(limit), holder.give_back)
        return [AsyncLease(self._calls, held) for held in taken]

    async def reclaim(self, run_id: str) -> AsyncLease | RunEnded:
        """Lease one given run whose holder is dead or has returned it, regardless of priorities.

        The former lease counts as lost. If more leases were lost than the policy's ``reclaims``
        allows, the run fails, and its RunEnded is returned. Raises NotReclaimable, RunNotFound,
        RunFinished.
        """
        await self._opened.get()
        holder = self._holder
        taken, ended = await self._calls.lease(
            lambda: holder.reclaim(run_id), lambda answer: holder.give_back(answer[0])
        )
        return AsyncLease(self._calls, taken[0]) if ended is None else ended

    async def complete_all(
        self, done: Iterable[tuple[AsyncLease, Any]]
    ) -> list[RunEnded | LeaseLost]:
        """Complete several leases, each with its result, in one commit. Return one answer per
        lease; for a refused completion it is the LeaseLost error with the reason. Raises
        BadOption."""
        pairs = _pairs(done)
        await self._opened.get()
        return await self._calls.call(lambda parts: self._holder.complete_all(pairs))

    async def renew(self) -> datetime:
        """Renew all leases of this holder, and return their expiry. Raises LeaseLost if they have
        expired."""
        await self._opened.get()
        return await self._calls.call(lambda parts: self._holder.renew())

    async def rest(self) -> None:
        """Keep the current leases and announce that this holder claims no more: `holdfast why` no
        longer counts it among the workers that serve a run."""
        await self._opened.get()
        await self._calls.call(lambda parts: self._holder.rest())

    async def close(self) -> None:
        """Return all leases at once and end the session."""
        await self._opened.get()
        await self._calls.call(lambda parts: self._holder.close())


def with_topics(
    workflows: str | Sequence[str] | None, topics: str | Sequence[str] | None
) -> str | Sequence[str] | None:
    """Return the names of workflows and topics together: a topic is the name of a task. Raises
    BadOption."""
    if topics is None:
        return workflows
    return [
        *(checked_words("workflows", workflows) or ()),
        *(checked_words("topics", topics) or ()),
    ]


def _pairs(done: Iterable[tuple[AsyncLease, Any]]) -> list[tuple[HeldLease, Any]]:
    """Return *done* as a list of pairs of a lease and its result. Raises BadOption."""
    pairs = list(done) if isinstance(done, Iterable) else [done]
    for pair in pairs:
        is_pair = isinstance(pair, tuple | list) and len(pair) == 2
        if not is_pair or not isinstance(pair[0], AsyncLease):
            raise BadOption(option="done", value=pair, why="pass pairs of a lease and its result")
    return [(lease._held, result) for lease, result in pairs]


class AsyncCreated:
    """A task that this submission has created."""

    created = True

    def __init__(self, run: AsyncRun[Any]) -> None:
        self.run: AsyncRun[Any] = run

    def __repr__(self) -> str:
        return f"<created {self.run.id}>"


class AsyncDuplicate:
    """A task that an earlier submission with the same id or key has created."""

    created = False

    def __init__(self, run: AsyncRun[Any]) -> None:
        self.run: AsyncRun[Any] = run

    def __repr__(self) -> str:
        return f"<duplicate {self.run.id}>"


class AsyncTasks:
    """The leased runs of an ``AsyncEngine``."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls: AsyncCalls = calls

    async def submit(
        self,
        task: Any,
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
        **kwargs: Any,
    ) -> AsyncCreated | AsyncDuplicate:
        """Start a run like ``engine.start``, with the same options, and tell whether this call has
        created it: the answer is Created or Duplicate, and has the ``run``. *task* is a task, a
        workflow, or the name of a workflow that other workers know. Raises BadOption, RunExists,
        UnknownWorkflow."""
        parts = await self._calls.opened()
        task, options, kwargs = split_options(
            task,
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
            },
            kwargs,
        )
        parts.know(task)
        runs, request = parts.starts.start(task, args, kwargs, options, parts.lease)
        (started,) = await self._calls.start(runs, request)
        run: AsyncRun[Any] = AsyncRun(self._calls, started.id)
        return AsyncCreated(run) if started.created else AsyncDuplicate(run)

    async def claim(
        self,
        limit: int = 1,
        *,
        workflows: str | Sequence[str] | None = None,
        lanes: str | Sequence[str] | None = None,
        capabilities: str | Sequence[str] = (),
        worker: str = "",
        ttl: Duration = "30s",
        wait: Duration | None = None,
        horizon: Duration | None = None,
        renew: bool = True,
    ) -> list[AsyncLease]:
        """Lease up to *limit* runs, for a program that claims once. The options are those of
        ``worker``, whose ``claim`` suits programs that claim repeatedly. Raises BadOption."""
        holder = self.worker(
            worker,
            workflows=workflows,
            lanes=lanes,
            capabilities=capabilities,
            ttl=ttl,
            horizon=horizon,
            claims=wait is not None,
            renew=renew,
        )
        leases = await holder.claim(limit, wait=wait)
        if not leases:
            await holder.close()
        elif wait is not None:
            await holder.rest()  # it claims no more: `why` must not count on it
        return leases

    def worker(
        self,
        worker: str = "",
        *,
        workflows: str | Sequence[str] | None = None,
        topics: str | Sequence[str] | None = None,
        lanes: str | Sequence[str] | None = None,
        capabilities: str | Sequence[str] = (),
        ttl: Duration = "30s",
        horizon: Duration | None = None,
        claims: bool = True,
        renew: bool = True,
    ) -> AsyncTaskWorker:
        """Open a holder of leases, for a program that executes runs itself: ``async with
        engine.tasks.worker(...) as worker: await worker.claim(10)``.

        It leases runs of these *workflows* and *lanes* that require none but these *capabilities*.
        One of *workflows* and *lanes* may be None, for all of them. A lease lasts for *ttl*. While
        it is held it is renewed in the background, every third of that time; without *renew*, only
        by ``lease.renew()``. *horizon* ("366d") is the longest time that a wait may last. Without
        *claims* it does not count as a worker that serves runs. *topics* are the external tasks of
        models, by topic. Raises BadOption.
        """
        holder = LeaseHolder(
            worker=worker,
            workflows=with_topics(workflows, topics),
            lanes=lanes,
            capabilities=capabilities,
            ttl=ttl,
            horizon=horizon,
            claims=claims,
            renew=renew,
        )
        return AsyncTaskWorker(self._calls, holder)

    async def lease(
        self,
        proof: str,
        *,
        ttl: Duration = "30s",
        horizon: Duration | None = None,
        renew: bool = False,
    ) -> AsyncLease:
        """Continue a lease by its proof; with *renew*, renew it in the background. Raises BadLease.
        If the lease is no longer valid, its calls raise LeaseLost."""

        def read(parts: Components) -> HeldLease:
            service = TaskService(parts.client, horizon)
            state = service.from_proof(proof)
            renewal = None
            if checked_flag("renew", renew):
                session_id = state.proof.session_id
                renewal = LeaseRenewal(parts, service, session_id, ttl, state.term)
            return HeldLease(parts, service, state, ttl, renewal)

        return AsyncLease(self._calls, await self._calls.call(read))

    async def attempts(self, run_id: str) -> list[AttemptView]:
        """Return the attempts at a run, oldest first; the last one is the current one. Raises
        RunNotFound, BadData."""
        return await self._calls.call(lambda parts: run_views.attempts(parts, run_id))

    async def revoke(
        self,
        run_id: str,
        reason: str = "revoked by an operator",
        *,
        session_id: str | None = None,
        by: str | None = None,
    ) -> bool:
        """Revoke the lease of a run, whose holder can then no longer write it. Return False if the
        run has no holder. With *session_id*, revoke only the lease of that session. *by* is the
        person or program that asks for it. Raises RunNotFound, RunFinished, BadOption."""
        return await self._calls.commit(
            lambda parts: parts.audit.record_run(
                parts.tasks.revoke(run_id, reason, session_id, by),
                by,
                "tasks.revoke",
                run_id,
                reason=reason,
            )
        )

    async def prioritise(self, run_id: str, priority: int, *, by: str | None = None) -> int:
        """Change the priority of an unfinished run and return the old priority. *by* is the person
        or program that asks for it. Raises RunNotFound, RunFinished, BadOption."""
        return await self._calls.commit(
            lambda parts: parts.audit.record_run(
                parts.tasks.priority(run_id, priority, by),
                by,
                "tasks.prioritise",
                run_id,
                priority=priority,
            )
        )

    async def override(
        self,
        run_id: str,
        reason: str,
        *,
        result: Any = None,
        failed: bool = False,
        by: str | None = None,
    ) -> Status:
        """End an unfinished run by an operator's decision, even if it has a holder: completed with
        *result*, or failed. Return its status. *by* is the person or program that asks for it.
        Raises RunNotFound, RunFinished, BadOption."""
        return await self._calls.commit(
            lambda parts: parts.audit.record_run(
                parts.tasks.override(run_id, reason, result=result, failed=failed, by=by),
                by,
                "tasks.override",
                run_id,
                reason=reason,
            )
        )
