"""The layout of a diagram: layers by the longest path, few crossings, orthogonal edges.

A diagram with coordinates of its own keeps them. Otherwise each box is laid out by itself, the
innermost ones first, and is then one item of the box around it. The items get a layer each by the
longest path from a start; edges back to an earlier layer run below the nodes. An edge across layers
has a place of its own in each of them. A few sweeps order each layer by the medians of its
neighbours. Lanes are rows across all layers.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core.diagrams import Diagram, DiagramEdge, DiagramNode, NodeBounds, NodeShape
from holdfast.views.layers import back_edges, layers_of, ordered

MARGIN = 24.0
GAP = 64.0
ROW_GAP = 28.0
SIDE = 18.0
"""The space between a frame and the nodes in it."""
HEAD = 30.0
"""The space for the label of a frame."""
BELOW = 20.0
"""The space for the label below an event or a gateway."""
STRIP = 30.0
"""The width of the label of a lane, which is written upwards."""
PASSAGE = 10.0
"""The height of the place of an edge that passes a layer."""
MOST_PASSAGES = 5_000
LONGEST_LABEL = 24
"""The characters of a label of an edge that are drawn."""
BORDER = 36.0
"""The size of an event on the border of a node."""

_SIZES = {NodeShape.EVENT: (36.0, 36.0), NodeShape.GATEWAY: (44.0, 44.0)}
_FRAMES = (NodeShape.BOX, NodeShape.LANE)
_TASK = (132.0, 44.0)

Corner = tuple[float, float]
Size = tuple[float, float]


class Layout:
    """The places of the nodes of a diagram, and the corners of its edges."""

    def __init__(self, diagram: Diagram) -> None:
        self.bounds: dict[str, NodeBounds] = {}
        self.corners: list[tuple[DiagramEdge, list[Corner]]] = []
        self._lefts: dict[str, float] = {}
        """Where the layer of each node begins: edges to it turn before that place."""
        self._attached: set[str] = {node.id for node in diagram.nodes if node.attached is not None}
        drawn = [node for node in diagram.nodes if node.at is not None]
        if drawn:
            self._keep(drawn, diagram.edges)
        else:
            self._place(diagram)

    @property
    def size(self) -> tuple[float, float, float, float]:
        """The left, top, width and height of the whole, with a margin."""
        places = list(self.bounds.values()) or [NodeBounds(0, 0, 0, 0)]
        points = [corner for _, corners in self.corners for corner in corners]
        left = min([place.x for place in places] + [x for x, _ in points]) - MARGIN
        top = min([place.y for place in places] + [y for _, y in points]) - MARGIN
        right = max([place.x + place.width for place in places] + [x for x, _ in points]) + MARGIN
        low = max([place.y + place.height for place in places] + [y for _, y in points])
        return left, top, right - left, low + MARGIN + 16 - top

    def _keep(self, drawn: Sequence[DiagramNode], edges: Sequence[DiagramEdge]) -> None:
        for node in drawn:
            assert node.at is not None
            self.bounds[node.id] = node.at
        for edge in edges:
            if edge.points:
                self.corners.append((edge, list(edge.points)))
            elif edge.source in self.bounds and edge.target in self.bounds:
                self.corners.append((edge, self._route(edge, is_back=False)))

    def _place(self, diagram: Diagram) -> None:
        placement = Placement(diagram)
        self.bounds = placement.bounds()
        self._lefts = placement.lefts
        for edge in diagram.edges:
            if edge.source in self.bounds and edge.target in self.bounds:
                corners = self._route(
                    edge, is_back=id(edge) in placement.back, via=placement.passages(edge)
                )
                self.corners.append((edge, corners))

    def _route(
        self, edge: DiagramEdge, *, is_back: bool, via: Sequence[NodeBounds] = ()
    ) -> list[Corner]:
        source = self.bounds[edge.source]
        target = self.bounds[edge.target]
        below = max(source.y + source.height, target.y + target.height) + BELOW + 6
        middle = source.x + source.width / 2
        end = target.x + target.width / 2
        low = source.y + source.height
        if is_back:
            return [(middle, low), (middle, below), (end, below), (end, target.y + target.height)]
        start = (source.x + source.width, source.y + source.height / 2)
        corners = [start]
        if edge.source in self._attached:
            start = (middle, low)
            corners = [start, (middle, low + 12)]
        turns = [(place.x, place.y + place.height / 2) for place in via]
        turns.append((self._lefts.get(edge.target, target.x), target.y + target.height / 2))
        for x, y in turns:
            if abs(corners[-1][1] - y) >= 2:
                corners += [(x - GAP / 2, corners[-1][1]), (x - GAP / 2, y)]
        stop = (target.x, target.y + target.height / 2)
        if abs(corners[-1][1] - stop[1]) < 2:
            stop = (stop[0], corners[-1][1])
        return [*corners, stop]


def label_place(corners: Sequence[Corner]) -> Corner:
    """Return the place of the label of an edge: behind its first turn, where it has left the other
    edges of its node."""
    x, y = corners[0]
    is_level = abs(corners[1][1] - y) <= 1
    if not is_level:
        return x + 4, (y + corners[1][1]) / 2 + 4
    if len(corners) >= 4 and corners[2][0] < corners[3][0]:
        x, y = corners[2]
    return x + 4, y - 5


def placed(diagram: Diagram) -> Diagram:
    """Return a diagram whose nodes have their places and whose edges have their corners, for a page
    that only draws. Nodes without a place, such as an empty box, are left out."""
    layout = Layout(diagram)
    nodes = [
        msgspec.structs.replace(node, at=layout.bounds[node.id])
        for node in diagram.nodes
        if node.id in layout.bounds
    ]
    edges = [msgspec.structs.replace(edge, points=corners) for edge, corners in layout.corners]
    return Diagram(kind=diagram.kind, nodes=nodes, edges=edges)


class Placement:
    """Places the nodes of a diagram without coordinates: each frame by itself, from the inside."""

    def __init__(self, diagram: Diagram) -> None:
        self.back: set[int] = set()
        """The edges, by ``id()``, that lead back."""
        self.lefts: dict[str, float] = {}
        """Where the layer of each node begins, once the nodes have their places."""
        self._nodes: dict[str, DiagramNode] = {node.id: node for node in diagram.nodes}
        self._edges: Sequence[DiagramEdge] = diagram.edges
        self._inner: dict[str | None, list[DiagramNode]] = {}
        self._borders: dict[str, list[DiagramNode]] = {}
        for node in diagram.nodes:
            if node.attached in self._nodes:
                self._borders.setdefault(str(node.attached), []).append(node)
            else:
                inside = node.inside if node.inside in self._nodes else None
                self._inner.setdefault(inside, []).append(node)
        self._sizes: dict[str, Size] = {}
        self._offsets: dict[str, Corner] = {}
        """The place of each item within its frame."""
        self._columns: dict[str, float] = {}
        self._labels: dict[str, int] = {}
        """The length of the longest label of an edge that comes to each item."""
        self._passages: dict[int, list[tuple[str | None, str]]] = {}
        """The places that edges pass, with their frames, by the ``id()`` of the edge."""
        self._origins: dict[str | None, Corner] = {}

    def bounds(self) -> dict[str, NodeBounds]:
        """Return the places of all nodes."""
        for frame in self._boxes_from_inside():
            self._sizes[frame] = self._arrange(frame)
        self._arrange(None)
        places: dict[str, NodeBounds] = {}
        pending: list[tuple[str | None, float, float]] = [(None, MARGIN, MARGIN)]
        while pending:
            frame_id, x, y = pending.pop()
            self._origins[frame_id] = (x, y)
            for node in self._inner.get(frame_id, ()):
                if node.id not in self._offsets:
                    continue  # an empty frame
                left = x + self._offsets[node.id][0]
                top = y + self._offsets[node.id][1]
                places[node.id] = NodeBounds(left, top, *self._sizes[node.id])
                self.lefts[node.id] = x + self._columns.get(node.id, self._offsets[node.id][0])
                pending.append((node.id, left, top))
                self._place_borders(node.id, places)
        return places

    def passages(self, edge: DiagramEdge) -> list[NodeBounds]:
        """Return the places between its ends that an edge passes, from left to right."""
        places = []
        for frame, item in self._passages.get(id(edge), ()):
            origin = self._origins[frame]
            offset = self._offsets[item]
            x = origin[0] + offset[0]
            places.append(NodeBounds(x, origin[1] + offset[1], *self._sizes[item]))
        return sorted(places, key=lambda place: place.x)

    def _place_borders(self, host: str, places: dict[str, NodeBounds]) -> None:
        at = places[host]
        for number, node in enumerate(self._borders.get(host, ())):
            x = at.x + at.width - (number + 1) * (BORDER + 8)
            places[node.id] = NodeBounds(x, at.y + at.height - BORDER / 2, BORDER, BORDER)

    def _boxes_from_inside(self) -> list[str]:
        """Return the boxes that are not empty, each behind the boxes in it."""
        outside_in: list[str] = []
        pending: list[str | None] = [None]
        while pending:
            for node in self._inner.get(pending.pop(), ()):
                if node.shape in _FRAMES and self._inner.get(node.id):
                    pending.append(node.id)
                    if node.shape is NodeShape.BOX:
                        outside_in.append(node.id)
        return outside_in[::-1]

    # One frame

    def _arrange(self, frame: str | None) -> Size:
        """Place the items of a frame, and return its size."""
        nodes = self._inner.get(frame, ())
        if nodes and all(node.shape is NodeShape.LANE for node in nodes):
            return self._stack(nodes, 0.0 if frame is None else HEAD)
        for node in nodes:
            if node.shape is NodeShape.LANE:
                self._sizes[node.id] = self._stack([node], 0.0)
        items = [node for node in nodes if self._has_size(node)]
        layers = self._layers(items, frame)
        heights = [self._height(layer) for layer in layers]
        tallest = max(heights, default=0.0)
        head = 0.0
        side = 0.0
        if frame is not None:
            head = HEAD + BELOW * self._has_back_edges(items)
            side = SIDE
        x = side
        for layer, height in zip(layers, heights, strict=True):
            widest = max(self._sizes[item][0] for item in layer)
            x += self._label_room(layer)
            self._fill_column(layer, x, widest, head + (tallest - height) / 2)
            x += widest + GAP
        # As much room below as above, so that the edges of a box are straight.
        return x - GAP * bool(layers) + side, head + tallest + head

    def _fill_column(self, layer: Sequence[str], x: float, widest: float, y: float) -> None:
        before = x - self._label_room(layer)
        for item in layer:
            width, height = self._sizes[item]
            room = self._room(item)
            self._columns[item] = before
            self._offsets[item] = (x + (widest - width) / 2, y + room)
            if item not in self._nodes:  # an edge passes the whole column
                self._sizes[item] = (x - before + widest, height)
                self._offsets[item] = (before, y + room)
            y += height + 2 * room + ROW_GAP

    def _label_room(self, layer: Sequence[str]) -> float:
        """Return the room before a layer for the labels of the edges to it."""
        longest = max((self._labels.get(item, 0) for item in layer), default=0)
        return max(0.0, min(longest, LONGEST_LABEL) * 6.5 - GAP / 2 + 10)

    def _stack(self, lanes: Sequence[DiagramNode], top: float) -> Size:
        """Place lanes one below the other, with layers across all of them. Return their size."""
        depths = self._depths(lanes, 0)
        deepest = max(depths.values()) + 1
        rows = [self._nodes[lane] for lane in depths]
        contents = [
            [node for node in self._inner.get(row.id, ()) if self._has_size(node)] for row in rows
        ]
        items = [node for content in contents for node in content]
        layers = self._layers(items, None, with_passages=False)
        widths = [max(self._sizes[item][0] for item in layer) for layer in layers]
        rooms = [self._label_room(layer) for layer in layers]
        whole = sum(widths) + sum(rooms) + GAP * max(0, len(widths) - 1)
        whole += 2 * SIDE + deepest * STRIP
        for row, content in zip(rows, contents, strict=True):
            ids = {node.id for node in content}
            own = [[item for item in layer if item in ids] for layer in layers]
            strips = (deepest - depths[row.id]) * STRIP
            width = whole - depths[row.id] * STRIP
            self._sizes[row.id] = (width, self._fill(own, widths, rooms, SIDE + strips))
        return whole, self._pile(lanes, top, whole)

    def _depths(self, lanes: Sequence[DiagramNode], depth: int) -> dict[str, int]:
        """Return the innermost lanes in order, with the number of lanes around each."""
        depths: dict[str, int] = {}
        for lane in lanes:
            inner = self._lanes_in(lane)
            depths |= self._depths(inner, depth + 1) if inner else {lane.id: depth}
        return depths

    def _lanes_in(self, lane: DiagramNode) -> list[DiagramNode]:
        return [node for node in self._inner.get(lane.id, ()) if node.shape is NodeShape.LANE]

    def _fill(
        self,
        layers: Sequence[Sequence[str]],
        widths: Sequence[float],
        rooms: Sequence[float],
        x: float,
    ) -> float:
        """Place the nodes of one lane in the columns of all lanes. Return the height of it."""
        tallest = max([self._height(layer) for layer in layers if layer], default=0.0)
        for layer, width, room in zip(layers, widths, rooms, strict=True):
            x += room
            if layer:
                self._fill_column(layer, x, width, SIDE + (tallest - self._height(layer)) / 2)
            x += width + GAP
        return SIDE + max(tallest, STRIP) + SIDE

    def _pile(self, lanes: Sequence[DiagramNode], top: float, width: float) -> float:
        """Place lanes one below the other from *top* on. Return where the last one ends."""
        for lane in lanes:
            inner = self._lanes_in(lane)
            self._offsets[lane.id] = (0.0, top)
            if inner:
                self._sizes[lane.id] = (width, self._pile(inner, 0.0, width - STRIP))
                for node in inner:
                    self._offsets[node.id] = (STRIP, self._offsets[node.id][1])
            top += self._sizes[lane.id][1]
        return top

    def _has_size(self, node: DiagramNode) -> bool:
        if node.shape in _FRAMES:
            return node.id in self._sizes
        self._sizes[node.id] = _SIZES.get(node.shape, _TASK)
        return True

    def _room(self, item: str) -> float:
        """Return the room above and below an item, for its label and the events on its border."""
        node = self._nodes.get(item)
        if node is None:
            return 0.0
        if node.shape in _SIZES:
            return BELOW * bool(node.label)
        return (BORDER / 2 + BELOW) * bool(self._borders.get(item))

    def _height(self, layer: Sequence[str]) -> float:
        heights = [self._sizes[item][1] + 2 * self._room(item) for item in layer]
        return sum(heights) + ROW_GAP * (len(heights) - 1)

    def _has_back_edges(self, items: Sequence[DiagramNode]) -> bool:
        ids = {node.id for node in items}
        return any(edge.target in ids for edge in self._edges if id(edge) in self.back)

    def _layers(
        self, items: Sequence[DiagramNode], frame: str | None, *, with_passages: bool = True
    ) -> list[list[str]]:
        """Return the items of a frame by layer. An edge from or to a node in an inner frame counts
        as an edge of that frame."""
        ids = self._sorted(items)
        lifted: list[DiagramEdge] = []
        origins: dict[int, DiagramEdge] = {}
        owners = self._owners(ids)
        for edge in self._edges:
            source = owners.get(edge.source)
            target = owners.get(edge.target)
            if source is not None and target is not None and source != target:
                copy = DiagramEdge(source=source, target=target, label=edge.label)
                lifted.append(copy)
                origins[id(copy)] = edge
        back = back_edges(ids, lifted)
        self.back |= {id(origins[number]) for number in back}
        self.back |= {id(edge) for edge in self._edges if edge.source == edge.target}
        forward = [edge for edge in lifted if id(edge) not in back]
        layers = layers_of(ids, forward)
        if with_passages:
            forward = self._with_passages(layers, forward, origins, frame)
        for edge in forward:
            known = self._labels.get(edge.target, 0)
            self._labels[edge.target] = max(known, len(edge.label))
        return ordered(layers, forward)

    def _sorted(self, items: Sequence[DiagramNode]) -> list[str]:
        """Return the items in their order, the ones behind an event on a border last: such an edge
        leaves its node below."""
        borders = {node.id for nodes in self._borders.values() for node in nodes}
        late = {edge.target for edge in self._edges if edge.source in borders}
        return [node.id for node in sorted(items, key=lambda node: node.id in late)]

    def _with_passages(
        self,
        layers: list[list[str]],
        forward: Sequence[DiagramEdge],
        origins: dict[int, DiagramEdge],
        frame: str | None,
    ) -> list[DiagramEdge]:
        """Give each edge a place in the layers between its ends, and return the parts of edges. A
        diagram that is so dense that no eye can follow its edges is drawn without."""
        ranks = {item: rank for rank, layer in enumerate(layers) for item in layer}
        length = sum(ranks[edge.target] - ranks[edge.source] for edge in forward)
        if length - len(forward) > MOST_PASSAGES:
            return list(forward)
        parts: list[DiagramEdge] = []
        for edge in forward:
            source = edge.source
            label = edge.label
            for rank in range(ranks[edge.source] + 1, ranks[edge.target]):
                passage = f"\n{len(self._sizes)}"  # no node has a line break in its id
                self._sizes[passage] = (0.0, PASSAGE)
                layers[rank].append(passage)
                self._passages.setdefault(id(origins[id(edge)]), []).append((frame, passage))
                parts.append(DiagramEdge(source=source, target=passage, label=label))
                source = passage
                label = ""
            parts.append(DiagramEdge(source=source, target=edge.target, label=label))
        return parts

    def _owners(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the item that stands for each node in it or on its border."""
        owners: dict[str, str] = {}
        for item in ids:
            pending = [item]
            while pending:
                node_id = pending.pop()
                owners[node_id] = item
                pending += [node.id for node in self._inner.get(node_id, ())]
                pending += [node.id for node in self._borders.get(node_id, ())]
        return owners
