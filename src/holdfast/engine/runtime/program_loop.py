"""Run user coroutines on the event loop of the program while the worker has a thread of its own.

An ``AsyncEngine`` claims, reads and commits on the thread of its engine, as an ``Engine`` does.
Only user code crosses over to the program's loop: ``async def`` workflows and ``async def`` steps,
which may use objects that belong to that loop.

Invariants:
- No call of the store is made on the program's loop.
- A program is touched by one thread at a time: the worker waits for the answer to ``begin`` or
  ``feed`` before it goes on with the run, and ``close`` travels the same way, behind them.
- What is posted together crosses together: one wake-up of the other loop for all of it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from time import perf_counter
from typing import Any, Protocol

from holdfast.core.commands import Command
from holdfast.core.events import Event
from holdfast.core.program import Program
from holdfast.engine.runtime.eager_task import EagerTasks
from holdfast.engine.runtime.group_commit import GroupCommit
from holdfast.engine.runtime.inline_task import Completion
from holdfast.engine.runtime.waker import Waker
from holdfast.errors import EngineClosed

log = logging.getLogger("holdfast")

SLICE = 0.002
"""Seconds for which one callback on the program's loop begins posted calls; the rest waits for the
next turn of the loop."""

WATCH = 1.0
"""Seconds between two checks whether the program's loop is closed."""

CLOSED = "the event loop of the program is closed"


class Begun(Protocol):
    """An attempt at a step that begins before the worker hears that the step is wanted."""

    def begin(self) -> None:
        """Begin it. On the program's loop."""

    def cancel_unless_adopted(self) -> None:
        """Cancel it if its run has left memory meanwhile. On the worker's loop."""


Begin = Callable[[Sequence[Command]], Begun | None]


