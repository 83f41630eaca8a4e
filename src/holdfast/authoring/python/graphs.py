"""The call that extends a graph from inside one of its members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.authoring import registry
from holdfast.authoring.replay.call import Call
from holdfast.authoring.replay.replay import ReplayProgram
from holdfast.core.commands import ExtendGraph
from holdfast.core.definitions import ref_to
from holdfast.core.events import Event
from holdfast.core.graphs.builder import Graph
from holdfast.core.graphs.compile import GraphCompiler, encode_unchecked
from holdfast.core.graphs.model import run_of
from holdfast.core.program import is_definition
from holdfast.core.runs import Route
from holdfast.core.validation import checked_capabilities, checked_text
from holdfast.errors import BadGraph, UnknownWorkflow
from holdfast.errors.base import safe_repr


def extend_call(program: ReplayProgram, graph: Graph) -> Call:
    """Return the call that adds the members of *graph* to the graph of this run.

    It decodes to the ids of the new runs, by member name. Raises BadGraph, UnknownWorkflow.
    """
    if not isinstance(graph, Graph):
        raise BadGraph(graph=type(graph).__name__, why="build the graph as a holdfast.Graph")
    graph_id = program.run.graph_id
    if graph_id is None:
        raise BadGraph(run=program.run.id, why="this run is not a member of a graph")

    def route(workflow: Any, options: Mapping[str, Any]) -> Route:
        definition = _find_workflow(workflow)
        capabilities = options.get("capabilities")
        return Route(
            checked_text("namespace", options.get("namespace")) or program.run.namespace,
            definition.name,
            checked_text("version", str(options.get("version") or definition.version)) or "",
            checked_text("lane", options.get("lane")) or definition.lane,
            definition.capabilities if capabilities is None else checked_capabilities(capabilities),
        )

    def encode(workflow: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        data: bytes = _find_workflow(workflow).signature.encode_checked(
            program.codec, tuple(args), dict(kwargs)
        )
        return data

    def encode_template(workflow: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        return encode_unchecked(program.codec, _find_workflow(workflow), args, kwargs)

    patch, fingerprint = GraphCompiler(route, encode, encode_template).patch(graph, graph_id)

    def decode(event: Event) -> dict[str, str]:
        data = msgspec.json.decode(event.data or b"{}")
        joined: dict[str, str] = data.get("joined", {})
        return {name: run_of(graph_id, name) for name in data.get("members", [])} | joined

    new = [member for member in graph.members.values() if member.joins is None]
    targets = [ref_to(_find_workflow(member.workflow)) for member in new]
    return Call(
        ExtendGraph(program.identify("extend"), graph_id, patch, targets, fingerprint), decode
    )


def _find_workflow(workflow: Any) -> Any:
    """Return a definition by itself or by its name. Raises UnknownWorkflow."""
    definition = registry.find(workflow) if isinstance(workflow, str) else workflow
    if not is_definition(definition):
        raise UnknownWorkflow(
            workflow=workflow if isinstance(workflow, str) else safe_repr(workflow)
        )
    return definition
