"""Run user coroutines on the event loop of the program while the worker has a thread of its own.

An ``AsyncEngine`` claims, reads and commits on the thread of its engine, as an ``Engine`` does.
Only user code crosses over to the program's loop: ``async def`` workflows and ``async def`` steps,
which may use objects that belong to that loop.

Invariants:
- No call of the store is made on the program's loop.
- A program is used by one thread at a time: the worker waits for the answer to ``begin`` or
  ``feed`` before it continues the run, and ``close`` is posted the same way, behind them.
- Calls that are posted together cross together: one wake-up of the other loop for all of them.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Protocol

from holdfast.core.commands import Command
from holdfast.core.events import Event
from holdfast.core.program import Program
from holdfast.engine.runtime.eager_task import eager_tasks_of
from holdfast.engine.runtime.group_commit import GroupCommit
from holdfast.engine.runtime.inline_task import Completion
from holdfast.engine.runtime.loop_inbox import CLOSED, LoopInbox
from holdfast.errors import EngineClosed

log = logging.getLogger("holdfast")

SLICE = 0.002
"""Seconds for which one callback on the program's loop makes posted calls; the rest waits for
the next turn of the loop."""

WATCH = 1.0
"""Seconds between two checks whether the program's loop is closed."""


class Begun(Protocol):
    """An attempt at a step that begins before the worker learns that the program requests the
    step."""

    def begin(self) -> None:
        """Begin the attempt, on the program's loop."""

    def cancel_unless_adopted(self) -> None:
        """Cancel the attempt if its run has left memory meanwhile, on the worker's loop."""


Begin = Callable[[Sequence[Command]], Begun | None]


class ProgramLoop:
    """The loop of the program, as the worker uses it.

    It is created on that loop, and attached to the loop of the worker.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.thread = threading.get_ident()
        self.abandoned = False
        """Whether the worker stops at once, without waiting for steps to end."""
        self.lost: Callable[[], None] = lambda: None
        """Called on the worker's loop when the program's loop was closed."""
        self.eager_tasks = eager_tasks_of(loop)
        self._calls = LoopInbox(loop, SLICE)
        # The worker posts at the end of its turn; then it waits, most often.
        self._calls.open_waker(release_gil=True)
        self._calls.after = self._send
        self._held_back: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._answers: LoopInbox
        self._resolve: Callable[[list[Any], Sequence[Callable[[], None]]], None]
        self._worker_loop: asyncio.AbstractEventLoop
        self._watch: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._asking: set[asyncio.Future[Any]] = set()

    def attach(self, worker_loop: asyncio.AbstractEventLoop, writer: GroupCommit) -> None:
        """Answer on *worker_loop*, on which this is called. Commits that follow from the answers
        are shared."""
        self._worker_loop = worker_loop
        self._answers = LoopInbox(worker_loop, float("inf"))
        self._answers.open_waker(waits=True)
        self._answers.before = writer.hold_back
        self._answers.after = writer.release
        self._resolve = writer.answer
        writer.answer = self._resolve_together
        self._check_loop()

    def close(self) -> None:
        """Post no more calls. Calls that were posted are still made."""
        if self._watch is not None:
            self._watch.cancel()
        self._answers.close()
        try:
            self.post(self.eager_tasks.close)
            self.post(self._refuse_all)
            self.post(self._calls.close)
        except EngineClosed:
            self._calls.close()

    def _resolve_together(
        self, entries: list[Any], after: Sequence[Callable[[], None]] = ()
    ) -> None:
        """Resolve committed operations; all calls that follow wake the program's loop once, at
        the end."""
        self._calls.hold()
        try:
            self._resolve(entries, after)
        finally:
            try:
                self._calls.release()
            except RuntimeError:
                self._lose()

    def post(self, call: Callable[..., None], *args: Any) -> None:
        """Post a call to the program's loop. Raises EngineClosed if that loop is closed."""
        try:
            self._calls.post(call, *args)
        except RuntimeError:
            self._lose()
            raise EngineClosed(why=CLOSED) from None

    def answer(self, call: Callable[..., None], *args: Any) -> None:
        """Post a call to the worker's loop, from the program's."""
        self._held_back.append((call, args))
        if not self._calls.draining:
            # Otherwise the answers to all calls of this turn are sent together, and share a commit.
            self._send()

    def _send(self) -> None:
        if self._held_back:
            held_back = self._held_back
            self._held_back = []
            try:  # not suppress(), which costs three calls per step
                self._answers.post_all(held_back)
            except RuntimeError:
                return  # the worker's loop is closed, and with it every waiter

    def _check_loop(self) -> None:
        if self.loop.is_closed():
            self._lose()
        else:
            self._watch = self._worker_loop.call_later(WATCH, self._check_loop)

    def _lose(self) -> None:
        lost = self.lost
        self.lost = lambda: None
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
        """Feed *events* to the code of a program. The completion has the commands that it
        returns."""
        completion = Completion()
        self.post(self._drive, copy_context(), call, events, completion)
        return completion

    def _drive(
        self,
        context: Context,
        call: Callable[..., Any],
        events: Sequence[Event],
        completion: Completion,
    ) -> None:
        commands, error = run_code(context, call, events)
        if error is None:
            self.answer(completion.set_result, commands)
        else:
            # The answer before the exit: the worker must not wait for a loop that ends.
            self.answer(completion.set_exception, error)
            _raise_exit(error)

    def drive_and_begin(
        self,
        call: Callable[[Sequence[Event]], Coroutine[Any, Any, list[Command]]],
        events: Sequence[Event],
        begin: Begin,
    ) -> Completion:
        """Feed *events*, and *begin* the returned commands; the completion has the commands and
        what has begun."""
        completion = Completion()
        self.post(self._drive_and_begin, copy_context(), call, events, begin, completion)
        return completion

    def _drive_and_begin(
        self,
        context: Context,
        call: Callable[..., Any],
        events: Sequence[Event],
        begin: Begin,
        completion: Completion,
    ) -> None:
        commands, error = run_code(context, call, events)
        if error is not None:
            self.answer(completion.set_exception, error)
            _raise_exit(error)
            return
        begun = begin(commands)
        self.answer(_hand_over, completion, commands, begun)
        if begun is not None:
            # After the answer: the worker must learn of the step before it learns of its end.
            begun.begin()

    # Requests of the program's loop to the worker

    async def ask(self, submit: Callable[[], asyncio.Future[Any]]) -> Any:
        """Call *submit* on the worker's loop, from the program's; return its future's result.

        Raises EngineClosed.
        """
        if self._is_closed:
            raise EngineClosed
        answered: asyncio.Future[Any] = self.loop.create_future()
        self._asking.add(answered)

        def done(future: asyncio.Future[Any]) -> None:
            """Answer on the program's loop; called on the worker's."""
            error: BaseException | None = asyncio.CancelledError()
            if not future.cancelled():
                error = future.exception()
            value = None
            if error is None:
                value = future.result()
            self._calls.post(_resolve_future, answered, value, error)

        self.answer(lambda: submit().add_done_callback(done))
        try:
            return await answered
        finally:
            self._asking.discard(answered)

    def _refuse_all(self) -> None:
        """Fail all pending requests: the worker has stopped."""
        self._is_closed = True
        for answered in self._asking:
            _resolve_future(answered, None, EngineClosed())


