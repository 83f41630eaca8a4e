"""What can be asked about graphs."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.graphs.records import Edge, Graph, GraphEvent, Group, Member, MemberState, Whole
from holdfast.core.records import Run
from holdfast.store.contract.graphs import Needed
from holdfast.store.reading.asking import Asking
from holdfast.store.transitions.graphs.rows import graph_from, group_from, member_from
from holdfast.store.transitions.transaction import run_from

_LAST = "\U0010ffff"


class RowGraphReader(Asking):
    """What can be asked about graphs."""

    def graph(self, graph_id: str) -> Graph | None:
        found = self._rows("graph", graph_id=graph_id)
        return graph_from(found[0]) if found else None

    def graphs(self, namespace: str, *, status: str | None = None, before: str | None = None, limit: int = 50) -> list[Graph]:
        rows = self._rows("newest_graphs", namespace=namespace, before=before or _LAST, status=status or "", limit=limit)
        return [graph_from(row) for row in rows]

    def whole_graph(self, graph_id: str) -> Whole | None:
        graph = self.graph(graph_id)
        if graph is None:
            return None
        members = [member_from(row) for row in self._rows("members_of_graph", graph_id=graph_id)]
        groups = [group_from(row) for row in self._rows("groups_of_graph", graph_id=graph_id)]
        edges = [
            Edge(row["upstream"], row["dependent"], row["number"]) for row in self._rows("edges_of_graph", graph_id=graph_id)
        ]
        return Whole(graph, {one.run_id: one for one in members}, {(one.run_id, one.number): one for one in groups}, edges)

    def graphs_by_id(self, graph_ids: Sequence[str]) -> list[Graph]:
        return [graph_from(row) for row in self._rows("graphs_by_id", ids=self._as_list(graph_ids))]

    def last_runs(self, graph_ids: Sequence[str]) -> list[Run]:
        return [run_from(row) for row in self._rows("last_runs", ids=self._as_list(graph_ids))]

    def member(self, run_id: str) -> Member | None:
        found = self._rows("member", run_id=run_id)
        return member_from(found[0]) if found else None

    def groups_of_member(self, run_id: str) -> list[Group]:
        return [group_from(row) for row in self._rows("groups_of_member", run_id=run_id)]

    def needed_by(self, run_id: str) -> list[Needed]:
        rows = self._rows("upstreams_of_member", run_id=run_id)
        return [Needed(row["number"], row["run_id"], MemberState(row["state"]), row["note"]) for row in rows]

    def graph_events(self, graph_id: str, after: int = 0, limit: int = 1000) -> list[GraphEvent]:
        rows = self._rows("graph_events", graph_id=graph_id, after=after, limit=limit)
        return [
            GraphEvent(
                row["graph_id"], row["seq"], row["kind"], row["member"],
                None if row["data"] is None else bytes(row["data"]), row["at"],
            )
            for row in rows
        ]  # fmt: skip

    def members_to_seal(self, after: str, limit: int) -> list[tuple[str, bytes]]:
        return [(row["run_id"], bytes(row["input"])) for row in self._rows("members_to_seal", after=after, limit=limit)]
