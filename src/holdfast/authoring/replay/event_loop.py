"""The asyncio event loop of an ``async def`` workflow.

Invariants:
- The loop has no sockets, no threads and no clock of its own.
- It runs callbacks until none is ready and then returns, so the same outcomes in the same order
  always take the same path.
- Timers of asyncio (``asyncio.timeout``, ``asyncio.sleep``) become durable timers of the run.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import events
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any

from holdfast.authoring.replay.identity import enter_branch
from holdfast.errors import BadOption

threads_here: ContextVar[bool] = ContextVar("holdfast_threads_here", default=False)
"""Whether ``run_in_executor`` calls the function inline, for a library that uses a thread for code
without I/O."""

SetTimer = Callable[[float, Callable[[], None]], Callable[[], None]]
"""Sets a durable timer: takes the delay in seconds and a callback, returns a function that drops
the timer."""


class WorkflowLoop(asyncio.AbstractEventLoop):
    """An event loop that runs until it is idle and then returns.

    It implements only the methods that workflow code may use; the others raise
    ``NotImplementedError``.
    """

    def __init__(self, time: Callable[[], float], set_timer: SetTimer) -> None:
        self._ready: list[asyncio.Handle] = []  # a deque takes 600 bytes when it is empty
        self._time = time
        self._set_timer = set_timer
        self.tasks: dict[asyncio.Task[Any], Context] = {}
        self.last_error: BaseException | None = None
        """The last exception that reached the loop because no code retrieved it."""
        self.library_cleanup = False
        """Whether libraries run in this loop: they await during their cleanup, so they get the
        chance to finish it when the run leaves memory."""
        self._outer_hooks: Any = (None, None)

    def run_until_idle(self) -> None:
        """Run the ready callbacks until none is left, including callbacks that become ready."""
        if not self._ready:
            return
        # Private API of asyncio: this loop runs nested, inside a callback of the engine's loop.
        outer_loop = events._get_running_loop()
        events._set_running_loop(self)
        if self.library_cleanup:
            self._set_hooks()
        try:
            while self._ready:
                ready = self._ready
                self._ready = []  # for callbacks that become ready meanwhile: they come later
                for handle in ready:
                    if not handle._cancelled:
                        try:
                            handle._run()
                        except (KeyboardInterrupt, SystemExit) as error:
                            # The task has failed with it, so the code that awaits the task gets it.
                            self.last_error = error
        finally:
            events._set_running_loop(outer_loop)
            if self.library_cleanup:
                sys.set_asyncgen_hooks(*self._outer_hooks)

    def enable_library_cleanup(self) -> None:
        """Let libraries finish their asynchronous cleanup in this loop from now on."""
        if not self.library_cleanup:
            self.library_cleanup = True
            if events._get_running_loop() is self:
                self._set_hooks()  # until the end of this turn: see run_until_idle

    def _set_hooks(self) -> None:
        self._outer_hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(None, _finalize_generator)

    def unwind(self) -> None:
        """Run until idle, then cancel every task and run until idle again.

        A task that does not end upon its cancellation remains.
        """
        self.run_until_idle()
        for task in list(self.tasks):
            task.cancel()
        self.run_until_idle()

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
        # The name of the coroutine function becomes part of the identities of the task's steps.
        context.run(enter_branch, getattr(coro, "__name__", "task"))
        return self.own(asyncio.Task(coro, loop=self, name=name, context=context), context)

    def own(self, task: asyncio.Task[Any], context: Context) -> asyncio.Task[Any]:
        """Keep a reference to *task* and its context until the task is done."""
        self.tasks[task] = context
        task.add_done_callback(lambda done: self.tasks.pop(done, None))
        return task

    def get_task_factory(self) -> None:
        """Return None, because ``create_task`` is the only factory; libraries call this."""

    get_debug = staticmethod(bool)  # always False; asyncio calls it for each future and handle

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep the exception of a workflow task that no code retrieved."""
        self.last_error = context.get("exception") or self.last_error

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        drop = getattr(handle, "drop", None)
        if drop is not None:
            drop()

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        if threads_here.get():
            return self._run_inline(func, args)
        raise BadOption(
            option="run_in_executor", why="a workflow has no threads: put the work into a step"
        )

    def _run_inline(self, func: Callable[..., Any], args: tuple[Any, ...]) -> asyncio.Future[Any]:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def close(self) -> None:
        """Close every coroutine of the workflow; ``finally`` blocks run, but can record nothing."""
        for task, context in list(self.tasks.items()):
            # Private API of asyncio: no warning about a task that is destroyed while pending.
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine = task.get_coro()
            try:
                context.run(coroutine.close)
            except BaseException:  # the workflow refuses to stop, but leaves memory all the same
                continue
        self._ready.clear()
        # The loop must not keep the program alive through these callbacks.
        self._time = _raise_closed
        self._set_timer = _raise_closed


def _finalize_generator(generator: AsyncGenerator[Any, Any]) -> None:
    """Close an abandoned asynchronous generator here, not in a task of the engine's own loop."""
    with suppress(BaseException):
        generator.aclose().send(None)


def _raise_closed(*_: object) -> Any:
    raise RuntimeError("the workflow has left memory")


class _DurableTimer(asyncio.TimerHandle):
    drop: Callable[[], None] | None = None

    def cancel(self) -> None:
        if not self._cancelled and self.drop is not None:
            self.drop()
        super().cancel()
