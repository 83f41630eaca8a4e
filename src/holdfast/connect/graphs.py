"""Graphs: ``engine.graphs``."""

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
from holdfast.engine.runtime.results import Results
from holdfast.errors import BadGraph, GraphChanged, ResultTimeout, RunChanged
from holdfast.service.export import export_graph
from holdfast.service.graph_stages import sweep_all
from holdfast.service.graphs import TRIES, GraphEnded, GraphService, GraphView
from holdfast.service.runs import Moment, Request
from holdfast.store.contract import ResolvedGraphs, StagedGraph

if TYPE_CHECKING:
    from holdfast.core.why.model import Why

P = ParamSpec("P")
T = TypeVar("T")


class GraphRun:
    """A handle on a graph that was started."""

    def __init__(self, calls: Graphs, graph_id: str, revision: int) -> None:
        self.id, self.revision = graph_id, revision
        self._calls = calls

    @property
    def status(self) -> GraphStatus:
        """Where the graph stands now."""
        return self._calls.status(self.id)

    def result(self, timeout: Duration | None = None) -> dict[str, Any]:
        """Wait for the graph to end and return the results of its last members, by name: those that
        nobody waits for. Raises GraphFailed, GraphCancelled, ResultTimeout."""
        return self._calls.result(self.id, timeout)

    def show(self) -> GraphView:
        """Return the graph with its members."""
        return self._calls.get(self.id)

    def extend(self, graph: Graph, *, revision: int | None = None) -> int:
        """Add to the graph and return its new revision."""
        self.revision = self._calls.extend(self.id, graph, revision=revision)
        return self.revision

    def cancel(self, policy: str = "all", reason: str = "cancelled by request") -> GraphStatus:
        """Cancel the graph."""
        return self._calls.cancel(self.id, policy, reason)

    def replay(self, member: str) -> None:
        """Let a member that has ended end anew."""
        self._calls.replay(self.id, member)

    def __repr__(self) -> str:
        return f"<graph {self.id}>"


