"""What every area needs of its engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from holdfast.connect.components import Components
from holdfast.core.validation import checked_call
from holdfast.service.runs import Request

P = ParamSpec("P")
T = TypeVar("T")


class Calls:
    """A part of ``Engine``."""

    _parts: Components

    def _do(self, request: Request) -> Any:
        """Commit what is asked and return the answer."""
        raise NotImplementedError


class AsyncCalls:
    """A part of ``AsyncEngine``. Its calls are those of an ``Engine``, made in a thread, so that
    the program's loop never waits for the database."""

    async def _opened(self) -> Any:
        """Return the ``Engine`` whose calls are made; the first caller opens it, in a thread."""
        raise NotImplementedError

    async def _aside(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make a blocking call in a thread and return what it returns."""
        raise NotImplementedError

    async def _call(
        self, method: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call a method of ``Engine`` in a thread and return what it returns."""
        engine = await self._opened()
        return await self._aside(method, engine, *args, **kwargs)


def on_this_loop(progress: Callable[[int], None] | None) -> Callable[[int], None] | None:
    """Return how a thread tells *progress*, which belongs to the running loop."""
    if progress is None:
        return None
    checked_call("progress", progress)
    loop, told = asyncio.get_running_loop(), progress

    def tell(count: int) -> None:
        loop.call_soon_threadsafe(told, count)

    return tell
