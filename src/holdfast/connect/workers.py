"""``engine.workers``: the workers of an installation, and the runs that none of them serves."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.connect.async_calls import AsyncCalls
from holdfast.views.workers import UnservedView, WorkerView


class AsyncWorkers:
    """The workers that an ``AsyncEngine`` can see."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls: AsyncCalls = calls

    async def list(self) -> list[WorkerView]:
        """Return all workers, alive or dead. If the engine is bound to a namespace, return only
        the workers that serve it."""
        return await self._calls.call(lambda parts: parts.workers())

    async def unserved(self) -> Sequence[UnservedView]:
        """Return the routes with claimable runs that no live worker serves: the number of runs, the
        offer that is missing, and the remedy."""
        return await self._calls.call(lambda parts: parts.unserved())
