"""The outbox of graphs: member outcomes and other work that one transaction leaves to the next."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from holdfast.store.database import MemberOutcome, Transaction
from holdfast.store.wakeup import insert_outcomes

START = "start"
SKIP = "skip"
CANCEL = "cancel"
REST = "rest"
REPLAY = "replay"
"""Kinds of work in the outbox that the next transaction continues:

- START: members that wait for nothing more are started
- SKIP: members that can never start are skipped
- CANCEL: the members of a cancelled graph are stopped
- REST: the remainder of a decided group is stopped
- REPLAY: the end of a replayed member is taken back
"""

CONTINUED = frozenset({START, SKIP, CANCEL, REST, REPLAY})


class LeftWork(NamedTuple):
    """Work for the next transaction: a member if it concerns one, and the position to continue
    from."""

    graph_id: str
    kind: str
    run_id: str | None = None
    place: str | None = None


class GraphOutbox:
    """What one resolution leaves to the next transaction.

    *unresolvable* are the graphs that this process cannot resolve. Work of them alone is no reason
    to look into the outbox again soon.
    """

    def __init__(self, tx: Transaction, unresolvable: Collection[str]) -> None:
        self._tx: Transaction = tx
        self._unresolvable: Collection[str] = unresolvable
        self._work: dict[LeftWork, None] = {}
        """In the order in which it was noted, each once."""

    def leave_outcomes(self, outcomes: Sequence[MemberOutcome]) -> None:
        """Write the outcomes of members that are not, or only partly, resolved here."""
        insert_outcomes(self._tx, outcomes)
        self._hint({outcome.graph_id for outcome in outcomes})

    def leave(
        self, graph_id: str, kind: str, run_id: str | None = None, place: str | None = None
    ) -> None:
        """Note some work of a graph for the next transaction."""
        self._work[LeftWork(graph_id, kind, run_id, place)] = None

    def graphs_left(self, kind: str) -> set[str]:
        """Return the graphs with left work of this kind."""
        return {work.graph_id for work in self._work if work.kind == kind}

    def write(self) -> None:
        """Write the noted work."""
        work_to_write = self._work
        self._work = {}
        self._tx.many(
            "insert_outbox",
            [
                {
                    "graph_id": work.graph_id,
                    "run_id": work.run_id,
                    "status": work.kind,
                    "at": self._tx.now,
                    "place": work.place,
                }
                for work in work_to_write
            ],
        )
        self._hint({work.graph_id for work in work_to_write})

    def _hint(self, graph_ids: Collection[str]) -> None:
        if any(graph_id not in self._unresolvable for graph_id in graph_ids):
            self._tx.hints.graphs = True