class LoopInbox:
    """Calls that another thread asks a loop to make, in order."""

    __slots__ = (
        "_calls",
        "_context",
        "_is_held",
        "_seconds",
        "_waker",
        "_woken",
        "after",
        "before",
        "draining",
        "loop",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self.loop = loop
        self._seconds = seconds
        self._waker: Waker | None = None
        self._calls: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._context = Context()
        self._woken = False
        self._is_held = False
        self.draining = False
        """Whether the loop makes calls at this moment."""
        self.before: Callable[[], None] = lambda: None
        """Called on the loop when it is about to make some calls."""
        self.after: Callable[[], None] = lambda: None
        """Called on the loop when it has made some calls."""

    def open_waker(self) -> None:
        """Let wake-ups keep the GIL from now on. Call it on the loop, and ``close`` in the end."""
        self._waker = Waker.of(self.loop, self._drain_in_context)

    def close(self) -> None:
        """Close the waker. Call it on the loop's thread, or when the loop is closed."""
        if self._waker is not None:
            self._waker.close()

    def post(self, call: Callable[..., None], *args: Any) -> None:
        """Ask the loop for a call, from any thread. Raises RuntimeError when the loop is closed."""
        self._calls.append((call, args))
        self._wake()

    def post_all(self, calls: Iterable[tuple[Callable[..., None], tuple[Any, ...]]]) -> None:
        """Ask the loop for several calls."""
        self._calls.extend(calls)
        self._wake()

    def hold(self) -> None:
        """Let the loop sleep on until ``release``, for what is posted meanwhile. A loop that is
        woken while the thread that posts has the GIL, and keeps it for a while, wakes up only to
        wait for the GIL."""
        self._is_held = True

    def release(self) -> None:
        """Wake the loop for what was posted. Raises RuntimeError when the loop is closed."""
        self._is_held = False
        if self._calls:
            self._wake()

    def _wake(self) -> None:
        if self.loop.is_closed():  # it may have been woken, and closed before it has made the calls
            raise RuntimeError(CLOSED)
        if not self._woken and not self._is_held:
            self._woken = True
            if self._waker is None or not self._waker.wake():
                self.loop.call_soon_threadsafe(self._drain, context=self._context)

    def _drain_in_context(self) -> None:
        self._context.run(self._drain)

    def _drain(self) -> None:
        self._woken = False  # before the calls: what is posted meanwhile wakes the loop again
        calls = self._calls
        until = perf_counter() + self._seconds
        self.draining = True
        self.before()
        try:
            for _ in range(len(calls)):
                call, args = calls.popleft()
                call(*args)
                if perf_counter() > until:
                    break
        finally:
            self.draining = False
            self.after()
            if calls and not self._woken:
                self._woken = True
                self.loop.call_soon(self._drain, context=self._context)


class ProgramLoop:
    """The loop of the program, as the worker uses it. It is made on that loop, and attached to the
    loop of the worker."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.thread = threading.get_ident()
        self.abandoned = False
        """Whether the worker stops at once, and waits for no step to end."""
        self.lost: Callable[[], None] = lambda: None
        """Called on the worker's loop when the program's loop was closed under it."""
        self.hands = EagerTasks(loop)
        self._calls = LoopInbox(loop, SLICE)
        self._calls.open_waker()
        self._calls.after = self._send
        self._held_back: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._answers: LoopInbox
        self._resolve: Callable[[list[Any], Sequence[Callable[[], None]]], None]
        self._worker_loop: asyncio.AbstractEventLoop
        self._watch: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._asking: set[asyncio.Future[Any]] = set()

    def attach(self, worker_loop: asyncio.AbstractEventLoop, writer: GroupCommit) -> None:
        """Answer on this loop, which is the one that calls it. What the answers lead to is
        committed together, at once."""
        self._worker_loop = worker_loop
        self._answers = LoopInbox(worker_loop, float("inf"))
        self._answers.open_waker()
        self._answers.before = writer.hold_back
        self._answers.after = writer.release
        self._resolve = writer.answer
        writer.answer = self._resolve_together
        self._look()

    def close(self) -> None:
        """Call nothing more. What was posted is still called."""
        if self._watch is not None:
            self._watch.cancel()
        self._answers.close()
        try:
            self.post(self.hands.close)
            self.post(self._refuse_all)
            self.post(self._calls.close)
        except EngineClosed:
            self._calls.close()

    def _resolve_together(
        self, entries: list[Any], after: Sequence[Callable[[], None]] = ()
    ) -> None:
        """Let those go on whose writes are committed; what all of them ask of the program's loop
        wakes it once, at the end."""
        self._calls.hold()
        try:
            self._resolve(entries, after)
        finally:
            try:
                self._calls.release()
            except RuntimeError:
                self._lose()

    def post(self, call: Callable[..., None], *args: Any) -> None:
        """Ask the program's loop for a call. Raises EngineClosed when that loop is closed."""
        try:
            self._calls.post(call, *args)
        except RuntimeError:
            self._lose()
            raise EngineClosed(why=CLOSED) from None

    def answer(self, call: Callable[..., None], *args: Any) -> None:
        """Ask the worker's loop for a call, from the program's."""
        self._held_back.append((call, args))
        if not self._calls.draining:
            # else the answers to all that is called now go together, and share a commit
            self._send()

    def _send(self) -> None:
        if self._held_back:
            held_back, self._held_back = self._held_back, []
            with suppress(RuntimeError):  # the worker is gone: nobody waits for the answers
                self._answers.post_all(held_back)

    def _look(self) -> None:
        if self.loop.is_closed():
            self._lose()
        else:
            self._watch = self._worker_loop.call_later(WATCH, self._look)

    def _lose(self) -> None:
        lost, self.lost = self.lost, lambda: None
        lost()

    # Programs

    def place(self, program: Program) -> Program:
        """Return a program whose code runs on the program's loop."""
        return PlacedProgram(program, self)

    def drive(
        self,
        call: Callable[[Sequence[Event]], Coroutine[Any, Any, list[Command]]],
        events: Sequence[Event],
    ) -> Completion:
        """Let the code of a program take *events*; the pause has the commands that it wants
        then."""
        pause = Completion()
        self.post(self._drive, copy_context(), call, events, pause)
        return pause

    def _drive(
        self, context: Context, call: Callable[..., Any], events: Sequence[Event], pause: Completion
    ) -> None:
        commands, error = run_code(context, call, events)
        if error is None:
            self.answer(pause.set_result, commands)
        else:
            self.answer(pause.set_exception, error)
            _raise_exit(error)

    def drive_and_begin(
        self,
        call: Callable[[Sequence[Event]], Coroutine[Any, Any, list[Command]]],
        events: Sequence[Event],
        begin: Begin,
    ) -> Completion:
        """Let the code take *events*, and *begin* what it wants then; the pause has the commands
        and what has begun."""
        pause = Completion()
        self.post(self._drive_and_begin, copy_context(), call, events, begin, pause)
        return pause

    def _drive_and_begin(
        self,
        context: Context,
        call: Callable[..., Any],
        events: Sequence[Event],
        begin: Begin,
        pause: Completion,
    ) -> None:
        commands, error = run_code(context, call, events)
        if error is not None:
            self.answer(pause.set_exception, error)
            _raise_exit(error)
            return
        begun = begin(commands)
        self.answer(_hand_over, pause, commands, begun)
        if begun is not None:
            # after the answer: the worker hears of the step before it hears of its end
            begun.begin()

    # What the program's loop asks of the worker

    async def ask(self, submit: Callable[[], asyncio.Future[Any]]) -> Any:
        """Call *submit* on the worker's loop, from the program's, and return what its future has.
        Raises EngineClosed."""
        if self._is_closed:
            raise EngineClosed
        answered: asyncio.Future[Any] = self.loop.create_future()
        self._asking.add(answered)

        def done(future: asyncio.Future[Any]) -> None:
            error = asyncio.CancelledError() if future.cancelled() else future.exception()
            self._calls.post(
                _settle, answered, None if error is not None else future.result(), error
            )

        self.answer(lambda: submit().add_done_callback(done))
        try:
            return await answered
        finally:
            self._asking.discard(answered)

    def _refuse_all(self) -> None:
        """The worker has stopped: it answers nothing more."""
        self._is_closed = True
        for answered in self._asking:
            _settle(answered, None, EngineClosed())


def _settle(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)


def _hand_over(pause: Completion, commands: list[Command], begun: Begun | None) -> None:
    pause.set_result((commands, begun))
    if begun is not None:
        begun.cancel_unless_adopted()


def run_code(
    context: Context, call: Callable[..., Any], events: Sequence[Event]
) -> tuple[list[Command], BaseException | None]:
    """Let the code of a program take *events*, and return the commands that it wants then, or what
    it raises."""
    try:
        context.run(call(events).send, None)
    except StopIteration as end:
        commands: list[Command] = end.value
        return commands, None
    except BaseException as error:
        return [], error
    return [], RuntimeError("the code of an async workflow cannot wait for another loop")


def _raise_exit(error: BaseException) -> None:
    if isinstance(error, KeyboardInterrupt | SystemExit):
        raise error


class PlacedProgram:
    """A program of an ``async def`` workflow: its code runs on the program's loop, and the worker
    sees its state in between."""

    __slots__ = ("_loop", "_program", "speculative")

    speculative: bool

    def __init__(self, program: Program, loop: ProgramLoop) -> None:
        object.__setattr__(self, "_program", program)
        object.__setattr__(self, "_loop", loop)
        object.__setattr__(
            self, "speculative", program.speculative
        )  # it never changes, and every turn asks for it

    def __getattr__(self, name: str) -> Any:
        return getattr(self._program, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._program, name, value)

    async def begin(self, history: Sequence[Event]) -> list[Command]:
        commands: list[Command] = await self._loop.drive(self._program.begin, history)
        return commands

    async def feed(self, events: Sequence[Event]) -> list[Command]:
        commands: list[Command] = await self._loop.drive(self._program.feed, events)
        return commands

    async def feed_and_begin(
        self, events: Sequence[Event], begin: Begin
    ) -> tuple[list[Command], Any]:
        """Feed the program, and begin what it wants then before the worker hears of it."""
        answer: tuple[list[Command], Any] = await self._loop.drive_and_begin(
            self._program.feed, events, begin
        )
        return answer

    def feed_ahead(self) -> FeedAhead:
        """Return the right to feed the program on its own loop."""
        return FeedAhead(self._program.feed, copy_context())

    def close(self) -> None:
        try:
            self._loop.post(self._program.close)
        except EngineClosed:
            self._program.close()  # no loop runs its code any more


class FeedAhead:
    """The right to feed a program next.

    A program that waits for one step, and for nothing else, can take the outcome on its own loop as
    soon as the step ends there. That saves a journey to the worker and back. But the worker may
    have something to feed as well, such as a request to cancel. Whichever thread takes the right
    feeds the program; what it feeds comes first in the history, too.
    """

    __slots__ = ("_context", "_feed", "_right", "commands", "error", "event")

    def __init__(self, feed: Callable[..., Any], context: Context) -> None:
        self._feed = feed
        self._context = context
        self._right: None = None
        self.event: Event | None = None
        """What the program was fed by its own loop, once the worker has heard of it."""
        self.commands: Sequence[Command] = ()
        self.error: BaseException | None = None

    def take(self) -> bool:
        """Take the right. Only one thread gets it: to delete a slot is atomic, and fails if it is
        deleted."""
        try:
            del self._right
        except AttributeError:
            return False
        return True

    def is_taken(self) -> bool:
        """Return whether some thread has the right."""
        return not hasattr(self, "_right")

    def feed(self, event: Event) -> tuple[list[Command], BaseException | None]:
        """Feed the program, on its own loop, once."""
        feed = self._feed
        # it refers to the program, which refers to the run: together they would wait for the
        # garbage collector
        del self._feed
        return run_code(self._context, feed, [event])
