"""Queries about graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.graphs.model import (
    EdgeRecord,
    GraphEvent,
    GraphRecord,
    GraphSnapshot,
    GroupRecord,
    MemberRecord,
    MemberState,
)
from holdfast.core.runs import RunRecord
from holdfast.errors import RowDamaged
from holdfast.store.graphs.operations import NeededResult
from holdfast.store.graphs.rows import graph_from, group_from, member_from
from holdfast.store.reader import Reader
from holdfast.store.rows import run_from


class GraphQueries:
    """Queries about graphs."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def get(self, graph_id: str) -> GraphRecord | None:
        """Return the graph, or None."""
        return self._reader.first(graph_from, "graph", graph_id=graph_id)

    def find(
        self,
        namespace: str,
        *,
        status: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[GraphRecord]:
        """Return graphs from new to old. The page begins after the graph ``before``."""
        page = {"before": before or "", "status": status or "", "limit": limit}
        return self._reader.listed(graph_from, "newest_graphs", namespace=namespace, **page)

    def ids_by_prefix(self, namespace: str, prefix: str, limit: int) -> list[str]:
        """Return the ids of graphs that begin with *prefix*, in their order."""
        span = {"first_id": prefix, "last_id": prefix + "\U0010ffff"}
        rows = self._reader.rows("graphs_by_prefix", namespace=namespace, limit=limit, **span)
        return [row["id"] for row in rows]

    def snapshot(self, graph_id: str) -> GraphSnapshot | None:
        """Return the graph with all its members, groups and edges, by the ids of their runs; or
        None. Raises RowDamaged if an edge names a member that does not exist."""
        graph = self.get(graph_id)
        if graph is None:
            return None
        members = self._reader.all(member_from, "members_of_graph", graph_id=graph_id)
        groups = self._reader.all(group_from, "groups_of_graph", graph_id=graph_id)
        edges = [
            EdgeRecord(row["upstream"], row["dependent"], row["number"])
            for row in self._reader.rows("edges_of_graph", graph_id=graph_id)
        ]
        members_by_id = {member.run_id: member for member in members}
        # Checked here, because callers look the members up without asking.
        for edge in edges:
            if not {edge.upstream, edge.dependent} <= members_by_id.keys():
                key = f"{edge.upstream} {edge.dependent}"
                raise RowDamaged(
                    table="graph_edge",
                    key=key,
                    column="upstream, dependent",
                    why="the graph has no such member",
                )
        groups_by_id = {(group.run_id, group.number): group for group in groups}
        return GraphSnapshot(graph, members_by_id, groups_by_id, edges)

    def by_id(self, graph_ids: Sequence[str]) -> list[GraphRecord]:
        """Return those of the graphs that exist, in any order."""
        return self._reader.listed(graph_from, "graphs_by_id", ids=self._reader.as_list(graph_ids))

    def last_runs(self, graph_ids: Sequence[str]) -> list[RunRecord]:
        """Return the runs of the members on which no other member depends, by id."""
        return self._reader.listed(run_from, "last_runs", ids=self._reader.as_list(graph_ids))

    def member(self, run_id: str) -> MemberRecord | None:
        """Return the member whose run has, or will have, this id, or had it before it joined the
        graph; or None."""
        return self._reader.first(member_from, "member", run_id=run_id)

    def is_unresolved(self, graph_id: str) -> bool:
        """Return whether the outbox has member outcomes or other work of the graph."""
        return bool(self._reader.rows("unresolved_graph", graph_id=graph_id))

    def groups_of_member(self, run_id: str) -> list[GroupRecord]:
        """Return the edge groups for which a member waits."""
        return self._reader.all(group_from, "groups_of_member", run_id=run_id)

    def needed_by(self, run_id: str) -> list[NeededResult]:
        """Return the upstreams of a member."""
        rows = self._reader.rows("upstreams_of_member", run_id=run_id)
        return [
            NeededResult(
                row["number"], row["run_id"], MemberState(row["state"]), row["note"], row["joined"]
            )
            for row in rows
        ]

    def events(self, graph_id: str, after: int = 0, limit: int = 1000) -> list[GraphEvent]:
        """Return the audit trail of a graph above the number *after*, in order."""
        return self._reader.listed(
            _event, "graph_events", graph_id=graph_id, after=after, limit=limit
        )

    def members_to_seal(self, after: str, limit: int) -> list[tuple[str, bytes]]:
        """Return the next waiting members above the id *after*, with their inputs as stored."""
        return [
            (row["run_id"], bytes(row["input"]))
            for row in self._reader.rows("members_to_seal", after=after, limit=limit)
        ]


def _event(row: Any) -> GraphEvent:
    data = None if row["data"] is None else bytes(row["data"])
    return GraphEvent(row["graph_id"], row["seq"], row["kind"], row["member"], data, row["at"])
