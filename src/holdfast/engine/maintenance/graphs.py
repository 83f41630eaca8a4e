"""Settling graphs: in the very transaction in which a worker ends members, or as soon as another
commit of this process has news for one; and, for whoever leads, what others have left behind."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.core.graphs.model import MARK
from holdfast.core.runs import NewRun
from holdfast.core.status import FINAL
from holdfast.engine.runtime.group_commit import ClosingOperation, GroupCommit
from holdfast.store.contract import (
    Advance,
    Compose,
    Lease,
    Operation,
    ResolvedGraphs,
    ResolveGraphs,
)

log = logging.getLogger("holdfast")


class GraphResolver:
    """Does what the ends of members lead to. Whoever comes second finds nothing to do."""

    def __init__(
        self,
        writer: GroupCommit,
        compose: Compose,
        lease: Lease,
        adopt: Callable[[NewRun, int], None],
    ) -> None:
        self._writer, self._compose, self._lease, self._adopt = writer, compose, lease, adopt
        self._news = asyncio.Event()
        self._at_work = False
        self._soon = self._asked = 0
        self._guard = threading.Lock()
        self._left: dict[str, str] = {}

    @property
    def busy(self) -> bool:
        """Whether there may be something to do."""
        return self._news.is_set() or self._at_work or self._soon > 0 or self._asked > 0

    def soon(self) -> None:
        """What is about to be written ends a member: settle its graph in the same transaction."""
        with self._guard:
            self._soon += 1

    def last_word(self, ops: Sequence[Operation]) -> ClosingOperation | None:
        """Return what belongs at the end of the transaction of these. May come from any thread."""
        if not self._soon:
            return None
        ends = sum(type(op) is Advance and op.status in FINAL and MARK in op.run_id for op in ops)
        if not ends:
            return None
        with self._guard:
            self._soon = max(self._soon - ends, 0)
            self._asked += 1
        return ClosingOperation(
            ResolveGraphs(compose=self._compose, lease=self._lease), self._settled
        )

    def _settled(self, answer: Any) -> None:
        with self._guard:
            self._asked -= 1
        if isinstance(answer, BaseException) or self._take(answer):
            self.look()  # or whoever leads will

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
                more = self._take(
                    await self._writer.submit(
                        ResolveGraphs(compose=self._compose, lease=self._lease)
                    )
                )
        finally:
            self._at_work = False

    def _take(self, done: ResolvedGraphs) -> bool:
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
