"""Notify whatever waits in this process of commits: at once of its own, of others by polling.

A listener subscribes to one topic:

- ``ResultReady(id)``: a run or graph has ended;
- ``WorkReady``: there may be claimable runs;
- ``Committed``: anything was committed.

Commits of this process are reported by group commit. Commits of other processes are reported by the
poller, and then every listener is notified, because only the store knows what changed. So a
notification is a hint to check, and a wait also ends without one when the next check is due.

Invariants:
- A listener is notified of every commit after its creation: check, then wait, and no commit is
  missed in between.
- Listeners are called by the committing thread and must not block it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any, NamedTuple

from holdfast.engine.runtime.change_poller import ChangePoller
from holdfast.engine.runtime.loop_inbox import LoopInbox
from holdfast.store.database import NO_HINTS, Hints
from holdfast.store.store import Store

log = logging.getLogger("holdfast")


class ResultReady(NamedTuple):
    """The topic of the end of a run or graph."""

    id: str


class WorkReady:
    """The topic of claimable runs. The class itself is the topic."""


class Committed:
    """The topic of all commits. The class itself is the topic."""


Topic = ResultReady | type[WorkReady] | type[Committed]


class Pauses(NamedTuple):
    """How many seconds a listener waits without a notification."""

    first: float
    growth: float
    longest: float

    def longer(self, pause: float) -> float:
        """Return the pause after a pause that ended without a notification."""
        return min(max(pause, self.first) * self.growth, self.longest)


UNREPORTED: dict[type, Pauses] = {
    ResultReady: Pauses(0.002, 1.3, 0.05),
    WorkReady: Pauses(0.05, 1.0, 0.05),
    Committed: Pauses(0.005, 1.5, 0.05),
}
"""The pauses if no worker reports commits of other processes."""

REPORTED: dict[type, Pauses] = {
    ResultReady: Pauses(0.5, 2.0, 5.0),
    WorkReady: Pauses(0.05, 1.0, 0.05),  # runs that become due by time cause no notification
    Committed: Pauses(0.005, 1.5, 0.25),
}
"""The pauses if the worker of this process reports them."""

InThread = Callable[[Callable[[], None]], Awaitable[None]]
"""Makes a call in a thread."""


class CommitNotifier:
    """Dispatches commits to listeners, by topic."""

    def __init__(self, store: Store) -> None:
        self.on_commit: list[Callable[[Hints], None]] = []
        """Called with the hints of each commit of this process that has any, by the committing
        thread, before the listeners are notified."""
        self.poller = ChangePoller(store, self.changed)
        self._listeners: dict[Topic, tuple[Callable[[], None], ...]] = {}
        self._guard = threading.Lock()
        """Held while listeners are added and removed. Their tuples are replaced, never changed, so
        that a commit reads them without it."""
        self._inboxes: dict[asyncio.AbstractEventLoop, LoopInbox] = {}

    def subscribe(self, topic: Topic) -> Listener:
        """Return a listener that blocks its thread while it waits."""
        return Listener(self, topic)

    def subscribe_async(self, topic: Topic, in_thread: InThread | None = None) -> AsyncListener:
        """Return a listener for coroutines of the running loop.

        *in_thread* makes the calls that block; without it, the executor of the loop does.
        """
        return AsyncListener(self, topic, in_thread or _in_executor)

    def has_listener(self, topic: Topic) -> bool:
        """Return whether a listener has subscribed to *topic*."""
        return topic in self._listeners

    # Reports

    def committed(self, hints: Hints) -> None:
        """Report a commit of this process. May be called by any thread.

        A listener that fails must not prevent the others, nor the answers of the commit.
        """
        if hints is NO_HINTS:  # a step in sequence: only listeners of all commits want to know
            if Committed in self._listeners:
                self._notify(Committed)
            return
        for call in tuple(self.on_commit):  # a copy: other threads add and remove functions
            try:
                call(hints)
            except Exception:
                log.exception("a listener failed after a commit")
        listeners = self._listeners
        if not listeners:
            return
        if Committed in listeners:
            self._notify(Committed)
        if hints.ready and WorkReady in listeners:
            self._notify(WorkReady)
        for run_id in hints.finished:
            self._notify(ResultReady(run_id))

    def changed(self) -> None:
        """Report commits of other processes: all listeners are notified."""
        for topic in tuple(self._listeners):
            self._notify(topic)

    def _notify(self, topic: Topic) -> None:
        for notify in self._listeners.get(topic, ()):
            notify()

    # Used by listeners

    def add(self, topic: Topic, notify: Callable[[], None]) -> None:
        """Call *notify* for each commit of *topic*."""
        with self._guard:
            self._listeners[topic] = (*self._listeners.get(topic, ()), notify)

    def remove(self, topic: Topic, notify: Callable[[], None]) -> None:
        """Stop calling *notify*."""
        with self._guard:
            rest = tuple(call for call in self._listeners.get(topic, ()) if call != notify)
            if rest:
                self._listeners[topic] = rest
            else:
                self._listeners.pop(topic, None)

    def pauses(self, topic: Topic) -> Pauses:
        """Return the pauses of a listener of *topic*."""
        kind: type = ResultReady
        if isinstance(topic, type):
            kind = topic
        if self.poller.is_run_by_worker:
            return REPORTED[kind]
        return UNREPORTED[kind]

    def inbox_of(self, loop: asyncio.AbstractEventLoop) -> LoopInbox:
        """Return the inbox of a loop: one wake-up for all listeners that a commit notifies."""
        with self._guard:
            inbox = self._inboxes.get(loop)
            if inbox is None:
                for other in [other for other in self._inboxes if other.is_closed()]:
                    del self._inboxes[other]
                inbox = self._inboxes[loop] = LoopInbox(loop, float("inf"))
            return inbox


class Listener:
    """Waits for commits of a topic, from its creation on, in a thread."""

    __slots__ = ("_event", "_notifier", "_pause", "_topic")

    def __init__(self, notifier: CommitNotifier, topic: Topic) -> None:
        self._notifier = notifier
        self._topic = topic
        self._event = threading.Event()
        self._pause: float = notifier.pauses(topic).first
        notifier.add(topic, self._event.set)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until notified since the last call, or the next check is due.

        Wait for at most so many seconds. Return whether it was notified.
        """
        pause = self._pause
        is_whole = seconds is None or seconds > pause
        if seconds is not None and not is_whole:
            pause = seconds  # a wait that is cut short says nothing about the next pause
        notified = self._poll_for(pause) if self._topic is WorkReady else self._event.wait(pause)
        pauses = self._notifier.pauses(self._topic)
        if notified:
            # Before the caller's check, not after it: a commit during the check must set it again.
            self._event.clear()
            self._pause = pauses.first
        elif is_whole:
            self._pause = pauses.longer(self._pause)
        return notified

    def _poll_for(self, seconds: float) -> bool:
        """Wait, and poll meanwhile if it is this listener's turn."""
        poller = self._notifier.poller
        if not poller.begin_turn():
            return self._event.wait(seconds)
        end = time.monotonic() + seconds
        try:
            while (left := end - time.monotonic()) > 0:
                if self._event.wait(min(poller.pause(), left)):
                    return True
                poller.poll_or_listen()
        finally:
            poller.end_turn()
        return self._event.is_set()

    def close(self) -> None:
        """Stop listening."""
        self._notifier.remove(self._topic, self._event.set)


