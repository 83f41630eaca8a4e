"""Pass commits on to the executions and jobs of a worker that they concern.

A commit of this process carries ``Hints``. A commit of another process is found by a poll, or
announced by the database; the notifications of the session then tell which runs to check.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Protocol

from holdfast.engine.execution.execution import RunExecution, notify_all
from holdfast.engine.maintenance.graphs import GraphResolver
from holdfast.engine.maintenance.webhooks import WebhookDispatcher
from holdfast.engine.runtime.group_commit import GroupCommit
from holdfast.engine.runtime.notifier import CommitNotifier
from holdfast.engine.runtime.settings import WorkerSettings
from holdfast.engine.worker.claim_loop import ClaimLoop
from holdfast.engine.worker.session_keeper import SessionKeeper
from holdfast.store.database import Hints, SignalArrived
from holdfast.store.store import Store


class DispatchContext(Protocol):
    """The worker, as the dispatcher of commits sees it."""

    store: Store
    writer: GroupCommit
    notifier: CommitNotifier
    settings: WorkerSettings
    loop: asyncio.AbstractEventLoop
    executions: dict[str, RunExecution]
    claims: ClaimLoop
    session: SessionKeeper
    session_id: str
    graph_resolver: GraphResolver
    webhooks: WebhookDispatcher


class CommitDispatcher:
    """Tells the parts of a worker which commits concern them."""

    def __init__(self, context: DispatchContext) -> None:
        self._context: DispatchContext = context

    def attach(self) -> None:
        """Receive the commits of this process, and poll for those of others."""
        self._context.notifier.on_commit.append(self._on_commit)
        self._context.notifier.poller.attach()

    def detach(self) -> None:
        """Receive nothing more. May be called before ``attach``."""
        self._context.notifier.poller.detach()
        if self._on_commit in self._context.notifier.on_commit:
            self._context.notifier.on_commit.remove(self._on_commit)

    def _on_commit(self, hints: Hints) -> None:
        """Dispatch the notifications of a commit of this process. May be called by any thread."""
        context = self._context
        context.claims.route_cache.note_commit(hints)
        if not (
            hints.ready or hints.runs or hints.delivered or hints.subscriptions or hints.graphs
        ):
            return
        with suppress(RuntimeError):  # the loop is closed
            if hints.graphs:
                context.loop.call_soon_threadsafe(context.graph_resolver.wake)
            if hints.subscriptions:
                context.loop.call_soon_threadsafe(context.webhooks.wake)
            dispatch = partial(self._dispatch, hints.ready, list(hints.runs), hints.delivered)
            # In the turn of the commit, if the loop's thread commits: saves a turn of the loop.
            if not context.writer.call_after(dispatch):
                context.loop.call_soon_threadsafe(dispatch)

    def _dispatch(
        self, ready: bool, runs: Iterable[str], delivered: Iterable[SignalArrived] = ()
    ) -> None:
        executions = self._context.executions
        if ready:
            self._context.claims.ready.set()
        notify_all(
            self._context.store,
            [execution for run_id in runs if (execution := executions.get(run_id)) is not None],
        )
        for arrival in delivered:
            if (execution := executions.get(arrival.run_id)) is not None:
                execution.receive_signal(arrival)

    def on_remote_commit(self, run_id: str | None) -> None:
        """Dispatch a notification of another process: for a run of this worker, or for anything
        else.

        May be called by any thread.
        """
        loop = self._context.loop
        with suppress(RuntimeError):  # the loop is closed
            if run_id is None:
                loop.call_soon_threadsafe(self._context.notifier.poller.notify)
            else:
                loop.call_soon_threadsafe(self._dispatch, False, [run_id])

    async def poll_forever(self) -> None:
        """Poll for commits of other processes."""
        context = self._context
        poller = context.notifier.poller
        while True:
            await poller.wait(context.settings.poll_interval, context.settings.idle_poll_interval)
            if not poller.poll():
                continue
            # A poll tells only that something was committed: it may be a route, a lane or a run.
            context.claims.route_cache.stale = True
            context.claims.ready.set()
            for number, run_id in context.store.sessions.notifications(
                context.session_id, context.session.seen_notification
            ):
                context.session.seen_notification = number
                self._dispatch(False, [run_id])
