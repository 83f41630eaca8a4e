"""The places in the diagram of a BPMN file: shapes, waypoints, pools and lanes.

A diagram is used only if it is whole: every node of the process that is not inside a collapsed
sub-process has a shape with a size. Otherwise the drawing is laid out like one without a diagram.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import msgspec

from holdfast.authoring.bpmn.model import NODES, SUBPROCESSES, Element, Model
from holdfast.authoring.bpmn.xml import XmlNode, read_xml
from holdfast.core.diagrams import NodeBounds

_FARTHEST = 1e6
"""Coordinates beyond this are not those of a drawing."""


class ModelLane(msgspec.Struct, kw_only=True):
    """A pool or a lane. *parent* is the pool or lane around it."""

    id: str
    label: str
    parent: str | None = None
    nodes: list[str] = []


class DiagramPlaces(msgspec.Struct, kw_only=True):
    """Where the elements of one process are drawn. Without ``shapes`` they have no places."""

    shapes: dict[str, NodeBounds] = {}
    waypoints: dict[str, list[tuple[float, float]]] = {}
    collapsed: set[str] = set()
    lanes: list[ModelLane] = []


def places_of(model: Model, process: str) -> DiagramPlaces:
    """Return the pools, lanes and places of a process, as its file states them."""
    if not model.xml:
        return DiagramPlaces()
    root = read_xml(model.xml.encode(), with_diagram=True)
    places = DiagramPlaces(lanes=list(_lanes(root, process)))
    for plane in _planes(root):
        _read_plane(plane, places)
    if not _is_whole(model, process, places):
        return DiagramPlaces(lanes=places.lanes)
    return places


def hidden_in(model: Model, process: str, collapsed: set[str]) -> set[str]:
    """Return the elements inside collapsed sub-processes."""
    hidden: set[str] = set()
    for element in elements_of(model, process):  # a sub-process comes before its content
        if element.parent in collapsed or element.parent in hidden:
            hidden.add(element.id)
    return hidden


def elements_of(model: Model, process: str) -> list[Element]:
    """Return the elements of a process, in the order of the file."""
    return [element for element in model.elements.values() if element.process == process]


def _planes(root: XmlNode) -> Iterator[XmlNode]:
    for diagram in root.all("diagram:BPMNDiagram"):
        yield from diagram.all("diagram:BPMNPlane")


def _read_plane(plane: XmlNode, places: DiagramPlaces) -> None:
    for node in plane.children:
        element = (node.get("bpmnElement") or "").rpartition(":")[2]
        if not element:
            continue
        if node.tag == "diagram:BPMNShape":
            bounds = _bounds(node.first("other:Bounds"))
            if bounds is not None:
                places.shapes.setdefault(element, bounds)
            if node.get("isExpanded") == "false":
                places.collapsed.add(element)
        elif node.tag == "diagram:BPMNEdge":
            points = [_point(point) for point in node.all("other:waypoint")]
            whole = [point for point in points if point is not None]
            if len(whole) == len(points) >= 2:
                places.waypoints.setdefault(element, whole)


def _bounds(node: XmlNode | None) -> NodeBounds | None:
    if node is None:
        return None
    x, y, width, height = (_number(node.get(name)) for name in ("x", "y", "width", "height"))
    if x is None or y is None or not width or not height or width < 0 or height < 0:
        return None
    return NodeBounds(x, y, width, height)


def _point(node: XmlNode) -> tuple[float, float] | None:
    x = _number(node.get("x"))
    y = _number(node.get("y"))
    if x is None or y is None:
        return None
    return x, y


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    if not math.isfinite(number) or abs(number) > _FARTHEST:
        return None
    return number


def _is_whole(model: Model, process: str, places: DiagramPlaces) -> bool:
    subprocesses = {
        element.id for element in elements_of(model, process) if element.tag in SUBPROCESSES
    }
    places.collapsed &= subprocesses
    hidden = hidden_in(model, process, places.collapsed)
    return all(
        element.id in places.shapes
        for element in elements_of(model, process)
        if element.tag in NODES and element.id not in hidden
    )


def _lanes(root: XmlNode, process: str) -> Iterator[ModelLane]:
    """Yield the pool of a process and its lanes, the outer ones first."""
    pool: str | None = None
    for collaboration in root.all("collaboration"):
        for participant in collaboration.all("participant"):
            reference = (participant.get("processRef") or "").rpartition(":")[2]
            if reference == process and participant.get("id") and pool is None:
                pool = str(participant.get("id"))
                yield ModelLane(id=pool, label=participant.get("name") or process)
    for node in root.all("process"):
        if node.get("id") == process:
            yield from _lanes_in(node, "laneSet", pool)


def _lanes_in(node: XmlNode, tag: str, parent: str | None) -> Iterator[ModelLane]:
    for group in node.all(tag):
        for lane in group.all("lane"):
            lane_id = lane.get("id")
            if lane_id:
                nodes = [entry.text.strip() for entry in lane.all("flowNodeRef")]
                label = lane.get("name") or lane_id
                yield ModelLane(id=lane_id, label=label, parent=parent, nodes=nodes)
                yield from _lanes_in(lane, "childLaneSet", lane_id)


def lane_of(lanes: list[ModelLane]) -> Mapping[str, str]:
    """Return the innermost lane of each node."""
    return {node: lane.id for lane in lanes for node in lane.nodes}
