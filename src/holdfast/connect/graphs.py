"""Graphs, ``engine.graphs``: start, extend, cancel, replay and read runs that depend on each
other."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from holdfast.connect.calls import AsyncCalls, on_this_loop
from holdfast.connect.components import Components, seconds_of
from holdfast.connect.open_store import open_store
from holdfast.core.duration import Duration
from holdfast.core.graphs.builder import Graph
from holdfast.core.graphs.model import GraphStatus
from holdfast.core.runs import RunRecord
from holdfast.core.validation import checked_call, checked_many, checked_string
from holdfast.engine.runtime.ended_runs import EndedRuns
from holdfast.errors import BadGraph, GraphChanged, ResultTimeout, RunChanged
from holdfast.service.export import export_graph
from holdfast.service.graph_stages import sweep_all
from holdfast.service.graphs import TRIES, GraphEnded, GraphService
from holdfast.service.runs import Moment, Request
from holdfast.store.graphs.operations import ResolvedGraphs, StagedGraph
from holdfast.views import graphs as views
from holdfast.views.graphs import GraphEventView, GraphView

if TYPE_CHECKING:
    from holdfast.core.why.model import Why

P = ParamSpec("P")
T = TypeVar("T")


class GraphRun:
    """A handle to a started graph."""

    def __init__(self, calls: Graphs, graph_id: str, revision: int) -> None:
        self.id = graph_id
        self.revision = revision
        self._calls = calls

    @property
    def status(self) -> GraphStatus:
        """The current status of the graph. Raises GraphNotFound."""
        return self._calls.status(self.id)

    def result(self, timeout: Duration | None = None) -> dict[str, Any]:
        """Wait for the graph to end and return the results of its last members, the members without
        dependents, by name. Raises GraphFailed, GraphCancelled, ResultTimeout."""
        return self._calls.result(self.id, timeout)

    def show(self) -> GraphView:
        """Return the graph with its members. Raises GraphNotFound."""
        return self._calls.get(self.id)

    def extend(self, graph: Graph, *, revision: int | None = None) -> int:
        """Add members and dependencies to the graph and return its new revision, as ``extend`` of
        ``engine.graphs`` does."""
        self.revision = self._calls.extend(self.id, graph, revision=revision)
        return self.revision

    def cancel(self, policy: str = "all", reason: str = "cancelled by request") -> GraphStatus:
        """Cancel the graph, as ``cancel`` of ``engine.graphs`` does."""
        return self._calls.cancel(self.id, policy, reason)

    def replay(self, member: str) -> None:
        """Replay an ended member, as ``replay`` of ``engine.graphs`` does."""
        self._calls.replay(self.id, member)

    def __repr__(self) -> str:
        return f"<graph {self.id}>"


class Graphs:
    """The calls of ``Engine`` on graphs."""

    def __init__(self, parts: Components, do: Callable[[Request], Any]) -> None:
        self._parts = parts
        self._desk = GraphService(parts.client)
        self._ended = EndedRuns(parts.notifier)
        self._do = do

    def get(self, graph_id: str) -> GraphView:
        """Return a graph with its members, each after the members that it waits for. Raises
        GraphNotFound."""
        return views.whole(*self._desk.get(graph_id))

    def status(self, graph_id: str) -> GraphStatus:
        """Return the status of a graph. Raises GraphNotFound."""
        return self._desk.record(graph_id).status

    def list(
        self, *, status: str | None = None, before: str | None = None, limit: int = 50
    ) -> list[GraphView]:
        """Return graphs, newest first, without their members. *before* is the id of the last graph
        of the previous page."""
        return [views.of(graph) for graph in self._desk.find(status, before, limit)]

    def events(
        self, graph_id: str, *, after: int = 0, limit: int = 1000
    ) -> Sequence[GraphEventView]:
        """Return the audit trail of a graph, in order."""
        return [views.event_of(event) for event in self._desk.events(graph_id, after, limit)]

    def export(
        self,
        graph_id: str,
        path: str | os.PathLike[str],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Copy a graph, the runs of its members and their descendants to a new file, as
        ``Engine.export`` does, and return the number of runs copied. Raises GraphNotFound, and
        GraphExists if the file contains the graph already."""
        parts = self._parts
        record = self._desk.record(graph_id)
        checked_call("progress", progress)
        return export_graph(
            parts.store,
            parts.sealer,
            record.id,
            lambda: open_store(path, codec=parts.codec.name),
            progress,
        )

    def why(self, graph_id: str, member: str) -> Why:
        """Explain what a member waits for: the members that are missing, and what would let it
        continue. Raises GraphNotFound, MemberNotFound."""
        return self._parts.why(self._desk.member(graph_id, member).run_id)

    def _register(self, graph: Graph) -> None:
        """Register the workflows of a graph, so that the worker can execute them. Raises
        BadGraph."""
        if not isinstance(graph, Graph):
            raise BadGraph(given=type(graph).__name__, why="build the graph with holdfast.Graph()")
        # Many members share a workflow: it is registered once.
        workflows = {id(member.workflow): member.workflow for member in graph.members.values()}
        for workflow in workflows.values():
            self._parts.know(workflow)

    def _expect(self, staged: Sequence[StagedGraph]) -> None:
        """Remember graphs that were started together: their ends are read together."""
        if len(staged) > 1 and self._parts.worker is not None:
            self._ended.expect(answer.graph.id for answer in staged)

    def _adopt(self, staged: Sequence[StagedGraph | ResolvedGraphs]) -> None:
        """Execute the members that were leased to this engine's worker at their start."""
        worker = self._parts.worker
        members = [member for answer in staged for member in answer.born if member.started.leased]
        if worker is not None and members:
            runs = [
                (self._parts.sealer.new_run_opened(member.run), member.started.now)
                for member in members
            ]
            worker.loop.call_soon_threadsafe(worker.adopt_all, runs)

    def _record(self, graph_id: str) -> RunRecord:
        """Return a graph in place of a run, for ``EndedRuns``, which reads only its status. Graphs
        that were started together and have ended here are read together, which saves a query
        each."""
        ended = self._ended.fetch(
            graph_id, lambda ids: cast("list[RunRecord]", self._desk.ended(ids))
        )
        return ended or cast(RunRecord, self._desk.record(graph_id))

    def _value(self, record: RunRecord) -> dict[str, Any]:
        """Return the results of a graph that ``_record`` returned. Raises GraphFailed,
        GraphCancelled."""
        graph: Any = record
        if isinstance(graph, GraphEnded):
            return self._desk.value(graph.graph, graph.last)
        return self._desk.value(graph)

    def start(self, graph: Graph, *, id: str | None = None) -> GraphRun:
        """Start a graph. If a graph with this *id* exists, return it if it is equal; raise
        GraphExists if it is not."""
        return self._start([(graph, id)])[0]

    def start_many(self, graphs: Sequence[Graph]) -> Sequence[GraphRun]:
        """Start several graphs in one transaction: all of them or none."""
        return self._start([(graph, None) for graph in checked_many("graphs", graphs)])

    def _start(self, graphs: Sequence[tuple[Graph, str | None]]) -> Sequence[GraphRun]:
        for graph, _ in graphs:
            self._register(graph)
        if not graphs:
            return []
        answers = self._desk.start(graphs, self._parts.lease_member, self._do)
        self._expect(answers)
        self._adopt(answers)
        return [GraphRun(self, answer.graph.id, answer.graph.revision) for answer in answers]

    def open(self, graph_id: str) -> GraphRun:
        """Return a handle to a graph. Raises GraphNotFound."""
        return GraphRun(self, graph_id, self._desk.record(graph_id).revision)

    def extend(self, graph_id: str, graph: Graph, *, revision: int | None = None) -> int:
        """Add members and dependencies to a graph that has not ended, and return its new revision.
        With *revision*, only if the graph still has that revision. Raises GraphNotFound,
        GraphFinished, GraphChanged, GraphCycle and other errors of the structure."""
        self._register(graph)
        answer = self._desk.extend(graph_id, graph, revision, self._parts.lease_member, self._do)
        self._adopt([answer])
        return answer.graph.revision

    def cancel(
        self, graph_id: str, policy: str = "all", reason: str = "cancelled by request"
    ) -> GraphStatus:
        """Cancel a graph and return its status.

        Policies: "graph" ends the graph, and its started runs continue on their own; "pending" also
        cancels the members that have not begun; "all" cancels all members. Raises GraphFinished.
        """
        status: GraphStatus = self._do(self._desk.cancel(graph_id, policy, reason))
        return status

    def replay(self, graph_id: str, member: str, *, from_step: str | None = None) -> None:
        """Replay an ended member, together with the members because of which it was skipped and all
        members that were skipped because of it. Raises GraphNotFound, MemberNotFound."""
        for attempt in range(TRIES):
            try:
                for request in self._desk.replay(
                    graph_id, member, self._parts.lease_member, from_step
                ):
                    self._adopt([self._do(request)])
                return
            except (GraphChanged, RunChanged):
                if attempt == TRIES - 1:
                    raise
                # The outcome of a member with very many dependents may be only partly processed.
                self._resolve_outcomes()

    def _resolve_outcomes(self) -> None:
        """Process the recorded outcomes of members until none is left."""
        more = True
        while more:
            resolved: ResolvedGraphs = self._do(self._desk.resolve(self._parts.lease_member))
            self._adopt([resolved])
            more = resolved.more

    def result(self, graph_id: str, timeout: Duration | None = None) -> dict[str, Any]:
        """Wait for a graph to end and return the results of its last members, by name. Raises
        GraphNotFound, GraphFailed, GraphCancelled, ResultTimeout."""
        checked_string("graph_id", graph_id)
        record = self._parts.ended_runs.wait(
            graph_id, lambda: self._record(graph_id), seconds_of(timeout), time.monotonic
        )
        if record is None:
            raise ResultTimeout(graph=graph_id, status=self.status(graph_id).value)
        return self._value(record)

    def prune(self, older_than: Moment, *, batch: int = 500) -> int:
        """Delete the graphs that ended before *older_than*, and return their number. Their runs
        stay."""
        deleted = 0
        while count := self._do(self._desk.prune(older_than, batch)):
            deleted += count
            sweep_all(self._do)
        sweep_all(self._do)  # also the remains of an earlier call whose process died
        return deleted


