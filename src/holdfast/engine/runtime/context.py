"""What a driver needs of the worker that holds its run."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from holdfast.core.budgets.model import BudgetLine
from holdfast.core.codec import Codec
from holdfast.core.program import Definition
from holdfast.core.runs import NewRun, Route
from holdfast.engine.runtime.capacity import Capacity
from holdfast.engine.runtime.eager_task import EagerTasks
from holdfast.engine.runtime.group_commit import GroupCommit
from holdfast.engine.runtime.long_steps import LongSteps
from holdfast.engine.runtime.program_loop import ProgramLoop
from holdfast.engine.runtime.thread_pool import ThreadPool
from holdfast.engine.runtime.timer_queue import TimerQueue
from holdfast.payloads.sealer import PayloadSealer
from holdfast.store.contract import Operation, Store


class WorkerContext(Protocol):
    """The worker, as its drivers see it."""

    store: Store
    writer: GroupCommit
    codec: Codec
    sealer: PayloadSealer
    alarms: TimerQueue
    long_steps: LongSteps
    hands: EagerTasks
    threads: ThreadPool
    loop: asyncio.AbstractEventLoop
    capacity: Capacity
    program_loop: ProgramLoop | None
    """Where async user code runs, if not on the worker's own loop."""
    session_id: str
    stopping: bool
    linger: int
    """Microseconds for which a waiting run stays in memory."""
    stream_window: float
    """Seconds for which output waits for company."""
    seen_lines: dict[tuple[str, ...], list[BudgetLine]]
    """How budgets stand, as somebody saw it in this turn of the loop."""
    captures: bool
    """Whether what steps print and log is part of their output."""

    async def ask(self, op: Operation) -> Any:
        """Commit a transition for a coroutine of user code, on whichever loop that runs, and return
        the answer."""

    def learn(self, definition: Definition) -> None:
        """Remember a workflow that is started as a child: then it can be run here."""

    def settle_soon(self) -> None:
        """Settle graphs in the transaction that is about to be: it ends a member."""

    def lease_for(self, route: Route) -> str | None:
        """Return this session's id if a new run of that route can be born leased to it."""

    def lease_member(self, route: Route) -> str | None:
        """The same for a member of a graph, inside the transaction in which it is born."""

    def may_reach(self, run_id: str) -> bool:
        """Return whether runs that are held here may signal and cancel that run: not from one
        namespace into another."""

    def adopt(self, run: NewRun, created_at: int) -> None:
        """Go on with a run that was born leased to this session."""

    def keeps_waiting(self, lane: str) -> bool:
        """Say whether runs of that lane may stay in memory while they wait."""

    def is_sure(self) -> bool:
        """Return whether no other worker can have taken this session over. Any thread may ask."""

    def is_abandoned(self) -> bool:
        """Return whether the loop has cancelled the worker's own tasks, as ``asyncio.run`` does at
        its end."""

    def is_shut_out(self, error: Exception) -> bool:
        """Return whether the database was encrypted after it was opened here without keys: then
        this worker lets go of all."""

    def doubt(self) -> object:
        """Ask, soon, whether somebody has; if so, let go of all its runs."""

    async def make_sure(self) -> None:
        """Return when it is known that no other worker has. Else what waits here for one of its
        runs is cancelled. Raises EngineClosed."""
