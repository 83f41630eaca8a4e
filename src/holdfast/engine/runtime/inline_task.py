"""What drives a held run: a coroutine that goes on in the very turn of the loop in which what it
waits for happens.

A task of asyncio goes on a turn later. A step would take three turns of the loop instead of one,
for the commit, or of two if it waits for something itself. Whoever ends a pause must therefore hold
no lock, and not rely on anything that the strand might change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any


class Completion:
    """A moment until something happens, or has an answer. One strand waits for it; to end it is to
    let the strand go on."""

    __slots__ = ("_answer", "_error", "_over", "_watcher", "strand")

    def __init__(self) -> None:
        self.strand: InlineTask | None = None
        self._over = False
        self._answer: Any = None
        self._error: BaseException | None = None
        self._watcher: asyncio.Future[None] | None = None

    def done(self) -> bool:
        """Say whether it is over."""
        return self._over

    def set_result(self, answer: Any) -> None:
        """End it, with an answer."""
        self._answer = answer
        self._end()

    def set_exception(self, error: BaseException) -> None:
        """End it, with what is raised where it is waited for."""
        self._error = error
        self._end()

    def watched(self) -> asyncio.Future[None]:
        """Return a future that is done when this is over: for those who are no strand."""
        if self._watcher is None:
            self._watcher = asyncio.get_running_loop().create_future()
        return self._watcher

    def _end(self) -> None:
        self._over = True
        if self._watcher is not None and not self._watcher.done():
            self._watcher.set_result(None)
        strand, self.strand = self.strand, None
        if strand is not None:
            strand.go_on()

    def __await__(self) -> Generator[Completion, None, Any]:
        if not self._over:
            yield self
        if self._error is not None:
            raise self._error
        return self._answer


class InlineTask:
    """A coroutine on its way. What it awaits may be pauses, which end at once, or anything of
    asyncio."""

    __slots__ = ("_coroutine", "_done", "_loop", "_run", "_waits_for", "error", "over")

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, None],
        loop: asyncio.AbstractEventLoop,
        done: Callable[[InlineTask], None],
    ) -> None:
        self._coroutine, self._loop, self._done = coroutine, loop, done
        self._run = (
            Context().run
        )  # an empty one: whoever starts, claims or adopts a run may be in the middle of a step
        self._waits_for: Completion | asyncio.Future[Any] | None = None
        self.over: asyncio.Future[None] = loop.create_future()
        """Done when the strand has come to its end, whichever."""
        self.error: BaseException | None = None
        loop.call_soon(self.go_on)

    def go_on(self, _: object = None) -> None:
        """Run on as far as possible."""
        if not self.over.done():
            self._waits_for = None
            self._advance(self._coroutine.send, None)

    def cancel(self) -> None:
        """Raise CancelledError where the strand waits."""
        waits_for, self._waits_for = self._waits_for, None
        if self.over.done():
            return
        if isinstance(waits_for, Completion):
            waits_for.strand = None
        elif waits_for is not None:
            waits_for.remove_done_callback(self.go_on)
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
            self._wait_for(waits_for)

    def _wait_for(self, waits_for: Any) -> None:
        if type(waits_for) is Completion:
            waits_for.strand = self
        elif waits_for is None:  # it only lets others have their turn
            self._loop.call_soon(self.go_on)
            return
        else:
            waits_for._asyncio_future_blocking = False
            waits_for.add_done_callback(self.go_on)
        self._waits_for = waits_for

    def _end(self, error: BaseException | None) -> None:
        self.error = None if isinstance(error, asyncio.CancelledError) else error
        self.over.set_result(None)
        self._done(self)