class Graphs:
    """Graphs of an ``Engine``: runs that depend on each other."""

    def __init__(self, parts: Components, do: Callable[[Request], Any]) -> None:
        self._parts, self._desk = parts, GraphService(parts.client)
        self._ended = Results()
        parts.writer.listeners.append(self._ended.hinted)
        self._do = do

    def get(self, graph_id: str) -> GraphView:
        """Return a graph with its members, each after those that it waits for. Raises
        GraphNotFound."""
        return self._desk.get(graph_id)

    def status(self, graph_id: str) -> GraphStatus:
        """Return where a graph stands. Raises GraphNotFound."""
        return self._desk.record(graph_id).status

    def list(
        self, *, status: str | None = None, before: str | None = None, limit: int = 50
    ) -> list[GraphView]:
        """Return graphs from new to old, without their members."""
        return self._desk.find(status, before, limit)

    def events(
        self, graph_id: str, *, after: int = 0, limit: int = 1000
    ) -> Sequence[dict[str, Any]]:
        """Return the audit trail of a graph, in order."""
        return self._desk.events(graph_id, after, limit)

    def export(
        self,
        graph_id: str,
        path: str | os.PathLike[str],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Copy a graph, the runs of its members and all below them to a new file, as
        ``Engine.export`` does; return how many runs. Raises GraphNotFound, and GraphExists when the
        file has it already."""
        parts, record = self._parts, self._desk.record(graph_id)
        checked_call("progress", progress)
        return export_graph(
            parts.store,
            parts.sealer,
            record.id,
            lambda: open_store(path, codec=parts.codec.name),
            progress,
        )

    def why(self, graph_id: str, member: str) -> Why:
        """Say what a member waits for: which others are missing, and what would make it go on.
        Raises MemberNotFound."""
        return self._parts.why(self._desk.member(graph_id, member).run_id)

    def _learn(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):
            raise BadGraph(given=type(graph).__name__, why="draw it up with holdfast.Graph()")
        for workflow in {
            id(member.workflow): member.workflow for member in graph.members.values()
        }.values():
            self._parts.know(workflow)

    def _expect(self, staged: Sequence[StagedGraph]) -> None:
        if len(staged) > 1 and self._parts.worker is not None:
            self._ended.expect(answer.graph.id for answer in staged)

    def _adopt(self, staged: Sequence[StagedGraph | ResolvedGraphs]) -> None:
        """Go on, here, with the members that were born leased to this engine's worker."""
        worker = self._parts.worker
        born = [one for answer in staged for one in answer.born if one.started.leased]
        if worker is not None and born:
            runs = [(self._parts.sealer.new_run_opened(one.run), one.started.now) for one in born]
            worker.loop.call_soon_threadsafe(worker.adopt_all, runs)

    def _record(self, graph_id: str) -> RunRecord:
        """Return a graph as those see it who wait for the end of runs: it has a status, and that is
        all they look at. Those that were started together and have ended here are read together."""
        ended = self._ended.fetch(
            graph_id, lambda ids: cast("list[RunRecord]", self._desk.ended(ids))
        )
        return ended or cast(RunRecord, self._desk.record(graph_id))

    def _value(self, found: RunRecord) -> dict[str, Any]:
        ended: Any = found
        return (
            self._desk.value(ended.graph, ended.last)
            if isinstance(ended, GraphEnded)
            else self._desk.value(ended)
        )

    def start(self, graph: Graph, *, id: str | None = None) -> GraphRun:
        """Start a graph. With an *id* it is started once: the same graph again is that one, another
        one is refused."""
        return self._start([(graph, id)])[0]

    def start_many(self, graphs: Sequence[Graph]) -> Sequence[GraphRun]:
        """Start several graphs: all of them or none, in one transaction."""
        return self._start([(graph, None) for graph in checked_many("graphs", graphs)])

    def _start(self, graphs: Sequence[tuple[Graph, str | None]]) -> Sequence[GraphRun]:
        for graph, _ in graphs:
            self._learn(graph)
        answers: list[StagedGraph] = (
            self._desk.start(graphs, self._parts.lease_member, self._do) if graphs else []
        )
        self._expect(answers)
        self._adopt(answers)
        return [GraphRun(self, answer.graph.id, answer.graph.revision) for answer in answers]

    def open(self, graph_id: str) -> GraphRun:
        """Return a handle on a graph. Raises GraphNotFound."""
        return GraphRun(self, graph_id, self._desk.record(graph_id).revision)

    def extend(self, graph_id: str, graph: Graph, *, revision: int | None = None) -> int:
        """Add members and dependencies to a graph that has not ended; return its new revision. With
        a *revision* only if nobody has changed its structure since. Raises GraphFinished,
        GraphChanged, GraphCycle and the like."""
        self._learn(graph)
        answer = self._desk.extend(graph_id, graph, revision, self._parts.lease_member, self._do)
        self._adopt([answer])
        return answer.graph.revision

    def cancel(
        self, graph_id: str, policy: str = "all", reason: str = "cancelled by request"
    ) -> GraphStatus:
        """Cancel a graph. "graph": it ends, what was started goes on by itself; "pending": what has
        not begun stops, too; "all": everything does. Raises GraphFinished."""
        status: GraphStatus = self._do(self._desk.cancel(graph_id, policy, reason))
        return status

    def replay(self, graph_id: str, member: str, *, from_step: str | None = None) -> None:
        """Let a member that has ended end anew, with those for which it was skipped and all that
        were skipped because of it."""
        for number in range(TRIES):
            try:
                for request in self._desk.replay(
                    graph_id, member, self._parts.lease_member, from_step
                ):
                    self._adopt([self._do(request)])
                return
            except (GraphChanged, RunChanged):
                if number == TRIES - 1:
                    raise
                self._settle()  # an end with very many dependents may be what is in the way

    def _settle(self) -> None:
        more = True
        while more:
            settled: ResolvedGraphs = self._do(self._desk.resolve(self._parts.lease_member))
            self._adopt([settled])
            more = settled.more

    def result(self, graph_id: str, timeout: Duration | None = None) -> dict[str, Any]:
        """Wait for a graph to end and return the results of its last members, by name. Raises
        GraphFailed, GraphCancelled."""
        checked_string("graph_id", graph_id)
        found = self._parts.results.wait(
            graph_id, lambda: self._record(graph_id), seconds_of(timeout), time.monotonic
        )
        if found is None:
            raise ResultTimeout(graph=graph_id, status=self.status(graph_id).value)
        return self._value(found)

    def prune(self, older_than: Moment, *, batch: int = 500) -> int:
        """Delete graphs that ended longer ago than *older_than*; their runs stay. Return how many
        went."""
        gone = 0
        while done := self._do(self._desk.prune(older_than, batch)):
            gone += done
            sweep_all(self._do)
        sweep_all(self._do)  # what a call before this one has left behind, if its process died
        return gone


class AsyncGraphRun:
    """A handle on a graph that was started."""

    def __init__(self, calls: AsyncGraphs, graph_id: str, revision: int) -> None:
        self.id, self.revision = graph_id, revision
        self._calls = calls

    async def status(self) -> GraphStatus:
        """Return where the graph stands now."""
        return await self._calls.status(self.id)

    async def result(self, timeout: Duration | None = None) -> dict[str, Any]:
        """Wait for the graph to end and return the results of its last members, by name."""
        return await self._calls.result(self.id, timeout)

    async def show(self) -> GraphView:
        """Return the graph with its members."""
        return await self._calls.get(self.id)

    async def extend(self, graph: Graph, *, revision: int | None = None) -> int:
        """Add to the graph and return its new revision."""
        self.revision = await self._calls.extend(self.id, graph, revision=revision)
        return self.revision

    async def cancel(
        self, policy: str = "all", reason: str = "cancelled by request"
    ) -> GraphStatus:
        """Cancel the graph."""
        return await self._calls.cancel(self.id, policy, reason)

    async def replay(self, member: str) -> None:
        """Let a member that has ended end anew."""
        await self._calls.replay(self.id, member)

    def __repr__(self) -> str:
        return f"<graph {self.id}>"


class AsyncGraphs:
    """Graphs of an ``AsyncEngine``."""

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
        """Return a graph with its members, each after those that it waits for. Raises
        GraphNotFound."""
        return await self._call(Graphs.get, graph_id)

    async def status(self, graph_id: str) -> GraphStatus:
        """Return where a graph stands. Raises GraphNotFound."""
        return await self._call(Graphs.status, graph_id)

    async def list(
        self, *, status: str | None = None, before: str | None = None, limit: int = 50
    ) -> list[GraphView]:
        """Return graphs from new to old, without their members."""
        return await self._call(Graphs.list, status=status, before=before, limit=limit)

    async def events(
        self, graph_id: str, *, after: int = 0, limit: int = 1000
    ) -> Sequence[dict[str, Any]]:
        """Return the audit trail of a graph, in order."""
        return await self._call(Graphs.events, graph_id, after=after, limit=limit)

    async def export(
        self,
        graph_id: str,
        path: str | os.PathLike[str],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Copy a graph, the runs of its members and all below them to a new file, as
        ``Engine.graphs.export`` does."""
        return await self._call(Graphs.export, graph_id, path, progress=on_this_loop(progress))

    async def why(self, graph_id: str, member: str) -> Why:
        """Say what a member waits for: which others are missing, and what would make it go on.
        Raises MemberNotFound."""
        return await self._call(Graphs.why, graph_id, member)

    async def start(self, graph: Graph, *, id: str | None = None) -> AsyncGraphRun:
        """Start a graph. With an *id* it is started once: the same graph again is that one, another
        one is refused."""
        return self._handle(await self._call(Graphs.start, graph, id=id))

    async def start_many(self, graphs: Sequence[Graph]) -> Sequence[AsyncGraphRun]:
        """Start several graphs: all of them or none, in one transaction."""
        return [self._handle(run) for run in await self._call(Graphs.start_many, graphs)]

    async def open(self, graph_id: str) -> AsyncGraphRun:
        """Return a handle on a graph. Raises GraphNotFound."""
        return self._handle(await self._call(Graphs.open, graph_id))

    async def extend(self, graph_id: str, graph: Graph, *, revision: int | None = None) -> int:
        """Add members and dependencies to a graph that has not ended; return its new revision."""
        return await self._call(Graphs.extend, graph_id, graph, revision=revision)

    async def cancel(
        self, graph_id: str, policy: str = "all", reason: str = "cancelled by request"
    ) -> GraphStatus:
        """Cancel a graph: "graph", "pending" or "all" says what that reaches. Raises
        GraphFinished."""
        return await self._call(Graphs.cancel, graph_id, policy, reason)

    async def replay(self, graph_id: str, member: str, *, from_step: str | None = None) -> None:
        """Let a member that has ended end anew, with those for which it was skipped and all that
        were skipped because of it."""
        await self._call(Graphs.replay, graph_id, member, from_step=from_step)

    async def result(self, graph_id: str, timeout: Duration | None = None) -> dict[str, Any]:
        """Wait for a graph to end and return the results of its last members, by name. Raises
        GraphFailed, GraphCancelled."""
        checked_string("graph_id", graph_id)
        engine = await self._calls._opened()
        look = partial(self._call, Graphs._record, graph_id)
        found = await engine._parts.results.wait_async(graph_id, look, seconds_of(timeout))
        if found is None:
            raise ResultTimeout(graph=graph_id, status=(await self.status(graph_id)).value)
        return await self._call(Graphs._value, found)

    async def prune(self, older_than: Moment, *, batch: int = 500) -> int:
        """Delete graphs that ended longer ago than *older_than*; their runs stay. Return how many
        went."""
        return await self._call(Graphs.prune, older_than, batch=batch)
