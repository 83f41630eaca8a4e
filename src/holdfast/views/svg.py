"""A diagram as SVG: one file without scripts, fonts or links, in light and in dark.

Every text is escaped. A state is shown by colour, by the style of the line, and by a word in the
title of its node.
"""

from __future__ import annotations

import re
from html import escape

from holdfast.core.diagrams import Diagram, DiagramEdge, DiagramNode, NodeBounds, NodeShape
from holdfast.views.layout import LONGEST_LABEL, Corner, Layout, label_place
from holdfast.views.text import TIMES, short

_STYLE = """
svg { --ground: #fff; --panel: #fff; --line: #9aa4ad; --ink: #1d2529; --soft: #5b656e;
  --completed: #1f7a45; --running: #2160aa; --waiting: #6a48b0; --attention: #946200;
  --failed: #b0342a; background: var(--ground); font: 13px ui-sans-serif, system-ui, sans-serif; }
@media (prefers-color-scheme: dark) { svg { --ground: #14181b; --panel: #1b2125; --line: #56616a;
  --ink: #e6eaec; --soft: #a3adb4; --completed: #6ecf95; --running: #7db4f5; --waiting: #b69cf0;
  --attention: #e3b04b; --failed: #f2897e; } }
text { fill: var(--ink); } .soft { fill: var(--soft); font-size: 12px; }
.node > :is(rect, circle, path) { fill: var(--panel); stroke: var(--line); stroke-width: 1.5; }
.node.not_reached > :is(rect, circle, path) { stroke-dasharray: 4 3; }
.node.completed > :is(rect, circle, path) { stroke: var(--completed); }
.node.running > :is(rect, circle, path) { stroke: var(--running); stroke-width: 2.5; }
.node.waiting > :is(rect, circle, path) { stroke: var(--waiting); stroke-width: 2.5; }
.node:is(.retried, .compensated) > :is(rect, circle, path) { stroke: var(--attention); }
.node.failed > :is(rect, circle, path) { stroke: var(--failed); stroke-width: 2.5; }
.node.skipped text { fill: var(--soft); }
.frame { fill: none; stroke: var(--line); }
.frame.completed { stroke: var(--completed); } .frame.running { stroke: var(--running); }
.frame.waiting { stroke: var(--waiting); } .frame.failed { stroke: var(--failed); }
.edge { fill: none; stroke: var(--line); } .edge.taken { stroke: var(--soft); stroke-width: 2.5; }
.edge:is(.compensation, .message) { stroke-dasharray: 5 4; } .tip { fill: var(--soft); }
.badge, .node > .badge { fill: var(--ink); stroke: none; }
.count { fill: var(--ground); font-size: 11px; }
"""

_ICONS = {
    "message": "M-7-5h14v10h-14zl7 6 7-6",
    "timer": "M0-6v6l4 3",
    "signal": "M0-6L6 5H-6z",
    "error": "M-6 6l3-12 4 7 4-7",
    "end": "M-5-5h10v10h-10z",
    "start": "M-4-6l9 6-9 6z",
    "parallel": "M-9 0H9M0-9V9",
    "exclusive": "M-6-7L6 7M6-7L-6 7",
    "event": "M0-8l8 6-3 9h-10l-3-9z",
    "compensation": "M0-5v10l-7-5zM7-5v10L0 0z",
    "escalation": "M0-7l5 13-5-5-5 5z",
    "terminate": "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0",
    "cancel": "M-5-5L5 5M5-5L-5 5",
    "link": "M-6-3h6v-4l7 7-7 7v-4h-6z",
    "conditional": "M-5-6h10v12h-10zM-3-3h6M-3 0h6M-3 3h6",
    "inclusive": "M-8 0a8 8 0 1 0 16 0a8 8 0 1 0-16 0",
}

_FRAMES = (NodeShape.BOX, NodeShape.LANE)


def draw(diagram: Diagram, title: str = "Diagram of the workflow") -> str:
    """Return a diagram as an SVG document."""
    layout = Layout(diagram)
    left, top, width, height = layout.size
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left:g} {top:g} {width:g} {height:g}"'
        f' width="{width:g}" height="{height:g}" role="img">',
        f"<title>{_text(title)}</title>",
        f"<style>{_STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9"'
        ' markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">'
        '<path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>',
    ]
    drawn = [node for node in diagram.nodes if node.id in layout.bounds]
    parts += [_frame(node, layout.bounds[node.id]) for node in drawn if node.shape in _FRAMES]
    parts += [_edge(edge, corners) for edge, corners in layout.corners]
    parts += [_node(node, layout.bounds[node.id]) for node in drawn if node.shape not in _FRAMES]
    return "\n".join([*parts, "</svg>", ""])


_CONTROL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _text(text: str) -> str:
    """Return a text for XML: escaped, and without the control characters that XML refuses."""
    return escape(_CONTROL.sub("\ufffd", text))


