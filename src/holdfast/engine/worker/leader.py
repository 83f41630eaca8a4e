"""Maintenance that one worker, the leader, does for all.

It ends the sessions of dead workers, runs and leases that are past their time, fires schedules,
wakes managed flows, resolves graphs, and continues bulk operations whose processes have died.

The leader is elected through the database without a vote: it is the worker whose session is the
oldest. The second oldest watches it as closely as it watches all others, and takes its place when
it dies; the rest check rarely, in case both die at once. A leader only saves the others work: two
leaders do no harm, because every operation of theirs takes effect once.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from holdfast.core.sessions import Session
from holdfast.engine.runtime.group_commit import GroupCommit
from holdfast.engine.runtime.ids import new_id
from holdfast.errors import RowDamaged
from holdfast.store.database import Operation
from holdfast.store.flows.operations import FlowsWoken, WakeFlows
from holdfast.store.graphs.operations import SweepStages
from holdfast.store.liveness import session_is_dead
from holdfast.store.runs.operations import EndSession, ExpireRuns
from holdfast.store.schedules.operations import FireSchedules
from holdfast.store.store import Store
from holdfast.store.tasks.operations import ExpireAttempts

log = logging.getLogger("holdfast")

CLOSELY = 0.5
RARELY = 2.0
"""Seconds between two checks: of the two oldest workers, and of all others."""


class Leader:
    """The maintenance of the installation, as one worker sees it."""

    def __init__(
        self,
        store: Store,
        writer: GroupCommit,
        *,
        session_ttl: int,
        own_session: Callable[[], str],
        on_freed: Callable[[], None],
        resolve_graphs: Callable[[], None],
        continue_operations: Callable[[], None],
        start_with_kept: Callable[[], Awaitable[None]],
    ) -> None:
        self._store: Store = store
        self._writer: GroupCommit = writer
        self._session_ttl = session_ttl / 1_000_000
        self._own_session: Callable[[], str] = own_session
        self._on_freed: Callable[[], None] = on_freed
        self._resolve_graphs: Callable[[], None] = resolve_graphs
        self._continue_operations: Callable[[], None] = continue_operations
        self._start_with_kept: Callable[[], Awaitable[None]] = start_with_kept
        self._place = 0
        self._last_run = time.monotonic()
        self._reported: set[str] = set()

    @property
    def is_leader(self) -> bool:
        """Return whether this worker is the leader, as far as it knows."""
        return self._place == 0

    async def forever(self) -> None:
        """Tick for ever, as often as this worker's place requires."""
        while True:
            await asyncio.sleep(self._pause())
            await self.tick()

    def _pause(self) -> float:
        pause = CLOSELY
        if self._place >= 2:
            # Spread at random: workers that were started together must not check together.
            pause = RARELY * random.uniform(0.75, 1.25)
        return min(self._session_ttl / 3, pause)

    async def tick(self) -> None:
        """Find out who leads, and do what falls to this worker."""
        tried: set[str] = set()
        while True:
            oldest = self._store.sessions.all(limit=2)
            ids = [session.id for session in oldest]
            self._place = self._place_among(ids)
            untried = [session for session in oldest if session.id not in tried]
            if not await self._take_over(untried):  # otherwise the places have changed
                break
            # A session that cannot be ended, such as a damaged row, must not keep this loop going.
            tried.update(ids)
        hung = time.monotonic() - self._last_run > self._session_ttl / 3
        # A leader that hangs may be alive and do nothing: then the second oldest steps in.
        if self.is_leader or (self._place == 1 and hung):
            await self.run_all()

    def _place_among(self, ids: list[str]) -> int:
        """Return the place of this worker's session among the two oldest; 2 for all others."""
        own = self._own_session()
        if own not in ids:
            return 2
        return ids.index(own)

    async def run_all(self) -> None:
        """Do all maintenance, whether or not this worker is the leader."""
        self._last_run = time.monotonic()
        await self._take_over(self._store.sessions.all())
        await self.run_due()

    async def run_due(self) -> None:
        """Do the maintenance that is due.

        End runs past their deadline that have no holder, fire schedules, wake managed flows,
        resolve graphs whose outbox is not empty, continue bulk operations, sweep stages and pruned
        graphs, and start runs with kept messages.
        """
        due = self._store.runs.next_due()
        now = self._store.now()
        ops: list[Operation] = []
        if _is_due(due.deadline, now):
            ops.append(ExpireRuns())
        if _is_due(due.schedule, now):
            ops.append(FireSchedules(new_id))
        if _is_due(due.attempt, now):
            ops.append(ExpireAttempts(random.random()))
        if _is_due(due.stage, now):
            ops.append(SweepStages())
        # By a job of its own: a graph with thousands of members must not delay what follows.
        if due.graph is not None:
            self._resolve_graphs()
        if _is_due(due.operation, now):
            self._continue_operations()
        await asyncio.gather(*map(self._attempt, ops))
        await self._around_damage(self._start_with_kept())
        while _is_due(due.flow, now):
            woken: FlowsWoken | None = await self._attempt(WakeFlows())
            if woken is None or not woken.more:
                return

    async def _attempt(self, op: Operation) -> Any:
        """Apply an operation and return its answer, None if a damaged row prevents it."""
        return await self._around_damage(self._writer.submit(op))

    async def _around_damage(self, task: Awaitable[Any]) -> Any:
        """Await a task and return its answer, None if a damaged row prevents it.

        A row that is damaged and cannot be set aside stops this task alone: the others are done all
        the same.
        """
        try:
            return await task
        except RowDamaged as damage:
            if str(damage) not in self._reported:
                self._reported.add(str(damage))
                log.warning("a maintenance task was skipped because of a damaged row: %s", damage)
            return None

    async def _take_over(self, sessions: Iterable[Session]) -> bool:
        """End the sessions of processes that are dead or silent for too long, so that their runs
        can be claimed.

        Return whether there were any.
        """
        now = self._store.now()
        any_dead = False
        for session in sessions:
            if session.id == self._own_session() or not session_is_dead(self._store, session, now):
                continue
            any_dead = True
            freed = await self._around_damage(end_session(self._writer, session.id, crashed=True))
            if freed:
                self._writer.metrics.takeovers += freed
                log.info("took over %d runs of worker %s, which is gone", freed, session.worker)
            self._on_freed()
        return any_dead


async def end_session(writer: GroupCommit, session_id: str, *, crashed: bool) -> int:
    """Free all runs of a session, in as many transactions as that takes. Return how many there
    were."""
    freed = 0
    ends = session_id
    while ends:
        answer = await writer.submit(EndSession(ends, crashed=crashed))
        freed += len(answer)
        ends = answer.rest
    return freed


def _is_due(instant: int | None, now: int) -> bool:
    return instant is not None and instant <= now
