"""Keep the session of a worker alive, and know how certain it is that it is.

A session that sends no heartbeat for its lifetime may be taken over by another worker. A process
that was suspended meanwhile does not know: it must not begin a step before it has verified that the
session still is its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

from holdfast.core.program import Definition
from holdfast.core.sessions import Session
from holdfast.engine.runtime.group_commit import GroupCommit
from holdfast.engine.runtime.ids import new_id
from holdfast.engine.runtime.notifier import CommitNotifier
from holdfast.engine.runtime.settings import WorkerSettings
from holdfast.engine.runtime.stored_definitions import StoredDefinitions
from holdfast.engine.worker.session import session_of
from holdfast.store.clock import uptime
from holdfast.store.runs.operations import Heartbeat, OpenSession
from holdfast.store.store import Store

KEEP_EVERY = 0.5
"""Seconds between two checks of the lock by which others see that this process is alive."""


class SessionContext(Protocol):
    """The worker, as its session sees it."""

    store: Store
    writer: GroupCommit
    notifier: CommitNotifier
    settings: WorkerSettings
    loop: asyncio.AbstractEventLoop
    session_id: str
    stored_definitions: StoredDefinitions

    def definitions(self) -> Mapping[str, Definition]:
        """Return the workflows that this process can execute, by name."""

    def recover_orphans(self) -> None:
        """Start runs that are leased to this session but have no execution."""

    def guarded(self, job: Callable[[], Any]) -> Coroutine[Any, Any, None]:
        """Run a job, and start it again after errors."""

    async def declare_all(self) -> None:
        """Write what the code declares."""

    async def replace_session(self) -> None:
        """Drop all executions and open a new session."""


class SessionKeeper:
    """Opens the session of a worker and sends its heartbeats."""

    def __init__(
        self, context: SessionContext, on_remote_commit: Callable[[str | None], None]
    ) -> None:
        self._context: SessionContext = context
        self._on_remote_commit: Callable[[str | None], None] = on_remote_commit
        """Dispatches a notification of another process."""
        self.slot: int = -1
        """The lock by which other processes see that this one is alive."""
        self.seen_notification: int = 0
        self.verification: asyncio.Task[None] | None = None
        self._sure_until: float = 0.0
        self._served: tuple[tuple[str, ...], Mapping[str, list[str]]] = ((), {})

    async def open(self) -> None:
        """Open a new session."""
        # A new id, also after a takeover: runs that the old session held are not those of this one.
        self._context.session_id = new_id()
        self.seen_notification = 0
        sure_until = self._lease_from_now()
        await self._context.writer.submit(OpenSession(self._described()))
        self._context.notifier.poller.is_notified = self._context.store.listen(
            self._context.session_id, self._on_remote_commit
        )
        self._sure_until = sure_until

    async def beat_forever(self) -> None:
        """Send heartbeats, and keep the lock, for ever."""
        interval = self._context.settings.session_ttl / 3_000_000
        due = self._context.loop.time() + interval
        while True:
            await asyncio.sleep(min(interval, KEEP_EVERY))
            if self._context.store.liveness.keep(self.slot) and self._context.loop.time() < due:
                continue  # without the lock only heartbeats show that this process is alive
            due = self._context.loop.time() + interval
            await self.beat()
            self._context.recover_orphans()

    async def beat(self) -> None:
        """Send a heartbeat. If the session was taken over, replace it."""
        # Before the write, not after: the process may be suspended while it waits for the answer.
        sure_until = self._lease_from_now()
        session_id = self._context.session_id
        alive = await self._context.writer.submit(
            Heartbeat(session_id, self._context.settings.session_ttl, self.seen_notification)
        )
        if session_id != self._context.session_id:
            return  # a concurrent heartbeat has found out, and opened the next session
        if not alive:
            await self._context.replace_session()
            return
        self._sure_until = sure_until
        if self._offer() != self._served:
            await self._context.writer.submit(OpenSession(self._described()))
            await self._context.declare_all()

    def _lease_from_now(self) -> float:
        """Return until when no other worker can take over a session that sends a heartbeat now.

        By this process's own clock; a fifth of the lifetime is kept as a margin.
        """
        return uptime() + 0.8 * self._context.settings.session_ttl / 1_000_000

    def is_certain(self) -> bool:
        """Return whether this session is certainly alive: its last heartbeat is recent.

        A process that was suspended meanwhile is not certain.
        """
        return uptime() < self._sure_until

    def verify(self) -> asyncio.Task[None]:
        """Verify that this session is alive; if it is not, drop all its executions."""
        self._sure_until = 0.0
        if self.verification is None or self.verification.done():
            self.verification = self._context.loop.create_task(self._context.guarded(self.beat))
        return self.verification

    async def ensure(self) -> None:
        """Return when this session is certainly alive; otherwise the caller is cancelled. Raises
        EngineClosed."""
        # A loop: the session may be in doubt again before this coroutine resumes.
        while not self.is_certain():
            self._context.writer.refuse_when_closed()
            await asyncio.shield(self.verify())

    def _described(self) -> Session:
        self._served = self._offer()
        return session_of(
            self._context.session_id,
            self.slot,
            self._context.settings,
            self._context.definitions(),
            self._context.stored_definitions.versions(),
            self._context.store.now(),
        )

    def _offer(self) -> tuple[tuple[str, ...], Mapping[str, list[str]]]:
        """Return what the session says about the workflows that it serves."""
        served = tuple(sorted(self._context.definitions()))
        return served, self._context.stored_definitions.versions()
