"""Settling graphs: as soon as a commit of this process has news for one; and, for whoever leads, what others have left behind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from holdfast.core.records import NewRun
from holdfast.engine.writer import Writer
from holdfast.store.contract import Compose, Lease, Settled, SettleGraphs

log = logging.getLogger("holdfast")


class Settler:
    """Does what the ends of members lead to. Whoever comes second finds nothing to do."""

    def __init__(self, writer: Writer, compose: Compose, lease: Lease, adopt: Callable[[NewRun, int], None]) -> None:
        self._writer, self._compose, self._lease, self._adopt = writer, compose, lease, adopt
        self._news = asyncio.Event()
        self._at_work = False
        self._left: dict[str, str] = {}

    @property
    def busy(self) -> bool:
        """Whether there may be something to do."""
        return self._news.is_set() or self._at_work

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
                done: Settled = await self._writer.submit(SettleGraphs(compose=self._compose, lease=self._lease))
                for born in done.born:
                    if born.started.leased:
                        self._adopt(born.run, born.started.now)
                self._warn(done.left)
                more = done.more
        finally:
            self._at_work = False

    def _warn(self, left: dict[str, str]) -> None:
        for graph_id, why in left.items():
            if self._left.get(graph_id) != why:
                log.warning("graph %s cannot go on here: %s", graph_id, why)
        self._left = left
