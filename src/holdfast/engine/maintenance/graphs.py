"""Resolve graphs: in the transaction that ends their members, or after other commits.

The leader also resolves what other processes have left in the outbox.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.core.runs import NewRun
from holdfast.core.status import FINAL
from holdfast.engine.runtime.group_commit import ClosingOperation, GroupCommit
from holdfast.store.database import Operation
from holdfast.store.graphs.operations import Compose, Lease, ResolvedGraphs, ResolveGraphs
from holdfast.store.runs.operations import Advance

log = logging.getLogger("holdfast")


class GraphResolver:
    """Resolves the ends of graph members. If two processes try, the second one finds nothing to
    do."""

    def __init__(
        self,
        writer: GroupCommit,
        compose: Compose,
        lease: Lease,
        adopt: Callable[[NewRun, int], None],
    ) -> None:
        self._writer: GroupCommit = writer
        self._compose: Compose = compose
        self._lease: Lease = lease
        self._adopt: Callable[[NewRun, int], None] = adopt
        self._wakeup = asyncio.Event()
        self._running = False
        self._expected_ends = self._submitted = 0
        self._guard = threading.Lock()
        """Held while the counts change: the loop expects ends, the committing thread submits."""
        self._left: dict[str, str] = {}

    @property
    def busy(self) -> bool:
        """Return whether there may be something to resolve."""
        return (
            self._wakeup.is_set() or self._running or self._expected_ends > 0 or self._submitted > 0
        )

    def resolve_with_commit(self) -> None:
        """Resolve graphs in the transaction that is about to be committed: it ends a member."""
        with self._guard:
            self._expected_ends += 1

    def closing_operation(self, ops: Sequence[Operation]) -> ClosingOperation | None:
        """Return the operation that ends the transaction of these, or None. May be called by any
        thread."""
        # Read without the lock: a commit that ends no member must not pay for it, and an end that
        # is expected was counted before its operation was submitted.
        if not self._expected_ends:
            return None
        ends = sum(
            type(op) is Advance and op.status in FINAL and op.graph_id is not None for op in ops
        )
        if not ends:
            return None
        with self._guard:
            self._expected_ends = max(self._expected_ends - ends, 0)
            self._submitted += 1
        return ClosingOperation(
            ResolveGraphs(compose=self._compose, lease=self._lease, closing=True),
            self._on_resolved,
        )

    def _on_resolved(self, answer: Any) -> None:
        with self._guard:
            self._submitted -= 1
        if isinstance(answer, BaseException) or self._take(answer):
            self.wake()  # if this process dies before that, the leader resolves the rest

    def wake(self) -> None:
        """Resolve the outbox soon."""
        self._wakeup.set()

    async def forever(self) -> None:
        """Resolve the outbox whenever there may be something in it."""
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()  # before the read: an outcome during it must set it again
            await self.resolve_all()

    async def resolve_all(self) -> None:
        """Resolve the outbox until it is empty."""
        self._running = True
        try:
            more = True
            while more:
                more = self._take(
                    await self._writer.submit(
                        ResolveGraphs(compose=self._compose, lease=self._lease)
                    )
                )
        finally:
            self._running = False

    def _take(self, done: ResolvedGraphs) -> bool:
        """Execute the members that were leased to this worker. Return whether there is more to
        resolve."""
        for member in done.born:
            if member.started.leased:
                self._adopt(member.run, member.started.now)
        self._warn(done.left)
        return done.more

    def _warn(self, left: dict[str, str]) -> None:
        for graph_id, why in left.items():
            if self._left.get(graph_id) != why:
                log.warning("graph %s could not be resolved here: %s", graph_id, why)
        self._left = left
