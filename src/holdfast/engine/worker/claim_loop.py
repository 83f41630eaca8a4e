"""Claim runs for a worker: when it is notified, when something is due, and slowly without either.

A claim asks for as many runs as the worker has room for, of the routes that it serves.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from holdfast.core.events import Event
from holdfast.core.program import Definition
from holdfast.core.runs import Route, RunRecord
from holdfast.core.waits import Signal
from holdfast.engine.runtime.capacity import Capacity
from holdfast.engine.runtime.group_commit import GroupCommit
from holdfast.engine.runtime.settings import WorkerSettings
from holdfast.engine.runtime.stored_definitions import StoredDefinitions
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
    stored_definitions: StoredDefinitions
    session_id: str
    stopping: bool

    def definition(self, namespace: str, workflow: str, version: str) -> Definition | None:
        """Return the definition that executes runs of this workflow and version, or None."""

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
        self.route_cache = RouteCache(store, context.stored_definitions.refresh)
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
            await start_claimed(
                self._context.store,
                self._context.writer,
                runs,
                self._context.definition,
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
        taken: dict[int, Route] = {}
        is_blocking = False
        for number, route in self.route_cache.routes().items():
            definition = self._startable(route)
            if definition is not None:
                taken[number] = route
                is_blocking = is_blocking or definition.needs_thread
        self._context.capacity.claims_blocking = is_blocking
        if self._context.capacity.claims_blocking:
            room = min(room, self._context.capacity.free_threads())
        routes = [(number, route.lane) for number, route in taken.items()]
        if room <= 0 or not routes or self._context.stopping:
            return None
        return Claim(self._context.session_id, routes, room)

    def serves(self, route: Route) -> Definition | None:
        """Return the definition by which this worker can execute runs of that route; None if it
        cannot."""
        settings = self._context.settings
        if (
            (settings.lanes is not None and route.lane not in settings.lanes)
            or (settings.namespace is not None and route.namespace != settings.namespace)
            or not set(route.capabilities) <= set(settings.capabilities)
        ):
            return None
        return self._context.definition(route.namespace, route.workflow, route.version)

    def can_start(self, route: Route) -> bool:
        """Return whether this worker can start a run of that route now."""
        return self._startable(route) is not None

    def _startable(self, route: Route) -> Definition | None:
        """Return the definition by which a run of that route can start now: a blocking one needs a
        thread."""
        definition = self.serves(route)
        if definition is None or not definition.needs_thread:
            return definition
        return definition if self._context.capacity.free_threads() > 0 else None

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
