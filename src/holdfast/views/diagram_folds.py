"""Fold the boxes of a large diagram, so that it is drawn with few nodes.

A folded box is one node, with the number of nodes in it and their combined state; edges to and from
them lead to the box. Pools and lanes are never folded: they are rows across the whole diagram.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from holdfast.core.diagrams import (
    Diagram,
    DiagramEdge,
    DiagramNode,
    NodeShape,
    NodeState,
    combined,
)

FOLD_BEYOND = 300
"""The number of nodes beyond which boxes are folded."""

MOST_STEPS = 100
"""The steps that a folded box names."""

EVERY_BOX = "*"
"""Stands for all boxes among those to open."""


def folded(diagram: Diagram, opened: Collection[str] = (), most: int = FOLD_BEYOND) -> Diagram:
    """Return a diagram with its boxes folded, except those in *opened*; a diagram with at most
    *most* nodes as it is."""
    if len(diagram.nodes) <= most or EVERY_BOX in opened:
        return diagram
    by_id = {node.id: node for node in diagram.nodes}
    boxes = {node.id: _box(node, by_id, opened) for node in diagram.nodes}
    inner: dict[str, list[DiagramNode]] = {}
    for node in diagram.nodes:
        box = boxes[node.id]
        if box is not None:
            inner.setdefault(box, []).append(node)
    nodes = [
        _folded_box(node, inner[node.id]) if node.id in inner else node
        for node in diagram.nodes
        if boxes[node.id] is None
    ]
    return Diagram(kind=diagram.kind, nodes=nodes, edges=_edges(diagram, boxes))


def _box(
    node: DiagramNode, by_id: Mapping[str, DiagramNode], opened: Collection[str]
) -> str | None:
    """Return the outermost folded box that contains a node; None if the node is shown."""
    outermost = None
    seen: set[str] = set()
    place = node.inside
    while place is not None and place in by_id and place not in seen:
        seen.add(place)
        if by_id[place].shape is NodeShape.BOX and place not in opened:
            outermost = place
        place = by_id[place].inside
    return outermost


def _folded_box(box: DiagramNode, inner: list[DiagramNode]) -> DiagramNode:
    leaves = [node for node in inner if node.shape is not NodeShape.BOX]
    state = box.state
    if state is NodeState.NOT_REACHED:
        state = combined([node.state for node in inner])
    steps = [step for node in [box, *inner] for step in node.steps]
    return msgspec.structs.replace(
        box,
        shape=NodeShape.RUN,
        state=state,
        folded=len(leaves),
        steps=list(dict.fromkeys(steps))[:MOST_STEPS],
    )


def _edges(diagram: Diagram, boxes: Mapping[str, str | None]) -> list[DiagramEdge]:
    """Return the edges between the nodes that are shown, each once."""
    edges: dict[tuple[str, str, str, str], DiagramEdge] = {}
    for edge in diagram.edges:
        source = boxes.get(edge.source) or edge.source
        target = boxes.get(edge.target) or edge.target
        if (source, target) != (edge.source, edge.target):
            if source == target:
                continue
            edge = msgspec.structs.replace(edge, source=source, target=target, points=[])
        key = (source, target, edge.kind, edge.label)
        known = edges.setdefault(key, edge)
        if edge.taken and not known.taken:
            edges[key] = msgspec.structs.replace(known, taken=True)
    return list(edges.values())