class AsyncListener:
    """Waits for commits of a topic, from its creation on, in a coroutine of one loop."""

    __slots__ = (
        "_future",
        "_in_thread",
        "_inbox",
        "_is_notified",
        "_loop",
        "_notifier",
        "_pause",
        "_topic",
    )

    def __init__(self, notifier: CommitNotifier, topic: Topic, in_thread: InThread) -> None:
        self._notifier = notifier
        self._topic = topic
        self._in_thread = in_thread
        self._loop = asyncio.get_running_loop()
        self._inbox = notifier.inbox_of(self._loop)
        self._future: asyncio.Future[None] | None = None
        self._is_notified = False
        self._pause: float = notifier.pauses(topic).first
        notifier.add(topic, self._notify)

    def __await__(self) -> Generator[Any, Any, bool]:
        return self.wait().__await__()

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait as ``Listener.wait`` does."""
        pause = self._pause
        is_whole = seconds is None or seconds > pause
        if seconds is not None and not is_whole:
            pause = seconds  # a wait that is cut short says nothing about the next pause
        if self._is_notified:
            await asyncio.sleep(0)  # a coroutine that is always notified must leave the loop a turn
        elif self._topic is WorkReady:
            await self._poll_for(pause)
        else:
            await self._sleep(pause)
        notified = self._is_notified
        pauses = self._notifier.pauses(self._topic)
        # Before the caller's check, not after it: a commit during the check must set it again.
        self._is_notified = False
        if notified:
            self._pause = pauses.first
        elif is_whole:
            self._pause = pauses.longer(self._pause)
        return notified

    async def _poll_for(self, seconds: float) -> None:
        """Sleep, and poll meanwhile if it is this listener's turn."""
        poller = self._notifier.poller
        if not poller.begin_turn():
            await self._sleep(seconds)
            return
        end = self._loop.time() + seconds
        try:
            while (left := end - self._loop.time()) > 0 and not self._is_notified:
                await self._sleep(min(poller.pause(), left))
                if not self._is_notified:
                    await self._in_thread(poller.poll_or_listen)
        finally:
            poller.end_turn()

    async def _sleep(self, seconds: float) -> None:
        """Return when notified, or after so many seconds. Saves the task of ``asyncio.wait_for``,
        which also loses a cancellation that coincides with the notification (Python 3.11)."""
        self._future = self._loop.create_future()
        timer = self._loop.call_later(seconds, self._release)
        try:
            await self._future
        finally:
            timer.cancel()

    def _notify(self) -> None:
        try:
            self._inbox.post(self._wake)
        except RuntimeError:  # the loop is closed, and with it every waiter
            self.close()

    def _wake(self) -> None:
        self._is_notified = True
        self._release()

    def _release(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def close(self) -> None:
        """Stop listening."""
        self._notifier.remove(self._topic, self._notify)


async def _in_executor(call: Callable[[], None]) -> None:
    await asyncio.get_running_loop().run_in_executor(None, call)