def _frame(node: DiagramNode, at: NodeBounds) -> str:
    radius = 10 * (node.shape is NodeShape.BOX)
    state = node.state.value.replace(" ", "_")
    frame = (
        f'<rect class="frame {state}" x="{at.x:g}" y="{at.y:g}" width="{at.width:g}"'
        f' height="{at.height:g}" rx="{radius}"/>'
    )
    if node.shape is NodeShape.LANE:  # written upwards at its left side
        x = at.x + 19
        y = at.y + at.height / 2
        label = _text(short(node.label, int(at.height / 7)))
        frame += (
            f'<text class="soft" x="{x:g}" y="{y:g}" text-anchor="middle"'
            f' transform="rotate(-90 {x:g} {y:g})">{label}</text>'
        )
    else:
        frame += (
            f'<text class="soft" x="{at.x + 10:g}" y="{at.y + 18:g}">{_text(node.label)}</text>'
        )
    if node.count > 1:
        frame += _badge(node.count, at)
    return frame


def _edge(edge: DiagramEdge, corners: list[Corner]) -> str:
    line = "L".join(f"{x:g} {y:g}" for x, y in corners)
    classes = f"edge {edge.kind}" + " taken" * edge.taken
    path = f'<path class="{_text(classes)}" d="M{line}" marker-end="url(#tip)"/>'
    if not edge.label:
        return path
    x, y = label_place(corners)
    label = _text(short(edge.label, LONGEST_LABEL))
    return f'{path}<text class="soft" x="{x:g}" y="{y:g}">{label}</text>'


def _node(node: DiagramNode, at: NodeBounds) -> str:
    middle = at.x + at.width / 2
    centre = at.y + at.height / 2
    times = f", {node.count} times" * (node.count > 1)
    parts = [
        f'<g class="node {node.shape.value} {node.state.value.replace(" ", "_")}">',
        f"<title>{_text(node.label or node.id)}, {node.state.value}{times}</title>",
        _outline(node, at, middle, centre),
    ]
    is_small = node.shape in (NodeShape.EVENT, NodeShape.GATEWAY)
    if is_small and node.icon in _ICONS:
        parts.append(
            f'<path d="{_ICONS[node.icon]}" transform="translate({middle:g} {centre:g})"/>'
        )
    room = 20 if is_small else int(at.width / 7.4)
    lines = _wrapped(node.label, room)
    for number, line in enumerate(lines):
        y = centre + 4.5 + (number - (len(lines) - 1) / 2) * 15
        if node.shape is NodeShape.GATEWAY:  # edges leave it below
            y = at.y - 7 - (len(lines) - 1 - number) * 14
        elif is_small:
            y = at.y + at.height + 14 + number * 14
        parts.append(f'<text x="{middle:g}" y="{y:g}" text-anchor="middle">{_text(line)}</text>')
    if node.count > 1:
        parts.append(_badge(node.count, at))
    return "".join([*parts, "</g>"])


def _outline(node: DiagramNode, at: NodeBounds, middle: float, centre: float) -> str:
    right = at.x + at.width
    low = at.y + at.height
    if node.shape is NodeShape.EVENT:
        return f'<circle cx="{middle:g}" cy="{centre:g}" r="{at.width / 2:g}"/>'
    if node.shape is NodeShape.GATEWAY:
        return (
            f'<path d="M{middle:g} {at.y:g}L{right:g} {centre:g}L{middle:g} {low:g}'
            f'L{at.x:g} {centre:g}z"/>'
        )
    if node.shape is NodeShape.GATE:
        inset = 12
        return (
            f'<path d="M{at.x + inset:g} {at.y:g}H{right - inset:g}L{right:g} {centre:g}'
            f'L{right - inset:g} {low:g}H{at.x + inset:g}L{at.x:g} {centre:g}z"/>'
        )
    radius = 8.0
    if node.shape is NodeShape.WAIT:
        radius = at.height / 2
    box = (
        f'<rect x="{at.x:g}" y="{at.y:g}" width="{at.width:g}" height="{at.height:g}"'
        f' rx="{radius:g}"/>'
    )
    if node.shape is NodeShape.RUN:  # a second frame: a workflow of its own
        box += (
            f'<rect x="{at.x + 4:g}" y="{at.y + 4:g}" width="{at.width - 8:g}"'
            f' height="{at.height - 8:g}" rx="5"/>'
        )
    return box


def _badge(count: int, at: NodeBounds) -> str:
    text = f"{TIMES}{count}"
    width = 12 + 7 * len(text)
    x = at.x + at.width - width / 2
    return (
        f'<rect class="badge" x="{x:g}" y="{at.y - 9:g}" width="{width}" height="18" rx="9"/>'
        f'<text class="count" x="{x + width / 2:g}" y="{at.y + 4:g}" text-anchor="middle">{text}'
        "</text>"
    )


def _wrapped(text: str, room: int) -> list[str]:
    """Return a text in at most two lines of *room* characters."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > room:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    if len(lines) > 2:
        lines = [lines[0], lines[1] + "…"]
    return [short(line, room) for line in lines]
