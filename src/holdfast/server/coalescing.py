"""``Coalescer``: handle the items of concurrent requests together.

Each call of a thread costs more than a small read or write in it. Requests that arrive while a
batch is being handled therefore form the next batch, as in a group commit: a lone request waits for
nothing, and sixteen at a time share one thread and one transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Coalescer(Generic[Item, Answer]):
    """Handles items in batches. On each loop, at most one batch is in progress."""

    def __init__(
        self, handle: Callable[[list[Item]], Awaitable[Sequence[Answer | BaseException]]]
    ) -> None:
        self._handle: Callable[[list[Item]], Awaitable[Sequence[Answer | BaseException]]] = handle
        """Returns one answer per item; an error is the answer for its item alone."""
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue[Item, Answer]] = (
            WeakKeyDictionary()
        )

    async def answer(self, item: Item) -> Answer:
        """Return the answer for an item, which is handled after this call began. Raises its error,
        or the error of the whole batch."""
        loop = asyncio.get_running_loop()
        queue = self._loops.get(loop)
        if queue is None:
            queue = _Queue()
            self._loops[loop] = queue
        future: asyncio.Future[Answer] = loop.create_future()
        queue.items.append(item)
        queue.futures.append(future)
        if queue.task is None:
            queue.task = loop.create_task(self._handle_all(queue))
        return await future

    async def _handle_all(self, queue: _Queue[Item, Answer]) -> None:
        """Handle batches until no item is left."""
        try:
            while queue.items:
                items, futures = queue.take()
                answers: Sequence[Answer | BaseException]
                try:
                    answers = await self._handle(items)
                except Exception as error:
                    answers = [error] * len(items)
                except BaseException:
                    for future in futures:
                        future.cancel()
                    raise
                _resolve(futures, answers)
        finally:
            queue.task = None


class _Queue(Generic[Item, Answer]):
    """The items of one loop that are not handled yet, and the task that handles them."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.futures: list[asyncio.Future[Answer]] = []
        self.task: asyncio.Task[None] | None = None

    def take(self) -> tuple[list[Item], list[asyncio.Future[Answer]]]:
        """Return the queued items and their futures, and empty the queue."""
        taken = (self.items, self.futures)
        self.items = []
        self.futures = []
        return taken


def _resolve(
    futures: Sequence[asyncio.Future[Answer]], answers: Sequence[Answer | BaseException]
) -> None:
    for future, answer in zip(futures, answers, strict=True):
        if future.done():
            continue  # its request was cancelled
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        else:
            future.set_result(answer)
