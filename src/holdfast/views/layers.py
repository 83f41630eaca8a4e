"""Layers of a diagram: the longest path to each node, with few crossings of edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.core.diagrams import DiagramEdge

SWEEPS = 6


def back_edges(ids: Sequence[str], edges: Sequence[DiagramEdge]) -> set[int]:
    """Return the edges, by ``id()``, that lead back to a node from which they can be reached. The
    walk keeps its own stack: a diagram may be deeper than the stack of Python."""
    leaving: dict[str, list[DiagramEdge]] = {node_id: [] for node_id in ids}
    entered = {edge.target for edge in edges}
    for edge in edges:
        leaving[edge.source].append(edge)
    is_open: dict[str, bool] = {}
    back: set[int] = set()
    starts = [node_id for node_id in ids if node_id not in entered]
    for first in [*starts, *ids]:
        if first in is_open:
            continue
        is_open[first] = True
        stack = [(first, iter(leaving[first]))]
        while stack:
            node_id, rest = stack[-1]
            edge_or_none = next(rest, None)
            if edge_or_none is None:
                is_open[node_id] = False
                stack.pop()
            elif is_open.get(edge_or_none.target):
                back.add(id(edge_or_none))
            elif edge_or_none.target not in is_open:
                is_open[edge_or_none.target] = True
                stack.append((edge_or_none.target, iter(leaving[edge_or_none.target])))
    return back


def layers_of(ids: Sequence[str], forward: Sequence[DiagramEdge]) -> list[list[str]]:
    """Return the nodes by layer: the length of the longest path that leads to each."""
    left = dict.fromkeys(ids, 0)
    after: dict[str, list[str]] = {node_id: [] for node_id in ids}
    for edge in forward:
        left[edge.target] += 1
        after[edge.source].append(edge.target)
    rank = dict.fromkeys(ids, 0)
    free = [node_id for node_id in ids if left[node_id] == 0]
    for node_id in free:
        for target in after[node_id]:
            rank[target] = max(rank[target], rank[node_id] + 1)
            left[target] -= 1
            if left[target] == 0:
                free.append(target)
    layers: list[list[str]] = [[] for _ in range(max(rank.values(), default=-1) + 1)]
    for node_id in ids:
        layers[rank[node_id]].append(node_id)
    return [layer for layer in layers if layer]


def ordered(layers: list[list[str]], forward: Sequence[DiagramEdge]) -> list[list[str]]:
    """Order each layer by the medians of the places of its neighbours."""
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for edge in forward:
        before.setdefault(edge.target, []).append(edge.source)
        after.setdefault(edge.source, []).append(edge.target)
    place = {node_id: number for layer in layers for number, node_id in enumerate(layer)}
    for sweep in range(SWEEPS):
        neighbours = after if sweep % 2 else before
        for layer in reversed(layers) if sweep % 2 else layers:
            wanted = {node_id: _median(node_id, neighbours, place) for node_id in layer}
            layer.sort(key=wanted.__getitem__)
            place.update({node_id: number for number, node_id in enumerate(layer)})
    return layers


def _median(node_id: str, neighbours: Mapping[str, Sequence[str]], place: Mapping[str, int]) -> int:
    near = sorted(place[other] for other in neighbours.get(node_id, ()))
    return near[len(near) // 2] if near else place[node_id]
