"""What a driver needs of the worker that holds its run."""

from __future__ import annotations

import asyncio
from typing import Protocol

from holdfast.core.codec import Codec
from holdfast.core.program import Definition
from holdfast.core.records import Allowance, NewRun, Route
from holdfast.engine.alarms import Alarms
from holdfast.engine.hands import Hands
from holdfast.engine.payloads.vault import Vault
from holdfast.engine.threads import Threads
from holdfast.engine.writer import Writer
from holdfast.store.contract import Store


class Host(Protocol):
    """The worker, as its drivers see it."""

    store: Store
    writer: Writer
    codec: Codec
    vault: Vault
    alarms: Alarms
    hands: Hands
    threads: Threads
    loop: asyncio.AbstractEventLoop
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

    def learn(self, definition: Definition) -> None:
        """Remember a workflow that is started as a child: then it can be run here."""

    def settle_soon(self) -> None:
        """Settle graphs in the transaction that is about to be: it ends a member."""

    def lease_for(self, route: Route) -> str | None:
        """Return this session's id if a new run of that route can be born leased to it."""

    def adopt(self, run: NewRun, created_at: int) -> None:
        """Go on with a run that was born leased to this session."""

    def keeps_waiting(self, lane: str) -> bool:
        """Say whether runs of that lane may stay in memory while they wait."""

    def is_sure(self) -> bool:
        """Say whether nobody can have taken this session over."""

    def doubt(self) -> object:
        """Ask, soon, whether somebody has; if so, let go of all its runs."""

    async def make_sure(self) -> None:
        """Return when it is known that nobody has. Else whoever waits here for one of its runs is cancelled."""
