"""The threads of a worker in which the code of ``def`` workflows runs, and their way back.

A run of a ``def`` workflow occupies a thread while it is in memory. Its threads are used again by
later runs, and all that they report to the worker's loop in one turn wakes it once and shares a
commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.engine.runtime.group_commit import GroupCommit
from holdfast.engine.runtime.inline_task import Completion
from holdfast.engine.runtime.loop_inbox import LoopInbox
from holdfast.engine.runtime.thread_pool import ThreadPool

SLICE = 0.01
"""Seconds for which one callback on the worker's loop takes reports; the rest waits for its next
turn."""


class WorkerCodeThreads:
    """The threads for workflow code of one worker; it implements ``CodeThreads``."""

    __slots__ = ("_inbox", "_pool", "new_pause", "post", "start")

    def __init__(self, loop: asyncio.AbstractEventLoop, writer: GroupCommit) -> None:
        self._pool: ThreadPool = ThreadPool("holdfast workflow")
        self._inbox: LoopInbox = LoopInbox(loop, SLICE)
        self._inbox.open_waker()
        self._inbox.before = writer.hold_back
        self._inbox.after = writer.release
        self.start: Callable[[Callable[[], None]], None] = self._pool.start
        self.post: Callable[..., None] = self._inbox.post
        # A completion resumes the execution within the turn in which its program is idle again.
        self.new_pause: Callable[[], Completion] = Completion

    def close(self) -> None:
        """End the idle threads; the others end with their runs."""
        self._pool.close()
        self._inbox.close()


__all__ = ["WorkerCodeThreads"]
