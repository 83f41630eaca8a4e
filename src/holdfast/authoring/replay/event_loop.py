"""The event loop in which an ``async def`` workflow lives: no sockets, no threads, no clock of its
own.

It runs callbacks until nothing is ready and then stops, so that the same outcomes in the same order
always take the same path. Timers of asyncio (``asyncio.timeout``, ``asyncio.sleep``) become durable
timers of the run.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import events
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any

from holdfast.authoring.replay.identity import enter_branch
from holdfast.errors import BadOption

threads_here: ContextVar[bool] = ContextVar("holdfast_threads_here", default=False)
"""Whether what a library would do in a thread, though it is only code, is done right here."""

SetTimer = Callable[[float, Callable[[], None]], Callable[[], None]]


class WorkflowLoop(asyncio.AbstractEventLoop):
    """A loop that goes as far as it can and then returns. Whatever it does not offer is not for
    workflows."""

    def __init__(self, time: Callable[[], float], set_timer: SetTimer) -> None:
        self._ready: deque[asyncio.Handle] = deque()
        self._time = time
        self._set_timer = set_timer
        self.tasks: dict[asyncio.Task[Any], Context] = {}
        self.trouble: BaseException | None = None
        self.gentle = False
        """Whether libraries live here, too: they clean up with awaits, and are given the time for
        it."""

    def settle(self) -> None:
        """Run what is ready, and what that makes ready, until nothing is."""
        ready = self._ready
        if not ready:
            return
        outer, hooks = events._get_running_loop(), sys.get_asyncgen_hooks()
        events._set_running_loop(self)
        if self.gentle:
            sys.set_asyncgen_hooks(None, _let_go)
        try:
            while ready:
                handle = ready.popleft()
                if not handle._cancelled:
                    try:
                        handle._run()
                    except (
                        KeyboardInterrupt,
                        SystemExit,
                    ) as error:  # its task has failed with it, and what awaits it hears of it
                        self.trouble = error
        finally:
            events._set_running_loop(outer)
            if self.gentle:
                sys.set_asyncgen_hooks(*hooks)

    def be_gentle(self) -> None:
        """From now on libraries live here, too."""
        if not self.gentle:
            self.gentle = True
            if events._get_running_loop() is self:
                sys.set_asyncgen_hooks(
                    None, _let_go
                )  # until the end of this turn, which puts back what was there

    def unwind(self) -> None:
        """Let what still waits end by itself, as far as it does."""
        self.settle()
        for task in list(self.tasks):
            task.cancel()
        self.settle()

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = _DurableTimer(self.time() + delay, callback, args, self, context)
        if delay <= 0:
            self._ready.append(handle)
        else:
            handle.drop = self._set_timer(delay, lambda: self._ready.append(handle))
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_later(when - self.time(), callback, *args, context=context)

    def time(self) -> float:
        """Return the time of the run, in seconds."""
        return self._time()

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        context: Context | None = None,
        **_: Any,
    ) -> asyncio.Task[Any]:
        context = copy_context() if context is None else context
        context.run(enter_branch, getattr(coro, "__name__", "task"))
        return self.own(asyncio.Task(coro, loop=self, name=name, context=context), context)

    def own(self, task: asyncio.Task[Any], context: Context) -> asyncio.Task[Any]:
        """Remember a task until it is done."""
        self.tasks[task] = context
        task.add_done_callback(lambda done: self.tasks.pop(done, None))
        return task

    def get_task_factory(self) -> None:
        """Tasks are made here, and nowhere else; libraries ask."""

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A task of the workflow failed and nobody asked: keep it for whoever settles."""
        self.trouble = context.get("exception") or self.trouble

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        drop = getattr(handle, "drop", None)
        if drop is not None:
            drop()

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        if threads_here.get():
            return self._done(func, args)
        raise BadOption(
            option="run_in_executor", why="a workflow has no threads: put the work into a step"
        )

    def _done(self, func: Callable[..., Any], args: tuple[Any, ...]) -> asyncio.Future[Any]:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def close(self) -> None:
        """Close every coroutine of the workflow; ``finally`` blocks run, but can record nothing."""
        for task, context in list(self.tasks.items()):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine = task.get_coro()
            try:
                context.run(coroutine.close)
            except BaseException:  # the workflow objects to leaving; it leaves all the same
                continue
        self._ready.clear()
        self._time = self._set_timer = _gone


def _let_go(generator: AsyncGenerator[Any, Any]) -> None:
    """Nobody goes on with an asynchronous generator: it ends here, and not in a task of the
    engine's own loop."""
    with suppress(BaseException):
        generator.aclose().send(None)


def _gone(*_: object) -> Any:
    """The workflow has left memory; what it had is not kept alive by its loop."""
    raise RuntimeError("the workflow has left memory")


class _DurableTimer(asyncio.TimerHandle):
    drop: Callable[[], None] | None = None

    def cancel(self) -> None:
        if not self._cancelled and self.drop is not None:
            self.drop()
        super().cancel()
