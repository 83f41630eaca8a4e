"""What one worker does for all: end the sessions of the dead, and runs and leases that are past
their time; fire schedules, wake managed flows, settle graphs.

Who does it is elected in the database, without a vote: the worker whose session is the oldest
leads. The second oldest watches it as closely as it watches all others, and takes its place when it
dies; the rest look rarely, in case both die at once. A leader only saves the others work: two who
take themselves for it do no harm, for what they do the database lets happen once.
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
from holdfast.store.contract import (
    EndSession,
    ExpireAttempts,
    ExpireRuns,
    FireSchedules,
    FlowsWoken,
    Operation,
    Store,
    SweepStages,
    WakeFlows,
)
from holdfast.store.liveness import session_is_dead

log = logging.getLogger("holdfast")

CLOSELY, RARELY = 0.5, 2.0
"""Seconds between two looks: of the two oldest, and of all others."""


class Leader:
    """The common duties, as one worker sees them."""

    def __init__(
        self,
        store: Store,
        writer: GroupCommit,
        *,
        lifetime: int,
        mine: Callable[[], str],
        freed: Callable[[], None],
        settle: Callable[[], None],
    ) -> None:
        self._store, self._writer = store, writer
        self._lifetime = lifetime / 1_000_000
        self._mine, self._freed, self._settle = mine, freed, settle
        self._place = 0
        self._looked_at_all = time.monotonic()
        self._reported: set[str] = set()

    @property
    def leads(self) -> bool:
        """Whether this worker is the one that sees to the common duties, as far as it knows."""
        return self._place == 0

    async def forever(self) -> None:
        """See to them, as often as is due."""
        while True:
            await asyncio.sleep(self._pause())
            await self.look()

    def _pause(self) -> float:
        often = CLOSELY if self._place < 2 else RARELY * random.uniform(0.75, 1.25)
        return min(self._lifetime / 3, often)

    async def look(self) -> None:
        """Find out who leads, and do what falls to this worker."""
        tried: set[str] = set()
        while True:
            oldest = self._store.sessions(limit=2)
            ids = [session.id for session in oldest]
            self._place = ids.index(self._mine()) if self._mine() in ids else 2
            untried = [session for session in oldest if session.id not in tried]
            if not await self._take_over(untried):  # else somebody has moved up
                break
            tried.update(
                ids
            )  # one that is still there, such as a damaged row, must not keep this worker here
        hung = time.monotonic() - self._looked_at_all > self._lifetime / 3
        if self.leads or (
            self._place == 1 and hung
        ):  # a leader that hangs may be alive and do nothing
            await self.look_after_all()

    async def look_after_all(self) -> None:
        """Do for all what one must do, whoever leads."""
        self._looked_at_all = time.monotonic()
        await self._take_over(self._store.sessions())
        await self.see_to_what_is_due()

    async def see_to_what_is_due(self) -> None:
        """End what is past its deadline and held by nobody, start what schedules want started, let
        time move managed flows, settle graphs of which nobody else has seen to the news, delete
        what is left of stages and pruned graphs."""
        look, now = self._store.next_look(), self._store.now()
        ops: list[Operation] = []
        if _is_due(look.deadline, now):
            ops.append(ExpireRuns())
        if _is_due(look.schedule, now):
            ops.append(FireSchedules(new_id))
        if _is_due(look.attempt, now):
            ops.append(ExpireAttempts(random.random()))
        if _is_due(look.stage, now):
            ops.append(SweepStages())
        if look.graph is not None:
            self._settle()
        await asyncio.gather(*map(self._attempt, ops))
        while _is_due(look.flow, now):
            woken: FlowsWoken | None = await self._attempt(WakeFlows())
            if woken is None or not woken.more:
                return

    async def _attempt(self, op: Operation) -> Any:
        """Apply a transition and return its answer, None if a damaged row prevents it."""
        return await self._around_damage(self._writer.submit(op))

    async def _around_damage(self, duty: Awaitable[Any]) -> Any:
        """Do a duty and return its answer. A row that is damaged and cannot be set aside stops this
        duty alone: the others are done all the same, and the answer is None."""
        try:
            return await duty
        except RowDamaged as damage:
            if str(damage) not in self._reported:
                self._reported.add(str(damage))
                log.warning(
                    "a duty of the worker is not done, because of a damaged row: %s", damage
                )
            return None

    async def _take_over(self, sessions: Iterable[Session]) -> bool:
        """End those whose process is gone, or silent for too long; what they held can be claimed.
        Say whether there were any."""
        now, found = self._store.now(), False
        for session in sessions:
            if session.id == self._mine() or not session_is_dead(self._store, session, now):
                continue
            found = True
            freed = await self._around_damage(end_session(self._writer, session.id, crashed=True))
            if freed:
                log.info("took over %d runs of worker %s, which is gone", freed, session.worker)
            self._freed()
        return found


async def end_session(writer: GroupCommit, session_id: str, *, crashed: bool) -> int:
    """Free all that a session holds, in as many transactions as that takes; return how many runs
    that were."""
    freed, ends = 0, session_id
    while ends:
        answer = await writer.submit(EndSession(ends, crashed=crashed))
        freed += len(answer)
        ends = answer.rest
    return freed


def _is_due(instant: int | None, now: int) -> bool:
    return instant is not None and instant <= now