class AsyncGraphRun:
    """A handle to a started graph."""

    def __init__(self, calls: AsyncGraphs, graph_id: str, revision: int) -> None:
        self.id = graph_id
        self.revision = revision
        self._calls = calls

    async def status(self) -> GraphStatus:
        """Return the current status of the graph. Raises GraphNotFound."""
        return await self._calls.status(self.id)

    async def result(self, timeout: Duration | None = None) -> dict[str, Any]:
        """Wait for the graph to end and return the results of its last members, the members without
        dependents, by name. Raises GraphFailed, GraphCancelled, ResultTimeout."""
        return await self._calls.result(self.id, timeout)

    async def show(self) -> GraphView:
        """Return the graph with its members. Raises GraphNotFound."""
        return await self._calls.get(self.id)

    async def extend(self, graph: Graph, *, revision: int | None = None) -> int:
        """Add members and dependencies to the graph and return its new revision, as ``extend`` of
        ``engine.graphs`` does."""
        self.revision = await self._calls.extend(self.id, graph, revision=revision)
        return self.revision

    async def cancel(
        self, policy: str = "all", reason: str = "cancelled by request"
    ) -> GraphStatus:
        """Cancel the graph, as ``cancel`` of ``engine.graphs`` does."""
        return await self._calls.cancel(self.id, policy, reason)

    async def replay(self, member: str) -> None:
        """Replay an ended member, as ``replay`` of ``engine.graphs`` does."""
        await self._calls.replay(self.id, member)

    def __repr__(self) -> str:
        return f"<graph {self.id}>"


