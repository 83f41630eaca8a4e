"""The base classes of the call groups of ``Engine`` and ``AsyncEngine``."""

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
    """A group of calls of ``Engine``."""

    _parts: Components

    def _do(self, request: Request) -> Any:
        """Commit the operation of a request and return its decoded answer. Raises EngineClosed."""
        raise NotImplementedError


class AsyncCalls:
    """A group of calls of ``AsyncEngine``. Each call is a call of ``Engine``, made in a thread, so
    that the program's loop never waits for the database."""

    async def _opened(self) -> Any:
        """Return the wrapped ``Engine``; the first caller opens it, in a thread. Raises
        EngineClosed."""
        raise NotImplementedError

    async def _aside(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make a blocking call in a thread and return its result. Raises EngineClosed."""
        raise NotImplementedError

    async def _call(
        self, method: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call a method of ``Engine`` in a thread and return its result."""
        engine = await self._opened()
        return await self._aside(method, engine, *args, **kwargs)


def on_this_loop(progress: Callable[[int], None] | None) -> Callable[[int], None] | None:
    """Return a callback with which a thread calls *progress* on the running loop; None for None.
    Raises BadOption if *progress* is not callable."""
    if progress is None:
        return None
    checked_call("progress", progress)
    loop = asyncio.get_running_loop()
    callback = progress

    def report(count: int) -> None:
        loop.call_soon_threadsafe(callback, count)

    return report
