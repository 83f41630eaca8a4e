"""Run a coroutine that resumes within the same turn of the loop in which its awaitable completes.

An asyncio task resumes one turn later: a step would take three turns of the loop instead of one for
its commit, or instead of two if it waits for something itself.

Invariant: code that completes a `Completion` holds no lock and relies on nothing that the resumed
task might change, because the task runs inside that call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any

from holdfast.engine.runtime.eager_task import take_future


class Completion:
    """An awaitable result. One inline task waits for it, and resumes inside ``set_result``."""

    __slots__ = ("_answer", "_error", "_over", "_watcher", "task")

    def __init__(self) -> None:
        self.task: InlineTask | None = None
        self._over = False
        self._answer: Any = None
        self._error: BaseException | None = None
        self._watcher: asyncio.Future[None] | None = None

    def done(self) -> bool:
        """Return whether it is complete."""
        return self._over

    def set_result(self, answer: Any) -> None:
        """Complete it with an answer."""
        self._answer = answer
        if self._watcher is not None or self.task is None:
            self._end()
            return
        # The usual case: this saves a call per suspension.
        self._over = True
        task = self.task
        self.task = None
        task.resume()

    def set_exception(self, error: BaseException) -> None:
        """Complete it with an exception, which is raised in the waiting task."""
        self._error = error
        self._end()

    def as_future(self) -> asyncio.Future[None]:
        """Return a future that is done when this is complete, for code that is not an inline
        task."""
        if self._watcher is None:
            self._watcher = asyncio.get_running_loop().create_future()
        return self._watcher

    def _end(self) -> None:
        self._over = True
        if self._watcher is not None and not self._watcher.done():
            self._watcher.set_result(None)
        task = self.task
        self.task = None
        if task is not None:
            task.resume()

    def __await__(self) -> Generator[Completion, None, Any]:
        if not self._over:
            yield self
        if self._error is not None:
            raise self._error
        return self._answer


class InlineTask:
    """A running coroutine. It may await completions, which resume it at once, or any asyncio
    future."""

    __slots__ = ("_coroutine", "_done", "_loop", "_run", "_waits_for", "error", "over")

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, None],
        loop: asyncio.AbstractEventLoop,
        done: Callable[[InlineTask], None],
    ) -> None:
        self._coroutine = coroutine
        self._loop = loop
        self._done = done
        # An empty context: the caller that starts, claims or adopts a run may be inside a step.
        self._run = Context().run
        self._waits_for: Completion | asyncio.Future[Any] | None = None
        self.over: asyncio.Future[None] = loop.create_future()
        """Done when the coroutine has ended, in whatever way."""
        self.error: BaseException | None = None

    def start(self) -> None:
        """Let the coroutine begin in the next turn of the loop."""
        self._loop.call_soon(self.resume)

    def resume(self, _: object = None) -> None:
        """Run the coroutine up to its next suspension."""
        if self.over.done():
            return
        self._waits_for = None
        self._advance(self._coroutine.send, None)

    def cancel(self) -> None:
        """Raise CancelledError at the point where the coroutine waits."""
        waits_for = self._waits_for
        self._waits_for = None
        if self.over.done():
            return
        # Detached first: the awaited object must not resume the coroutine once more.
        if isinstance(waits_for, Completion):
            waits_for.task = None
        elif waits_for is not None:
            waits_for.remove_done_callback(self.resume)
        self._advance(self._coroutine.throw, asyncio.CancelledError())

    def _advance(self, call: Callable[[Any], Any], value: Any) -> None:
        try:
            waits_for = self._run(call, value)
        except StopIteration:
            self._end(None)
        except (KeyboardInterrupt, SystemExit) as error:
            self._end(error)
            raise
        except BaseException as error:
            self._end(error)
        else:
            if type(waits_for) is Completion:
                waits_for.task = self
                self._waits_for = waits_for
            else:
                self._wait_for(waits_for)

    def _wait_for(self, waits_for: Any) -> None:
        if waits_for is None:  # asyncio.sleep(0): continue in the next turn
            self._loop.call_soon(self.resume)
            return
        else:
            take_future(waits_for)
            waits_for.add_done_callback(self.resume)
        self._waits_for = waits_for

    def _end(self, error: BaseException | None) -> None:
        if not isinstance(error, asyncio.CancelledError):
            self.error = error
        self.over.set_result(None)
        self._done(self)
