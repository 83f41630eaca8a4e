"""Compile a process of a model into a graph that the token machine executes.

Everything that depends on the model alone is computed here, once per definition: the entries of
each scope, boundary events by host, compensation handlers, links, and for each inclusive join which
of its incoming flows each node can still reach.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from holdfast.authoring.bpmn.model import (
    NODES,
    SUBPROCESSES,
    Element,
    EventDefinition,
    Model,
    ModelExpression,
)
from holdfast.authoring.bpmn.starts import starting_elements
from holdfast.errors import ModelRefused

JOINS = frozenset({"parallelGateway", "inclusiveGateway"})


class FlowSpec:
    """A sequence flow."""

    __slots__ = ("condition", "id", "source", "target")

    def __init__(self, flow: Element) -> None:
        self.id: str = flow.id
        self.source: str = flow.source or ""
        self.target: str = flow.target or ""
        self.condition: ModelExpression | None = flow.condition


class NodeSpec:
    """A flow node, with all that surrounds it."""

    __slots__ = (
        "boundaries",
        "default",
        "element",
        "events",
        "id",
        "incoming",
        "inner",
        "name",
        "outgoing",
        "scope",
        "start",
        "tag",
        "undo",
    )

    def __init__(self, element: Element) -> None:
        self.id: str = element.id
        self.tag: str = element.tag
        self.name: str | None = element.name
        self.element: Element = element
        self.scope: str = element.parent or ""
        self.events: tuple[EventDefinition, ...] = element.events
        self.incoming: tuple[str, ...] = element.incoming
        self.outgoing: tuple[FlowSpec, ...] = ()
        self.default: FlowSpec | None = None
        self.boundaries: tuple[NodeSpec, ...] = ()
        """The attached events, without those of compensation."""
        self.undo: str | None = None
        """The handler that compensates the activity."""
        self.inner: ScopeSpec | None = None
        """The content of a sub-process."""
        self.start: NodeSpec | None = None
        """The start event of an event sub-process."""

    @property
    def event(self) -> EventDefinition | None:
        """The trigger of an event that has one; the first of several."""
        return self.events[0] if self.events else None

    @property
    def detailed_kind(self) -> str:
        """The kind of the element, and of an event with several triggers what they are."""
        if len(self.events) < 2:
            return self.element.kind
        needs = "all" if self.element.needs_all else "any"
        return f"{self.element.kind} of {needs} {', '.join(event.event for event in self.events)}"

    @property
    def trigger(self) -> NodeSpec:
        """The node with the triggers: the start event of an event sub-process, or the node."""
        return self if self.start is None else self.start

    @property
    def is_join(self) -> bool:
        """Whether tokens wait here for tokens of other flows."""
        return self.tag in JOINS and len(self.incoming) > 1


class ScopeSpec:
    """The content of a process or sub-process."""

    __slots__ = (
        "compensation",
        "declares",
        "entries",
        "event_subprocesses",
        "id",
        "links",
        "reach",
        "saga",
    )

    def __init__(self, id: str) -> None:
        self.id: str = id
        self.entries: tuple[NodeSpec, ...] = ()
        """The nodes that get a token when the scope begins."""
        self.event_subprocesses: tuple[NodeSpec, ...] = ()
        self.compensation: NodeSpec | None = None
        """The event sub-process that compensates the whole scope."""
        self.declares: frozenset[str] = frozenset()
        """The data objects, which are variables of the scope."""
        self.links: dict[str, NodeSpec] = {}
        self.reach: dict[str, dict[str, int]] = {}
        """For each inclusive join and node: the bits of the incoming flows that a token at the node
        can reach without passing the join."""
        self.saga: str | None = None


class ProcessGraph:
    """A process, ready for execution."""

    def __init__(self, id: str, name: str | None) -> None:
        self.id: str = id
        self.name: str | None = name
        self.nodes: dict[str, NodeSpec] = {}
        self.scopes: dict[str, ScopeSpec] = {}
        self.starts: dict[str, NodeSpec] = {}
        """The elements at which a trigger starts the process, by id."""

    @property
    def root(self) -> ScopeSpec:
        return self.scopes[self.id]


def compile_process(model: Model, process: str) -> ProcessGraph:
    """Return the graph of a process. Raises ModelRefused if the model has no such process, or if
    the process has errors."""
    info = next((entry for entry in model.processes if entry.id == process), None)
    errors = [
        problem
        for problem in model.problems
        if problem.severity == "error" and problem.process == process
    ]
    if info is None or errors:
        raise ModelRefused(errors, process=process)
    graph = ProcessGraph(process, info.name)
    elements = [element for element in model.elements.values() if element.process == process]
    _add_nodes(graph, elements)
    _add_scopes(graph, elements)
    _attach(graph, dict(model.associations))
    graph.root.saga = info.saga
    graph.starts = {
        element.id: graph.nodes[element.id] for element in starting_elements(model, process)
    }
    for scope in graph.scopes.values():
        _enter(graph, scope)
    _add_reach(graph)
    return graph


def _add_nodes(graph: ProcessGraph, elements: Iterable[Element]) -> None:
    flows = {flow.id: FlowSpec(flow) for flow in elements if flow.tag == "sequenceFlow"}
    for element in elements:
        if element.tag in NODES:
            node = NodeSpec(element)
            node.outgoing = tuple(flows[id] for id in element.outgoing)
            node.default = flows.get(element.default or "")
            graph.nodes[element.id] = node


_DATA = ("dataObject", "dataObjectReference", "property")


def _add_scopes(graph: ProcessGraph, elements: Iterable[Element]) -> None:
    graph.scopes[graph.id] = ScopeSpec(graph.id)
    for node in graph.nodes.values():
        if node.tag in SUBPROCESSES:
            node.inner = ScopeSpec(node.id)
            node.inner.saga = node.element.work.saga
            graph.scopes[node.id] = node.inner
    data = [element for element in elements if element.tag in _DATA and element.parent != graph.id]
    containers = {element.id: element.parent for element in data}
    for element in data:
        # A reference shows the name of its object, which may belong to a scope around.
        is_own = containers.get(element.data or "") == element.parent
        if is_own or element.tag != "dataObjectReference":
            scope = graph.scopes[element.parent or ""]
            scope.declares |= {element.name or element.id}


def _attach(graph: ProcessGraph, associations: Mapping[str, str]) -> None:
    for node in graph.nodes.values():
        if node.tag != "boundaryEvent" or node.event is None:
            continue
        host = graph.nodes[node.element.attached_to or ""]
        if node.event.event == "compensate":
            host.undo = associations[node.id]
        else:
            host.boundaries = (*host.boundaries, node)


def _enter(graph: ProcessGraph, scope: ScopeSpec) -> None:
    """Find the entries, event sub-processes and links of a scope."""
    inner = [node for node in graph.nodes.values() if node.scope == scope.id]
    starts = [node for node in inner if node.tag == "startEvent"]
    for node in inner:
        if node.element.is_event_subprocess:
            node.start = next(
                start
                for start in graph.nodes.values()
                if start.scope == node.id and start.tag == "startEvent"
            )
            event = node.start.event
            if event is not None and event.event == "compensate":
                scope.compensation = node
            else:
                scope.event_subprocesses = (*scope.event_subprocesses, node)
        if node.element.kind == "intermediateCatchEvent:link" and node.event is not None:
            scope.links[node.event.name or ""] = node
    plain = [node for node in starts if node.event is None]
    if plain or starts:
        scope.entries = tuple(plain)
    else:
        scope.entries = tuple(node for node in inner if _is_entry(node))


def _is_entry(node: NodeSpec) -> bool:
    element = node.element
    return (
        not node.incoming
        and node.tag != "boundaryEvent"
        and not element.is_event_subprocess
        and not element.is_for_compensation
        and not element.instantiates
        and element.kind != "intermediateCatchEvent:link"
    )


def _add_reach(graph: ProcessGraph) -> None:
    before: dict[str, list[str]] = {}
    for node in graph.nodes.values():
        for target in _successors(graph, node):
            before.setdefault(target, []).append(node.id)
    for node in graph.nodes.values():
        if node.tag == "inclusiveGateway" and node.is_join:
            graph.scopes[node.scope].reach[node.id] = _reach_of(graph, node, before)


def _successors(graph: ProcessGraph, node: NodeSpec) -> list[str]:
    """Return the nodes that a token can go to from here: by flows, boundary events and links."""
    targets = [flow.target for flow in node.outgoing]
    targets += [boundary.id for boundary in node.boundaries]
    if node.element.kind == "intermediateThrowEvent:link" and node.event is not None:
        catch = graph.scopes[node.scope].links.get(node.event.name or "")
        if catch is not None:
            targets.append(catch.id)
    return targets


def _reach_of(graph: ProcessGraph, join: NodeSpec, before: dict[str, list[str]]) -> dict[str, int]:
    """Return the bits of the incoming flows of *join* that each node can reach."""
    reach: dict[str, int] = {}
    sources = {flow.id: flow.source for node in graph.nodes.values() for flow in node.outgoing}
    for place, flow in enumerate(join.incoming):
        bit = 1 << place
        waiting = deque([sources[flow]])
        seen = {join.id}
        while waiting:
            id = waiting.popleft()
            if id in seen:
                continue
            seen.add(id)
            reach[id] = reach.get(id, 0) | bit
            waiting.extend(before.get(id, ()))
    return reach
