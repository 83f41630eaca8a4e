"""Resolve graphs in a process without a worker: leases, operators and command lines end members,
too.

A lease that ends a member resolves its graph in the same transaction. Other ends, such as a forced
cancellation, do not know the graph beforehand, and graphs are locked before runs: their outcomes go
to the outbox, which is resolved right after the commit, before the caller gets its answer. If the
process dies in between, the next claim of a lease, read of the graph or worker resolves it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from holdfast.core.status import FINAL
from holdfast.store.database import Hints, Operation
from holdfast.store.graphs.operations import Compose, ResolvedGraphs, ResolveGraphs
from holdfast.store.runs.operations import Advance
from holdfast.store.store import Store

log = logging.getLogger("holdfast")

ROUNDS = 20
"""Transactions that follow one commit, at most: they hold back all other writes of the process. The
next call that finds work in the outbox continues."""


class GraphFollowUp:
    """Resolves the graphs of members that the calls of this process end."""

    def __init__(self, store: Store, compose: Compose) -> None:
        self._store: Store = store
        self._compose: Compose = compose
        self._left: dict[str, str] = {}

    def closing_operation(self, ops: Sequence[Operation]) -> Operation | None:
        """Return the operation that ends the transaction of these: the resolution of the graphs
        whose members they end; None if they end none."""
        for op in ops:
            if type(op) is Advance and op.graph_id is not None and op.status in FINAL:
                return self.operation(closing=True)
        return None

    def operation(self, *, closing: bool = False) -> ResolveGraphs:
        """Return the operation that resolves graphs. New members are claimable: no worker of this
        process could execute them."""
        return ResolveGraphs(compose=self._compose, closing=closing)

    def resolve(self) -> Hints:
        """Resolve the outbox, as far as it goes in ROUNDS transactions, and return the hints of
        these. Errors are logged: the commit that this follows has succeeded."""
        for _ in range(ROUNDS):
            try:
                (resolved,) = self._store.apply([self.operation()])
            except Exception as error:
                resolved = error
            if not isinstance(resolved, ResolvedGraphs):
                log.warning("graphs could not be resolved here, a later call does it: %s", resolved)
                break
            self.note(resolved)
            if not resolved.more:
                break
        return self._store.hints()

    def note(self, resolved: ResolvedGraphs) -> None:
        """Log the graphs that cannot be resolved here, each once per reason."""
        for graph_id, why in resolved.left.items():
            if self._left.get(graph_id) != why:
                log.warning("graph %s could not be resolved here: %s", graph_id, why)
        self._left = resolved.left

    def can_resolve(self, graph_id: str) -> bool:
        """Return whether a resolution can help a graph: not if the last one could not."""
        return graph_id not in self._left
