"""The diagram of a model: nodes and flows of one process, with the trace of a run.

The nodes keep the coordinates of the file's own diagram if it has a whole one. A sub-process is a
box, or a single node if the file draws it collapsed; pools and lanes are lanes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.authoring.bpmn.diagram_places import (
    DiagramPlaces,
    elements_of,
    hidden_in,
    lane_of,
    places_of,
)
from holdfast.authoring.bpmn.model import EVENTS, GATEWAYS, NODES, SUBPROCESSES, Element, Model
from holdfast.authoring.bpmn.token_machine.trace import ElementTrace, TraceLog
from holdfast.core.diagrams import Diagram, DiagramEdge, DiagramNode, NodeShape, NodeState
from holdfast.core.events import Event, EventKind
from holdfast.core.messages import element_of
from holdfast.core.resting_tokens import RestingToken
from holdfast.core.status import FINAL, Status

_SHAPES = {
    "userTask": NodeShape.GATE,
    "receiveTask": NodeShape.WAIT,
    "callActivity": NodeShape.RUN,
}

_ICONS = {
    "startEvent": "start",
    "endEvent": "end",
    "exclusiveGateway": "exclusive",
    "parallelGateway": "parallel",
    "inclusiveGateway": "inclusive",
    "eventBasedGateway": "event",
}

_TRIGGERS = {"compensate": "compensation", "multiple": "event"}
"""The icons of triggers whose names differ from them."""


class RunTrace(msgspec.Struct, kw_only=True):
    """What a diagram shows of a run."""

    status: Status
    tokens: Sequence[RestingToken]
    trace: TraceLog
    history: Sequence[Event]


def draw_model(model: Model, process: str, run: RunTrace | None) -> Diagram:
    """Return the diagram of a process; with *run*, with its states."""
    places = places_of(model, process)
    return _ModelDiagram(model, process, places, _RunStates(model, run)).draw()


class _ModelDiagram:
    """The nodes and edges of one process."""

    def __init__(
        self, model: Model, process: str, places: DiagramPlaces, states: _RunStates
    ) -> None:
        self._model: Model = model
        self._process: str = process
        self._places: DiagramPlaces = places
        self._states: _RunStates = states
        self._hidden: set[str] = hidden_in(model, process, places.collapsed)
        self._lane_of: Mapping[str, str] = lane_of(places.lanes)
        inner = {lane.parent for lane in places.lanes}
        self._rest: str | None = next(
            (lane.id for lane in places.lanes if lane.id not in inner), None
        )
        """The lane of nodes for which the file names none."""

    def draw(self) -> Diagram:
        shown = [
            element
            for element in elements_of(self._model, self._process)
            if element.id not in self._hidden
        ]
        nodes = [*self._lanes(), *(self._node(entry) for entry in shown if entry.tag in NODES)]
        ids = {node.id for node in nodes}
        edges = [self._flow(element) for element in shown if element.tag == "sequenceFlow"]
        edges += [
            DiagramEdge(
                source=source,
                target=target,
                kind="compensation",
                taken=self._states.is_reached(target),
            )
            for source, target in self._model.associations
        ]
        drawn = [edge for edge in edges if edge.source in ids and edge.target in ids]
        return Diagram(kind="bpmn", nodes=nodes, edges=drawn)

    def _lanes(self) -> list[DiagramNode]:
        has_places = bool(self._places.shapes)
        return [
            DiagramNode(
                id=lane.id,
                label=lane.label,
                shape=NodeShape.LANE,
                at=self._places.shapes.get(lane.id),
                inside=lane.parent,
            )
            for lane in self._places.lanes
            if not has_places or lane.id in self._places.shapes
        ]

    def _node(self, element: Element) -> DiagramNode:
        shape = self._shape(element)
        label = element.name or ""
        if not label and shape is not NodeShape.GATEWAY and shape is not NodeShape.EVENT:
            label = element.id
        return DiagramNode(
            id=element.id,
            label=" ".join(label.split()),
            shape=shape,
            icon=_icon(element),
            state=self._states.of(element),
            count=self._states.count(element),
            at=self._places.shapes.get(element.id),
            inside=self._inside(element),
            attached=element.attached_to if element.tag == "boundaryEvent" else None,
            steps=self._states.steps.get(element.id, []),
            run=self._states.children.get(element.id),
        )

    def _shape(self, element: Element) -> NodeShape:
        if element.tag in GATEWAYS:
            return NodeShape.GATEWAY
        if element.tag in EVENTS:
            return NodeShape.EVENT
        if element.tag in SUBPROCESSES:
            is_closed = element.id in self._places.collapsed
            return NodeShape.RUN if is_closed else NodeShape.BOX
        return _SHAPES.get(element.tag, NodeShape.TASK)

    def _inside(self, element: Element) -> str | None:
        if element.parent != self._process:
            return element.parent
        return self._lane_of.get(element.id, self._rest)

    def _flow(self, flow: Element) -> DiagramEdge:
        label = flow.name or (flow.condition.text if flow.condition else "")
        source = self._model.elements.get(flow.source or "")
        if not label and source is not None and source.default == flow.id:
            label = "default"
        return DiagramEdge(
            source=flow.source or "",
            target=flow.target or "",
            label=" ".join(label.split()),
            taken=self._states.is_taken(flow.id),
            points=self._places.waypoints.get(flow.id, []) if self._places.shapes else [],
        )


def _icon(element: Element) -> str:
    trigger = element.kind.partition(":")[2]
    if trigger and element.tag in EVENTS:
        return _TRIGGERS.get(trigger, trigger)
    if element.is_for_compensation:
        return "compensation"
    return _ICONS.get(element.tag, "")


class _RunStates:
    """The states of elements in a run; without one, no element is reached."""

    def __init__(self, model: Model, run: RunTrace | None) -> None:
        self.steps: dict[str, list[str]] = {}
        """The steps of each element, as the timeline names them."""
        self.children: dict[str, str] = {}
        """The run that an element has started, if it is one."""
        self._trace: TraceLog = TraceLog() if run is None else run.trace
        self._flows: set[str] = set(self._trace.flows)
        self._is_final: bool = run is not None and run.status in FINAL
        self._has_failed: bool = run is not None and run.status is Status.FAILED
        self._working: set[str] = set()
        self._incidents: set[str] = set()
        self._retried: set[str] = set()
        self._undone: set[str] = self._compensated(model)
        if run is not None:
            self._read_tokens(run.tokens)
            self._read_history(run.history)

    def _compensated(self, model: Model) -> set[str]:
        """Return the activities whose compensation has completed."""
        undone: set[str] = set()
        for event, handler in model.associations:
            host = model.elements[event].attached_to if event in model.elements else None
            if host is not None and self._entry(handler).completed:
                undone.add(host)
        return undone

    def _read_tokens(self, tokens: Sequence[RestingToken]) -> None:
        for token in tokens:
            if token.waits_for == "incident":
                self._incidents.add(token.element)
            elif token.status in ("executing", "ready"):
                self._working.add(token.element)

    def _read_history(self, history: Sequence[Event]) -> None:
        started: dict[str, list[str]] = {}
        for event in history:
            if event.step is None:
                continue
            element = element_of(event.step)
            steps = self.steps.setdefault(element, [])
            if event.step not in steps[-1:]:
                steps.append(event.step)
            if event.kind == EventKind.STEP_RETRIED:
                self._retried.add(element)
            elif event.kind == EventKind.CHILD_STARTED and event.data:
                child = msgspec.json.decode(event.data).get("run")
                started.setdefault(element, []).append(str(child))
        self.steps = {element: list(dict.fromkeys(steps)) for element, steps in self.steps.items()}
        self.children = {element: runs[0] for element, runs in started.items() if len(runs) == 1}

    def _entry(self, element: str) -> ElementTrace:
        return self._trace.elements.get(element) or ElementTrace()

    def is_reached(self, element: str) -> bool:
        return self._entry(element).entered > 0

    def is_taken(self, flow: str) -> bool:
        return flow in self._flows

    def count(self, element: Element) -> int:
        return max(1, self._entry(element.id).entered)

    def of(self, element: Element) -> NodeState:
        entry = self._entry(element.id)
        if element.id in self._incidents:
            return NodeState.FAILED
        if entry.active > 0:
            return self._active(element)
        if element.id in self._undone:
            return NodeState.COMPENSATED
        if entry.completed > 0:
            return NodeState.RETRIED if element.id in self._retried else NodeState.COMPLETED
        if entry.cancelled > 0:
            return NodeState.SKIPPED
        return NodeState.COMPLETED if entry.entered > 0 else NodeState.NOT_REACHED

    def _active(self, element: Element) -> NodeState:
        if self._has_failed:
            return NodeState.FAILED
        if self._is_final:
            return NodeState.SKIPPED
        if element.id in self._working or element.tag in SUBPROCESSES:
            return NodeState.RUNNING
        return NodeState.WAITING
