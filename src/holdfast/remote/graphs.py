"""Start, extend and await graphs over HTTP, which sends the document that describes a graph."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from holdfast.core.duration import Duration
from holdfast.core.graphs.builder import Graph
from holdfast.core.graphs.document import document_of
from holdfast.core.graphs.model import GraphStatus
from holdfast.errors import BadGraph, ResultTimeout
from holdfast.remote.calls import OPERATIONS, HttpCalls
from holdfast.remote.namespaces import RemoteNamespace, call
from holdfast.remote.polling import POLL, ends_at
from holdfast.views.graphs import GraphView


class RemoteGraphRun:
    """A handle to a started graph of a server."""

    def __init__(self, graphs: RemoteGraphs, graph_id: str, revision: int) -> None:
        self.id: str = graph_id
        self.revision: int = revision
        self._graphs: RemoteGraphs = graphs

    @property
    def status(self) -> GraphStatus:
        """The current status of the graph. Raises GraphNotFound."""
        return GraphStatus(self._graphs.status(self.id))

    def result(self, timeout: Duration | None = None) -> dict[str, Any]:
        """Wait for the graph to end and return the results of its last members. Raises GraphFailed,
        GraphCancelled, ResultTimeout."""
        return self._graphs.result(self.id, timeout)

    def show(self) -> GraphView:
        """Return the graph with its members. Raises GraphNotFound."""
        view: GraphView = self._graphs.get(self.id)
        return view

    def extend(self, graph: Graph, *, revision: int | None = None) -> int:
        """Add members and dependencies to the graph and return its new revision."""
        self.revision = self._graphs.extend(self.id, graph, revision=revision)
        return self.revision

    def cancel(self, *args: Any, **options: Any) -> GraphStatus:
        """Cancel the graph."""
        return GraphStatus(self._graphs.cancel(self.id, *args, **options))

    def replay(self, member: str) -> None:
        """Replay an ended member."""
        self._graphs.replay(self.id, member)

    def __repr__(self) -> str:
        return f"<graph {self.id}>"


class RemoteGraphs(RemoteNamespace):
    """The graphs of a server."""

    def __init__(self, calls: HttpCalls) -> None:
        super().__init__(calls, "graphs")

    def start(self, graph: Graph, *, id: str | None = None) -> RemoteGraphRun:
        """Start a graph. Its workflows are sent by their names. Raises BadGraph, GraphExists."""
        arguments = {"graph": _document(graph), "id": id}
        return self._handle(self._calls.call(OPERATIONS["graphs.start"], arguments))

    def start_many(self, graphs: Sequence[Graph]) -> list[RemoteGraphRun]:
        """Start several graphs in one transaction: all of them or none."""
        arguments = {"graphs": [_document(graph) for graph in graphs]}
        started = self._calls.call(OPERATIONS["graphs.start_many"], arguments)
        return [self._handle(answer) for answer in started]

    def open(self, graph_id: str) -> RemoteGraphRun:
        """Return a handle to a graph. Raises GraphNotFound."""
        view: GraphView = self.get(graph_id)
        return RemoteGraphRun(self, graph_id, view.revision)

    def extend(self, graph_id: str, graph: Graph, *, revision: int | None = None) -> int:
        """Add members and dependencies to a graph and return its new revision."""
        arguments = {"graph_id": graph_id, "graph": _document(graph), "revision": revision}
        return int(self._calls.call(OPERATIONS["graphs.extend"], arguments)["revision"])

    def result(self, graph_id: str, timeout: Duration | None = None) -> dict[str, Any]:
        """Wait for a graph to end and return the results of its last members. Raises GraphFailed,
        GraphCancelled, ResultTimeout, GraphNotFound."""
        until = ends_at(timeout)
        while True:
            left = min(POLL, until - time.monotonic())
            answer = call(
                self._calls, "graphs.result", {"graph_id": graph_id}, wait=f"{max(left, 0.0):.3f}s"
            )
            if answer["done"]:
                result: dict[str, Any] = answer["result"]
                return result
            if time.monotonic() >= until:
                raise ResultTimeout(graph=graph_id, status=answer["status"])

    def _handle(self, answer: dict[str, Any]) -> RemoteGraphRun:
        return RemoteGraphRun(self, answer["id"], answer["revision"])


def _document(graph: Graph) -> dict[str, Any]:
    if not isinstance(graph, Graph):
        raise BadGraph(given=type(graph).__name__, why="build the graph with holdfast.Graph()")
    return document_of(graph)