class AsyncGraphs:
    """The calls of ``AsyncEngine`` on graphs."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls = calls

    async def _call(
        self, method: Callable[Concatenate[Graphs, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        engine = await self._calls._opened()
        return await self._calls._aside(method, engine.graphs, *args, **kwargs)

    def _handle(self, run: GraphRun) -> AsyncGraphRun:
        return AsyncGraphRun(self, run.id, run.revision)

    async def get(self, graph_id: str) -> GraphView:
        """Return a graph with its members, each after the members that it waits for. Raises
        GraphNotFound."""
        return await self._call(Graphs.get, graph_id)

    async def status(self, graph_id: str) -> GraphStatus:
        """Return the status of a graph. Raises GraphNotFound."""
        return await self._call(Graphs.status, graph_id)

    async def list(
        self, *, status: str | None = None, before: str | None = None, limit: int = 50
    ) -> list[GraphView]:
        """Return graphs, newest first, without their members. *before* is the id of the last graph
        of the previous page."""
        return await self._call(Graphs.list, status=status, before=before, limit=limit)

    async def events(
        self, graph_id: str, *, after: int = 0, limit: int = 1000
    ) -> Sequence[GraphEventView]:
        """Return the audit trail of a graph, in order."""
        return await self._call(Graphs.events, graph_id, after=after, limit=limit)

    async def export(
        self,
        graph_id: str,
        path: str | os.PathLike[str],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Copy a graph, the runs of its members and their descendants to a new file, as
        ``Engine.graphs.export`` does, and return the number of runs copied."""
        return await self._call(Graphs.export, graph_id, path, progress=on_this_loop(progress))

    async def why(self, graph_id: str, member: str) -> Why:
        """Explain what a member waits for: the members that are missing, and what would let it
        continue. Raises GraphNotFound, MemberNotFound."""
        return await self._call(Graphs.why, graph_id, member)

    async def start(self, graph: Graph, *, id: str | None = None) -> AsyncGraphRun:
        """Start a graph. If a graph with this *id* exists, return it if it is equal; raise
        GraphExists if it is not."""
        return self._handle(await self._call(Graphs.start, graph, id=id))

    async def start_many(self, graphs: Sequence[Graph]) -> Sequence[AsyncGraphRun]:
        """Start several graphs in one transaction: all of them or none."""
        return [self._handle(run) for run in await self._call(Graphs.start_many, graphs)]

    async def open(self, graph_id: str) -> AsyncGraphRun:
        """Return a handle to a graph. Raises GraphNotFound."""
        return self._handle(await self._call(Graphs.open, graph_id))

    async def extend(self, graph_id: str, graph: Graph, *, revision: int | None = None) -> int:
        """Add members and dependencies to a graph that has not ended, and return its new revision.
        Raises the errors of ``Engine.graphs.extend``."""
        return await self._call(Graphs.extend, graph_id, graph, revision=revision)

    async def cancel(
        self, graph_id: str, policy: str = "all", reason: str = "cancelled by request"
    ) -> GraphStatus:
        """Cancel a graph and return its status. *policy* is "graph", "pending" or "all", as for
        ``Engine.graphs.cancel``. Raises GraphFinished."""
        return await self._call(Graphs.cancel, graph_id, policy, reason)

    async def replay(self, graph_id: str, member: str, *, from_step: str | None = None) -> None:
        """Replay an ended member, together with the members because of which it was skipped and all
        members that were skipped because of it. Raises GraphNotFound, MemberNotFound."""
        await self._call(Graphs.replay, graph_id, member, from_step=from_step)

    async def result(self, graph_id: str, timeout: Duration | None = None) -> dict[str, Any]:
        """Wait for a graph to end and return the results of its last members, by name. Raises
        GraphNotFound, GraphFailed, GraphCancelled, ResultTimeout."""
        checked_string("graph_id", graph_id)
        engine = await self._calls._opened()
        read = partial(self._call, Graphs._record, graph_id)
        record = await engine._parts.ended_runs.wait_async(graph_id, read, seconds_of(timeout))
        if record is None:
            raise ResultTimeout(graph=graph_id, status=(await self.status(graph_id)).value)
        return await self._call(Graphs._value, record)

    async def prune(self, older_than: Moment, *, batch: int = 500) -> int:
        """Delete the graphs that ended before *older_than*, and return their number. Their runs
        stay."""
        return await self._call(Graphs.prune, older_than, batch=batch)
