"""``RunReader``: read runs for all waiters on one loop, with one query for all runs that are
requested at about the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from holdfast.core.runs import RunRecord

Read = Callable[[Sequence[str]], Awaitable[Mapping[str, RunRecord | Exception]]]


class RunReader:
    """Reads runs in batches. At most one read is in progress; runs requested meanwhile are in the
    next."""

    def __init__(self, loop: asyncio.AbstractEventLoop, read: Read) -> None:
        self.loop = loop
        self._read = read
        self._requested: dict[str, list[asyncio.Future[RunRecord]]] = {}
        self._reading: asyncio.Task[None] | None = None

    async def run(self, run_id: str) -> RunRecord:
        """Return a run, read after this call began. Raises RunNotFound."""
        future: asyncio.Future[RunRecord] = self.loop.create_future()
        self._requested.setdefault(run_id, []).append(future)
        if self._reading is None or self._reading.done():
            self._reading = self.loop.create_task(self._read_all())
        return await future

    async def _read_all(self) -> None:
        """Read batches until no run is requested. An error of a read goes to all its waiters."""
        while self._requested:
            requested = self._requested
            self._requested = {}  # before the read: a run requested during it must be read again
            try:
                runs = await self._read(list(requested))
            except BaseException as error:
                self._answer(requested, dict.fromkeys(requested, error))
                if not isinstance(error, Exception):
                    raise
            else:
                self._answer(requested, runs)

    def _answer(
        self,
        requested: Mapping[str, Sequence[asyncio.Future[RunRecord]]],
        runs: Mapping[str, RunRecord | BaseException],
    ) -> None:
        for run_id, futures in requested.items():
            answer = runs[run_id]
            for future in futures:
                if future.done():
                    continue
                if isinstance(answer, BaseException):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
