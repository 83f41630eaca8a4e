# Generated from connect/graphs.py by tools/generate_blocking.py: do not edit.
"""``engine.graphs``: start, extend, cancel, replay and read runs that depend on each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.connect import graph_procedures, run_views
from holdfast.connect.calls import Calls
from holdfast.connect.components import Components
from holdfast.connect.open_store import open_store
from holdfast.core.diagrams import Diagram
from holdfast.core.duration import Duration
from holdfast.core.graphs.builder import Graph
from holdfast.core.graphs.model import GraphStatus
from holdfast.core.validation import checked_many, checked_string
from holdfast.errors import ResultTimeout
from holdfast.service.export import export_graph
from holdfast.service.instants import Moment
from holdfast.views import graphs as views
from holdfast.views.diagram import of_graph
from holdfast.views.graphs import GraphEdgeView, GraphEventView, GraphView
from holdfast.views.why import WhyView


class GraphRun:
    """A handle to a started graph."""

    def __init__(self, graphs: Graphs, graph_id: str, revision: int) -> None:
        self.id: str = graph_id
        self.revision: int = revision
        self._graphs: Graphs = graphs

    @property
    def status(self) -> GraphStatus:
        """The current status of the graph. Raises GraphNotFound."""
        return self._graphs.status(self.id)

    def result(self, timeout: Duration | None = None) -> dict[str, Any]:
        """Wait for the graph to end and return the results of its last members, the members without
        dependents, by name. Raises GraphFailed, GraphCancelled, ResultTimeout."""
        return self._graphs.result(self.id, timeout)

    def show(self) -> GraphView:
        """Return the graph with its members. Raises GraphNotFound."""
        return self._graphs.get(self.id)

    def extend(self, graph: Graph, *, revision: int | None = None) -> int:
        """Add members and dependencies to the graph and return its new revision, as ``extend`` of
        ``engine.graphs`` does."""
        self.revision = self._graphs.extend(self.id, graph, revision=revision)
        return self.revision

    def cancel(self, policy: str = "all", reason: str = "cancelled by request") -> GraphStatus:
        """Cancel the graph, as ``cancel`` of ``engine.graphs`` does."""
        return self._graphs.cancel(self.id, policy, reason)

    def replay(self, member: str) -> None:
        """Replay an ended member, as ``replay`` of ``engine.graphs`` does."""
        self._graphs.replay(self.id, member)

    def __repr__(self) -> str:
        return f"<graph {self.id}>"


class Graphs:
    """The graphs of an ``Engine``."""

    def __init__(self, calls: Calls) -> None:
        self._calls: Calls = calls

    def start(self, graph: Graph, *, id: str | None = None) -> GraphRun:
        """Start a graph. If a graph with this *id* exists, return it if it is equal; raise
        GraphExists if it is not."""
        return (self._start([(graph, id)]))[0]

    def start_many(self, graphs: Sequence[Graph]) -> Sequence[GraphRun]:
        """Start several graphs in one transaction: all of them or none."""
        return self._start([(graph, None) for graph in checked_many("graphs", graphs)])

    def _start(self, graphs: Sequence[tuple[Graph, str | None]]) -> Sequence[GraphRun]:
        answers = self._calls.call(lambda parts: graph_procedures.start(parts, graphs))
        return [GraphRun(self, answer.graph.id, answer.graph.revision) for answer in answers]

    def open(self, graph_id: str) -> GraphRun:
        """Return a handle to a graph. Raises GraphNotFound."""
        record = self._calls.call(lambda parts: parts.graphs.record(graph_id))
        return GraphRun(self, graph_id, record.revision)

    def get(self, graph_id: str) -> GraphView:
        """Return a graph with its members, each after the members that it waits for. Raises
        GraphNotFound."""
        return self._calls.call(
            lambda parts: views.whole(
                *parts.graphs.get(graph_procedures.caught_up(parts, graph_id))
            )
        )

    def diagram(self, graph_id: str) -> Diagram:
        """Return a graph drawn as nodes and edges, with the state of each member. Raises
        GraphNotFound."""
        return of_graph(self.get(graph_id))

    def edges(
        self, graph_id: str, *, member: str | None = None, upstream: str | None = None
    ) -> Sequence[GraphEdgeView]:
        """Return the dependencies of a graph, each with its group and state. With *member*, only
        the dependencies of that member; with *upstream*, only those of other members on that one.
        Raises GraphNotFound, MemberNotFound."""

        def read(parts: Components) -> list[GraphEdgeView]:
            snapshot = parts.graphs.with_members(
                graph_procedures.caught_up(parts, graph_id), member, upstream
            )
            return views.edges(snapshot, member, upstream)

        return self._calls.call(read)

    def status(self, graph_id: str) -> GraphStatus:
        """Return the status of a graph. Raises GraphNotFound."""
        return self._calls.call(
            lambda parts: parts.graphs.record(graph_procedures.caught_up(parts, graph_id)).status
        )

    def list(
        self, *, status: str | None = None, before: str | None = None, limit: int = 50
    ) -> list[GraphView]:
        """Return graphs, newest first, without their members. *before* is the id of the last graph
        of the previous page."""
        graphs = self._calls.call(lambda parts: parts.graphs.find(status, before, limit))
        return [views.of(graph) for graph in graphs]

    def events(
        self, graph_id: str, *, after: int = 0, limit: int = 1000
    ) -> Sequence[GraphEventView]:
        """Return the audit trail of a graph, in order."""
        events = self._calls.call(lambda parts: parts.graphs.events(graph_id, after, limit))
        return [views.event_of(event) for event in events]

    def export(
        self,
        graph_id: str,
        path: str | os.PathLike[str],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Copy a graph, the runs of its members and their descendants to a new file, as
        ``engine.database.export`` does, and return the number of runs copied. Raises GraphNotFound,
        and GraphExists if the file contains the graph already."""
        report = self._calls.reporter(progress)

        def copy(parts: Components) -> int:
            record = parts.graphs.record(graph_id)
            return export_graph(
                parts.store,
                parts.sealer,
                record.id,
                lambda: open_store(path, codec=parts.codec.name),
                report,
            )

        return self._calls.call(copy)

    def why(self, graph_id: str, member: str) -> WhyView:
        """Explain what a member waits for: the members that are missing, and what would let it
        continue. Raises GraphNotFound, MemberNotFound."""
        return self._calls.call(
            lambda parts: run_views.why(
                parts,
                parts.graphs.member(graph_procedures.caught_up(parts, graph_id), member).run_id,
            )
        )

    def extend(self, graph_id: str, graph: Graph, *, revision: int | None = None) -> int:
        """Add members and dependencies to a graph that has not ended, and return its new revision.
        With *revision*, only if the graph still has that revision. Raises GraphNotFound,
        GraphFinished, GraphChanged, GraphCycle and other errors of the structure."""
        return self._calls.call(
            lambda parts: graph_procedures.extend(parts, graph_id, graph, revision)
        )

    def join(self, graph_id: str, run_id: str, *, name: str | None = None) -> int:
        """Let a run that exists become a member of a graph that has not ended, and return the
        revision of the graph. The run keeps its id; without a *name* it is named after it. If it
        has ended, its outcome counts at once. A run that is this member already changes nothing.
        Raises GraphNotFound, GraphFinished, RunNotFound, MemberElsewhere, MemberExists."""
        graph = Graph()
        graph.join(run_id, name=name)
        return self.extend(graph_id, graph)

    def cancel(
        self,
        graph_id: str,
        policy: str = "all",
        reason: str = "cancelled by request",
        *,
        by: str | None = None,
    ) -> GraphStatus:
        """Cancel a graph and return its status.

        Policies: "graph" ends the graph, and its started runs continue on their own; "pending" also
        cancels the members that have not begun; "all" cancels all members. With *by*, the person or
        program that asks, it is recorded in ``engine.audit``. Raises GraphFinished.
        """
        return self._calls.commit(
            lambda parts: parts.audit.record(
                parts.graphs.cancel(graph_id, policy, reason),
                by,
                "graphs.cancel",
                graph_id,
                policy=policy,
                reason=reason,
            )
        )

    def replay(
        self,
        graph_id: str,
        member: str,
        *,
        from_step: str | None = None,
        by: str | None = None,
    ) -> None:
        """Replay an ended member, together with the members because of which it was skipped and all
        members that were skipped because of it. With *by*, the person or program that asks, it is
        recorded in ``engine.audit``. Raises GraphNotFound, MemberNotFound."""
        self._calls.call(
            lambda parts: graph_procedures.replay(parts, graph_id, member, from_step, by)
        )

    def result(self, graph_id: str, timeout: Duration | None = None) -> dict[str, Any]:
        """Wait for a graph to end and return the results of its last members, by name. Raises
        GraphNotFound, GraphFailed, GraphCancelled, ResultTimeout."""
        checked_string("graph_id", graph_id)
        record = self._calls.wait_for_graph(
            graph_id, lambda parts: graph_procedures.read_end(parts, graph_id), timeout
        )
        if record is None:
            status = self.status(graph_id)
            raise ResultTimeout(graph=graph_id, status=status.value)
        return self._calls.call(lambda parts: graph_procedures.value(parts, record))

    def prune(self, older_than: Moment, *, batch: int = 500, by: str | None = None) -> int:
        """Delete the graphs that ended before *older_than*, and return their number. Their runs
        stay. With *by*, the person or program that asks, it is recorded in ``engine.audit``."""

        def prune(parts: Components) -> int:
            parts.graphs.prune(older_than, batch)  # refuses wrong arguments
            parts.note_action(by, "graphs.prune", "ended graphs")
            return graph_procedures.prune(parts, older_than, batch)

        return self._calls.call(prune)
