"""What a driver needs of the worker that holds its run."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from holdfast.core.codec import Codec
from holdfast.core.program import Definition
from holdfast.core.records import Allowance, NewRun, Route
from holdfast.engine.alarms import Alarms
from holdfast.engine.capacity import Capacity
from holdfast.engine.hands import Hands
from holdfast.engine.long_steps import LongSteps
from holdfast.engine.payloads.vault import Vault
from holdfast.engine.program_loop import ProgramLoop
from holdfast.engine.threads import Threads
from holdfast.engine.writer import Writer
from holdfast.store.contract import Store, Transition


class Host(Protocol):
    """The worker, as its drivers see it."""

    store: Store
    writer: Writer
    codec: Codec
    vault: Vault
    alarms: Alarms
    long_steps: LongSteps
    hands: Hands
    threads: Threads
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
    seen_lines: dict[tuple[str, ...], list[Allowance]]
    """How budgets stand, as somebody saw it in this turn of the loop."""
    captures: bool
    """Whether what steps print and log is part of their output."""

    async def ask(self, op: Transition) -> Any:
        """Commit a transition for a coroutine of user code, on whichever loop that runs, and return the answer."""

    def learn(self, definition: Definition) -> None:
        """Remember a workflow that is started as a child: then it can be run here."""

    def settle_soon(self) -> None:
        """Settle graphs in the transaction that is about to be: it ends a member."""

    def lease_for(self, route: Route) -> str | None:
        """Return this session's id if a new run of that route can be born leased to it."""

    def lease_member(self, route: Route) -> str | None:
        """The same for a member of a graph, inside the transaction in which it is born."""

    def may_reach(self, run_id: str) -> bool:
        """Return whether runs that are held here may signal and cancel that run: not from one namespace into another."""

    def adopt(self, run: NewRun, created_at: int) -> None:
        """Go on with a run that was born leased to this session."""

    def keeps_waiting(self, lane: str) -> bool:
        """Say whether runs of that lane may stay in memory while they wait."""

    def is_sure(self) -> bool:
        """Return whether no other worker can have taken this session over. Any thread may ask."""

    def is_abandoned(self) -> bool:
        """Return whether the loop has cancelled the worker's own tasks, as ``asyncio.run`` does at its end."""

    def is_shut_out(self, error: Exception) -> bool:
        """Return whether the database was encrypted after it was opened here without keys: then this worker lets go of all."""

    def doubt(self) -> object:
        """Ask, soon, whether somebody has; if so, let go of all its runs."""

    async def make_sure(self) -> None:
        """Return when it is known that no other worker has. Else what waits here for one of its runs is cancelled. Raises
        EngineClosed."""
