"""The services of the worker that its executions use."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from holdfast.core.budgets.model import BudgetLine
from holdfast.core.codec import Codec
from holdfast.core.program import Definition
from holdfast.core.runs import NewRun, Route
from holdfast.engine.runtime.capacity import Capacity
from holdfast.engine.runtime.code_threads import WorkerCodeThreads
from holdfast.engine.runtime.eager_task import EagerTasks
from holdfast.engine.runtime.group_commit import GroupCommit
from holdfast.engine.runtime.long_steps import LongSteps
from holdfast.engine.runtime.program_loop import ProgramLoop
from holdfast.engine.runtime.stored_definitions import StoredDefinitions
from holdfast.engine.runtime.thread_pool import ThreadPool
from holdfast.engine.runtime.timer_queue import TimerQueue
from holdfast.payloads.sealer import PayloadSealer
from holdfast.store.database import Operation
from holdfast.store.store import Store


class WorkerContext(Protocol):
    """The worker, as its executions see it."""

    store: Store
    writer: GroupCommit
    codec: Codec
    sealer: PayloadSealer
    timers: TimerQueue
    long_steps: LongSteps
    eager_tasks: EagerTasks
    threads: ThreadPool
    code_threads: WorkerCodeThreads
    loop: asyncio.AbstractEventLoop
    capacity: Capacity
    program_loop: ProgramLoop | None
    """Where async user code runs, if not on the worker's own loop."""
    session_id: str
    stopping: bool
    idle_timeout: int
    """Microseconds for which a waiting run stays in memory."""
    stream_window: float
    """Seconds for which output is buffered."""
    lines_of_turn: dict[tuple[str, ...], list[BudgetLine]]
    """The budget lines that an execution has read in this turn of the loop."""
    stored_definitions: StoredDefinitions
    """Finds the definitions of runs, and knows which are stored."""
    captures: bool
    """Whether the prints and logs of steps are part of their output."""
    keeps_args: bool
    """Whether the arguments of steps are recorded."""

    async def ask(self, op: Operation) -> Any:
        """Commit an operation for a coroutine of user code, on whichever loop it runs; return
        the answer."""

    def definition(self, namespace: str, workflow: str, version: str) -> Definition | None:
        """Return the definition that executes runs of this workflow and version: one that the
        process has, else one that is stored; None if there is none."""

    def learn(self, definition: Definition) -> None:
        """Register a workflow that is started as a child, so that it can run here."""

    def resolve_graphs_with_commit(self) -> None:
        """Resolve graphs in the transaction that is about to be committed: it ends a member."""

    def lease_for(self, route: Route) -> str | None:
        """Return this session's id if a new run of that route can be leased to it at its start."""

    def lease_member(self, route: Route) -> str | None:
        """Return the same for a graph member, inside the transaction that starts it."""

    def may_reach(self, run_id: str) -> bool:
        """Return whether runs of this worker may signal and cancel that run: not across
        namespaces."""

    def adopt(self, run: NewRun, created_at: int) -> None:
        """Execute a run that was leased to this session at its start."""

    def may_stay_in_memory(self, lane: str) -> bool:
        """Return whether runs of that lane may stay in memory while they wait."""

    def session_is_certain(self) -> bool:
        """Return whether no other worker can have taken this session over. May be called by any
        thread."""

    def is_abandoned(self) -> bool:
        """Return whether the loop has cancelled the worker's own tasks, as ``asyncio.run`` does
        at its end."""

    def is_shut_out(self, error: Exception) -> bool:
        """Return whether the database was encrypted after it was opened here without keys.

        If so, this worker releases all its runs.
        """

    def waits(self, execution: object) -> None:
        """Note that an execution waits for something that takes its time."""

    def verify_session(self) -> object:
        """Check soon whether another worker has taken this session over; if so, drop all its
        runs."""

    async def ensure_session(self) -> None:
        """Return when it is certain that no other worker has taken this session over.

        Otherwise the waiting code of its runs is cancelled. Raises EngineClosed.
        """
