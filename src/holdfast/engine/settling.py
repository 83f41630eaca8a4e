"""Settling graphs: in the very transaction in which a worker ends members, or as soon as another commit of this process has news
for one; and, for whoever leads, what others have left behind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from holdfast.core.records import NewRun
from holdfast.engine.writer import Writer
from holdfast.store.contract import Compose, Lease, Settled, SettleGraphs, Transition

log = logging.getLogger("holdfast")


class Settler:
    """Does what the ends of members lead to. Whoever comes second finds nothing to do."""

    def __init__(self, writer: Writer, compose: Compose, lease: Lease, adopt: Callable[[NewRun, int], None]) -> None:
        self._writer, self._compose, self._lease, self._adopt = writer, compose, lease, adopt
        self._news = asyncio.Event()
        self._at_work = False
        self._soon, self._asked = False, 0
        self._left: dict[str, str] = {}

    @property
    def busy(self) -> bool:
        """Whether there may be something to do."""
        return self._news.is_set() or self._at_work or self._soon or self._asked > 0

    def soon(self) -> None:
        """What is about to be written ends a member: settle its graph in the same transaction."""
        self._soon = True

    def last_word(self) -> tuple[Transition, asyncio.Future[Any]] | None:
        """Return what belongs at the end of the transaction that is about to be."""
        if not self._soon:
            return None
        self._soon = False
        self._asked += 1
        future = asyncio.get_running_loop().create_future()
        future.add_done_callback(self._settled)
        return SettleGraphs(compose=self._compose, lease=self._lease), future

    def _settled(self, future: asyncio.Future[Any]) -> None:
        self._asked -= 1
        if future.cancelled() or future.exception() is not None:
            self.look()  # or whoever leads will
        elif self._take(future.result()):
            self.look()

    def look(self) -> None:
        """There are news."""
        self._news.set()

    async def forever(self) -> None:
        """Settle whenever there are news."""
        while True:
            await self._news.wait()
            self._news.clear()  # before looking, not after
            await self.settle()

    async def settle(self) -> None:
        """Settle all there is."""
        self._at_work = True
        try:
            more = True
            while more:
                more = self._take(await self._writer.submit(SettleGraphs(compose=self._compose, lease=self._lease)))
        finally:
            self._at_work = False

    def _take(self, done: Settled) -> bool:
        """Go on with what was born leased to this worker; say whether there is more to settle."""
        for born in done.born:
            if born.started.leased:
                self._adopt(born.run, born.started.now)
        self._warn(done.left)
        return done.more

    def _warn(self, left: dict[str, str]) -> None:
        for graph_id, why in left.items():
            if self._left.get(graph_id) != why:
                log.warning("graph %s cannot go on here: %s", graph_id, why)
        self._left = left
