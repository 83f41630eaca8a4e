"""Drawings of runs, graphs and definitions: the folded timeline, and diagrams with their places."""

from __future__ import annotations

from holdfast.connect import run_drawings
from holdfast.connect.async_run import AsyncRun
from holdfast.core.api_keys import Right
from holdfast.core.diagrams import Diagram
from holdfast.server.calls import HttpCall
from holdfast.server.operation import HttpParameter, operation
from holdfast.views.diagram_folds import folded
from holdfast.views.layout import placed

OPEN = HttpParameter("open", str | list[str], False)
"""The boxes of a large diagram that are not folded; ``*``: none is."""


def _drawn(call: HttpCall, diagram: Diagram) -> Diagram:
    opened = call.arguments.get("open", ())
    return placed(folded(diagram, [opened] if isinstance(opened, str) else opened))


async def run_diagram(call: HttpCall) -> Diagram:
    """Return a run drawn as nodes and edges, with their places and the state of each node. Beyond
    300 nodes its boxes are folded, except those in *open*. Raises RunNotFound."""
    run: AsyncRun[object] = AsyncRun(call.engine._calls, call.path["id"])
    return _drawn(call, await run.diagram())


async def graph_diagram(call: HttpCall) -> Diagram:
    """Return a graph drawn as nodes and edges, with their places and the state of each member.
    Raises GraphNotFound."""
    return _drawn(call, await call.engine.graphs.diagram(call.path["graph_id"]))


async def workflow_diagram(call: HttpCall) -> Diagram:
    """Return a workflow drawn as nodes and edges, without a run: a text or a model from its
    definition; code from the last run that has completed, and empty if there is none. Raises
    UnknownWorkflow."""
    name = call.path["name"]
    version = call.arguments.get("version")
    diagram = await call.engine._calls.call(
        lambda parts: run_drawings.definition_diagram(parts, name, version)
    )
    return _drawn(call, diagram)


OPERATIONS = (
    operation("run.timeline", "GET /runs/{id}/timeline", Right.VIEW),
    operation(
        "run.diagram", "GET /runs/{id}/diagram", Right.VIEW, handler=run_diagram, extra=(OPEN,)
    ),
    operation(
        "graphs.diagram",
        "GET /graphs/{graph_id}/diagram",
        Right.VIEW,
        handler=graph_diagram,
        extra=(OPEN,),
    ),
    operation(
        "server.workflow_diagram",
        "GET /workflows/{name}/diagram",
        Right.VIEW,
        handler=workflow_diagram,
        extra=(HttpParameter("version", str, False), OPEN),
        answer=Diagram,
    ),
)