def _resolve_future(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)


def _hand_over(completion: Completion, commands: list[Command], begun: Begun | None) -> None:
    completion.set_result((commands, begun))
    if begun is not None:
        begun.cancel_unless_adopted()


def run_code(
    context: Context, call: Callable[..., Any], events: Sequence[Event]
) -> tuple[list[Command], BaseException | None]:
    """Feed *events* to the code of a program. Return the commands, or the exception that it
    raises."""
    try:
        context.run(call(events).send, None)
    except StopIteration as end:
        commands: list[Command] = end.value
        return commands, None
    except BaseException as error:
        return [], error
    return [], RuntimeError(
        "the code of an async workflow must not await anything of another event loop"
    )


def _raise_exit(error: BaseException) -> None:
    if isinstance(error, KeyboardInterrupt | SystemExit):
        raise error


class PlacedProgram:
    """A program whose code runs on the program's loop."""

    __slots__ = ("_loop", "_program", "feeds_before_commit")

    def __init__(self, program: Program, loop: ProgramLoop) -> None:
        self._program: Program = program
        self._loop: ProgramLoop = loop
        self.feeds_before_commit: bool = program.feeds_before_commit

    async def begin(self, history: Sequence[Event], state: bytes | None) -> list[Command]:
        begin = partial(self._program.begin, state=state)
        commands: list[Command] = await self._loop.drive(begin, history)
        return commands

    async def feed(self, events: Sequence[Event]) -> list[Command]:
        commands: list[Command] = await self._loop.drive(self._program.feed, events)
        return commands

    async def feed_and_begin(
        self, events: Sequence[Event], begin: Begin
    ) -> tuple[list[Command], Any]:
        """Feed the program, and begin the requested step before the worker learns of it."""
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
            self._program.close()  # safe here: the loop that ran its code is closed


class FeedAhead:
    """The right to feed a program next.

    A program that waits for one step, and for nothing else, can take the outcome on its own loop as
    soon as the step ends there. That saves a round trip to the worker. But the worker may have
    something to feed as well, such as a request to cancel. Only the thread that takes the right
    feeds the program; what it feeds comes first in the history, too.
    """

    __slots__ = ("_context", "_feed", "_right", "commands", "error", "event")

    def __init__(self, feed: Callable[..., Any], context: Context) -> None:
        self._feed = feed
        self._context = context
        self._right: None = None
        self.event: Event | None = None
        """The event that the program was fed by its own loop, once the worker has learnt of it."""
        self.commands: Sequence[Command] = ()
        self.error: BaseException | None = None

    def take(self) -> bool:
        """Take the right. Only one thread gets it: deleting a slot is atomic, and fails if it is
        deleted."""
        try:
            del self._right
        except AttributeError:
            return False
        return True

    def is_taken(self) -> bool:
        """Return whether a thread has the right."""
        return not hasattr(self, "_right")

    def feed(self, event: Event) -> tuple[list[Command], BaseException | None]:
        """Feed the program, on its own loop, once."""
        feed = self._feed
        # Breaks a reference cycle (feed, program, run), which only the garbage collector would
        # free.
        del self._feed
        return run_code(self._context, feed, (event,))
