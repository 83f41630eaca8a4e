"""Claim runs for a worker: when it is notified, when something is due, and slowly without either.

A claim asks for as many runs as the worker has room for, of the routes that it serves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from holdfast.core.events import Event
from holdfast.core.program import Definition
from holdfast.core.runs import Route, RunRecord
from holdfast.core.waits import Signal
from holdfast.engine.runtime.capacity import Capacity
from holdfast.engine.runtime.group_commit import GroupCommit
from holdfast.engine.runtime.settings import WorkerSettings
from holdfast.engine.runtime.timer_queue import TimerHandle, TimerQueue
from holdfast.engine.worker.claimed_runs import start_claimed
from holdfast.engine.worker.leader import Leader
from holdfast.engine.worker.route_cache import RouteCache
from holdfast.store.runs.operations import Claim, ClaimedRuns
from holdfast.store.runs.queries import NextDue
from holdfast.store.store import Store

BATCH = 200
"""How many runs are claimed at once."""


class ClaimContext(Protocol):
    """The worker, as its claims see it."""

    store: Store
    writer: GroupCommit
    settings: WorkerSettings
    capacity: Capacity
    timers: TimerQueue
    leader: Leader
    session_id: str
    stopping: bool

    def definitions(self) -> Mapping[str, Definition]:
        """Return the workflows that this process can execute, by name."""

    def start_execution(
        self, run: RunRecord, history: list[Event], signals: list[Signal], *, fresh: bool = False
    ) -> None:
        """Start the execution of a run that this session has leased."""


class ClaimLoop:
    """Decides when a worker claims, and what."""

    def __init__(self, context: ClaimContext, store: Store) -> None:
        self._context: ClaimContext = context
        self.ready = asyncio.Event()
        """Set when there may be claimable runs."""
        self.route_cache = RouteCache(store)
        self._behind = False
        """Whether runs wait for a place in their lane."""
        self._freed = False
        """Whether a place was freed since the last claim was submitted."""
        self._wake: TimerHandle | None = None

    def place_freed(self, lane: str, *, is_claimable: bool) -> None:
        """Note that an execution has ended, and claim again if its run may be claimable at once, or
        if others may have waited for its place."""
        self._freed = True
        is_awaited = self._behind and self.route_cache.is_limited(lane)
        if is_claimable or is_awaited or self._context.capacity.is_full:
            self.ready.set()

    async def forever(self) -> None:
        """Claim runs until the worker stops: when notified, and slowly without a notification."""
        while not self._context.stopping:
            self.ready.clear()  # before the claim: work that comes meanwhile must set it again
            began = self._context.store.now()
            if self._context.leader.is_leader:
                await self._context.leader.run_due()
            await self._claim()
            self._wake_for_timers(began)
            try:
                async with asyncio.timeout(self._context.settings.poll / 1_000_000):
                    await self.ready.wait()
            except TimeoutError:
                self.route_cache.stale = True

    async def _claim(self) -> None:
        """Claim as long as there is work and room."""
        claim = self._submit()
        while claim is not None:
            runs = await claim
            claim = None
            self._behind = runs.behind
            if self._behind and self._freed:
                self.ready.set()  # the freed place may be the one that they wait for
            if not runs:
                return
            if self._context.store.overlaps_commits and len(runs) == BATCH:
                # Fast path: the next claim is committed while these executions start.
                claim = self._submit(in_thread=True)
            definitions = self._context.definitions()
            await start_claimed(
                self._context.store,
                self._context.writer,
                runs,
                definitions,
                self._context.start_execution,
            )
            await asyncio.sleep(0)  # the executions run up to their first commit before more come
            claim = claim or self._submit()

    def _submit(self, *, in_thread: bool = False) -> asyncio.Future[ClaimedRuns] | None:
        self._freed = False
        op = self._request()
        if op is None:
            return None
        if in_thread:
            return self._context.writer.submit_to_thread(op)
        return self._context.writer.submit(op)

    def _request(self) -> Claim | None:
        """Return the claim to submit now; None if there is no room, or nothing to serve."""
        room = min(self._context.capacity.room(), BATCH)
        self._context.capacity.is_full = room <= 0
        taken = {
            number: route
            for number, route in self.route_cache.routes().items()
            if self.can_start(route)
        }
        self._context.capacity.claims_blocking = any(
            self._context.definitions()[route.workflow].needs_thread for route in taken.values()
        )
        if self._context.capacity.claims_blocking:
            room = min(room, self._context.capacity.free_threads())
        routes = [(number, route.lane) for number, route in taken.items()]
        if room <= 0 or not routes or self._context.stopping:
            return None
        return Claim(self._context.session_id, routes, room)

    def serves(self, route: Route) -> bool:
        """Return whether this worker can execute runs of that route."""
        definition = self._context.definitions().get(route.workflow)
        settings = self._context.settings
        return (
            definition is not None
            and (
                definition.accepts_versions is None or route.version in definition.accepts_versions
            )
            and (settings.lanes is None or route.lane in settings.lanes)
            and (settings.namespace is None or route.namespace == settings.namespace)
            and set(route.capabilities) <= set(settings.capabilities)
        )

    def can_start(self, route: Route) -> bool:
        """Return whether this worker can start a run of that route now: a blocking one needs a
        thread."""
        return self.serves(route) and (
            not self._context.definitions()[route.workflow].needs_thread
            or self._context.capacity.free_threads() > 0
        )

    def _wake_for_timers(self, looked_at: int) -> None:
        """Schedule the next claim for when a parked run, or maintenance of the leader, is due.

        In a millisecond, if it was due at *looked_at* already: then another process is about to
        handle it.
        """
        if self._wake is not None:
            self._wake.cancel()
        due = self._context.store.runs.next_due()
        if self._context.capacity.room() <= 0:
            due.work = None  # the execution that makes room triggers the next claim
        if not self._context.leader.is_leader:
            due = NextDue(work=due.work)
        instant = due.at
        if instant is None:
            return
        if instant <= looked_at:
            instant = self._context.store.now() + 1000
        self._wake = self._context.timers.at(instant, self.ready.set)
