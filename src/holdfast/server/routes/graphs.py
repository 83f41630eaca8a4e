"""Operations on graphs, which a request describes as the JSON of ``holdfast graphs start``."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from holdfast.core.api_keys import Right
from holdfast.core.graphs.builder import Graph
from holdfast.core.graphs.document import read as read_graph
from holdfast.core.status import Status
from holdfast.server.answers import StartedGraphView
from holdfast.server.calls import HttpCall
from holdfast.server.files import exported
from holdfast.server.operation import HttpParameter, operation
from holdfast.server.routes.runs import WAIT, waited

VIEW = Right.VIEW
START = Right.START
OPERATE = Right.OPERATE
ADMIN = Right.ADMIN

GRAPH = HttpParameter("graph", dict[str, Any], True)


class GraphResultView(msgspec.Struct, kw_only=True):
    """The status of a graph and, if it has completed, the results of its last members. ``done`` is
    False if it has not ended within the time that the request waited."""

    id: str
    status: str
    done: bool
    result: dict[str, Any] | None = None


def graph_of(value: Any) -> Graph:
    """Return the graph that JSON describes. Raises BadGraph and other errors of the structure."""
    return read_graph(msgspec.json.encode(value))


async def start(call: HttpCall) -> Any:
    """Start a graph. If a graph with this id exists, an equal one is returned; an Idempotency-Key
    stands for an id. Raises BadGraph,
    GraphExists, GraphCycle, SelfEdge, EdgeExists, MemberNotFound, MemberExists, BadOption."""
    return await call.engine.graphs.start(
        graph_of(call.arguments["graph"]), id=call.arguments.get("id")
    )


async def start_many(call: HttpCall) -> Any:
    """Start several graphs in one transaction: all of them or none. With an Idempotency-Key, a
    repeated call returns the same graphs. Raises BadGraph, GraphExists, GraphCycle, SelfEdge,
    EdgeExists, MemberNotFound, MemberExists, BadOption."""
    graphs = [graph_of(graph) for graph in call.arguments["graphs"]]
    first = call.derived_id()
    if first is None:
        return await call.engine.graphs.start_many(graphs)
    return await call.engine.graphs._start(
        [(graph, f"{first}-{number}") for number, graph in enumerate(graphs)]
    )


async def extend(call: HttpCall) -> StartedGraphView:
    """Add members and dependencies to a graph that has not ended. Raises GraphNotFound,
    GraphFinished, GraphChanged, GraphCycle, BadGraph, MemberNotFound, MemberExists,
    MemberStarted."""
    graph_id = call.path["graph_id"]
    revision = await call.engine.graphs.extend(
        graph_id, graph_of(call.arguments["graph"]), revision=call.arguments.get("revision")
    )
    return StartedGraphView(id=graph_id, revision=revision)


async def result(call: HttpCall) -> GraphResultView:
    """Return the results of the last members of a graph; with *wait* (at most 30 s), wait so long
    for its end. Raises GraphNotFound, GraphFailed, GraphCancelled."""
    graphs = call.engine.graphs
    graph_id = call.path["graph_id"]
    status = (await graphs.status(graph_id)).value
    value = await waited(
        call, status == "running", lambda timeout: graphs.result(graph_id, timeout)
    )
    if value is None:
        current = (await graphs.status(graph_id)).value
        return GraphResultView(id=graph_id, status=current, done=False)
    return GraphResultView(
        id=graph_id, status=Status.COMPLETED.value, done=True, result=value.result
    )


async def export(call: HttpCall) -> Response:
    """Return a graph, the runs of its members and their descendants as a SQLite file. Raises
    GraphNotFound."""
    graph_id = call.path["graph_id"]
    return await exported(
        f"graph-{graph_id}.db", lambda path: call.engine.graphs.export(graph_id, path)
    )


OPERATIONS = (
    operation("graphs.list", "GET /graphs", VIEW),
    operation("graphs.get", "GET /graphs/{graph_id}", VIEW),
    operation("graphs.status", "GET /graphs/{graph_id}/status", VIEW, field="status"),
    operation("graphs.edges", "GET /graphs/{graph_id}/edges", VIEW),
    operation("graphs.events", "GET /graphs/{graph_id}/events", VIEW),
    operation("graphs.why", "GET /graphs/{graph_id}/members/{member}/why", VIEW),
    operation("graphs.cancel", "POST /graphs/{graph_id}/cancel", OPERATE, field="status"),
    operation(
        "graphs.replay", "POST /graphs/{graph_id}/members/{member}/replay", OPERATE, status=204
    ),
    operation("graphs.join", "POST /graphs/{graph_id}/join", START, field="revision"),
    operation("graphs.prune", "POST /graphs/prune", ADMIN, field="graphs"),
    operation(
        "graphs.start",
        "POST /graphs",
        START,
        handler=start,
        status=201,
        extra=(GRAPH,),
        derived_id="id",
    ),
    operation(
        "graphs.start_many",
        "POST /graphs/batch",
        START,
        handler=start_many,
        status=201,
        extra=(HttpParameter("graphs", list[dict[str, Any]], True),),
    ),
    operation(
        "graphs.extend",
        "POST /graphs/{graph_id}/extend",
        START,
        handler=extend,
        extra=(GRAPH,),
        answer=StartedGraphView,
    ),
    operation(
        "graphs.result",
        "GET /graphs/{graph_id}/result",
        VIEW,
        handler=result,
        fixed={"timeout": None},
        extra=(WAIT,),
        answer=GraphResultView,
        needs_values=True,
    ),
    operation(
        "graphs.export",
        "GET /graphs/{graph_id}/export",
        OPERATE,
        handler=export,
        answer=Any,
        media="application/vnd.sqlite3",
        needs_values=True,
    ),
)
