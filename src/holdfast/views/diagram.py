"""Diagrams of runs and graphs, and diagrams as Mermaid text.

The format is ``core.diagrams``. A run of Python code has no shape before it runs, so that its
diagram is observed: a node per step name and branch, with an edge from each step that had ended
last when the next one began. Calls of one name are one node with their count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from holdfast.core import commands as c
from holdfast.core import typed_json
from holdfast.core.diagrams import (
    Diagram,
    DiagramEdge,
    DiagramNode,
    NodeShape,
    NodeState,
    combined,
)
from holdfast.core.event_table import EVENTS
from holdfast.core.events import Event, EventKind, is_compensation
from holdfast.core.graphs.model import GroupState, MemberState
from holdfast.core.status import FINAL, Status
from holdfast.views.folding import EVERY_CALL, FOLD_FROM, StepNode, base_name, map_size, tree_of
from holdfast.views.graphs import GraphView, MemberNeedView, MemberView
from holdfast.views.runs import RunView
from holdfast.views.steps import StepState, attempts_of
from holdfast.views.text import TIMES

START = "(start)"
END = "(end)"

MOST_STEPS = 100
"""The steps that a node of a definition names: a loop may have thousands of iterations."""

_COMMANDS = {row.kind: row.command for row in EVENTS}

_SHAPES: dict[type | None, tuple[NodeShape, str]] = {
    c.RunStep: (NodeShape.TASK, ""),
    c.SetTimer: (NodeShape.WAIT, "timer"),
    c.AwaitSignal: (NodeShape.WAIT, "signal"),
    c.CreateWait: (NodeShape.WAIT, "message"),
    c.AwaitCondition: (NodeShape.WAIT, "message"),
    c.OpenGate: (NodeShape.GATE, ""),
    c.StartChild: (NodeShape.RUN, ""),
    c.AwaitChild: (NodeShape.RUN, ""),
    c.StartMap: (NodeShape.RUN, "map"),
    c.SendSignal: (NodeShape.EVENT, "message"),
    c.CancelRun: (NodeShape.EVENT, "message"),
}
"""The shape and icon of a step by the command that its first event belongs to. Steps of other
commands, such as markers and spending, are not drawn."""

_WAIT_SHAPES = {
    "timer": (NodeShape.WAIT, "timer"),
    "gate": (NodeShape.GATE, ""),
    "retry": (NodeShape.TASK, ""),
    "budget": (NodeShape.TASK, ""),
    "child": (NodeShape.RUN, ""),
    "children": (NodeShape.RUN, "map"),
}


# Runs of Python code


def observed(run: RunView, history: Sequence[Event], kind: str = "python") -> Diagram:
    """Return the diagram of a run as its history shows it. Events that a replay has cancelled do
    not count."""
    leaves = list(_leaves(tree_of(history, run.waits)))
    nodes = _nodes(leaves, run)
    edges = _Flow(nodes).edges(leaves)
    ended = run.status in FINAL
    start = DiagramNode(
        id=START,
        label="start",
        shape=NodeShape.EVENT,
        icon="start",
    )
    if run.started_at is not None:
        start.state = NodeState.COMPLETED
    end = DiagramNode(
        id=END, label="end", shape=NodeShape.EVENT, icon="end", state=_end_state(run.status)
    )
    for edge in edges:
        if edge.target == END:
            edge.taken = ended
    return Diagram(kind=kind, nodes=[start, *nodes.values(), end], edges=edges)


def without_run(diagram: Diagram) -> Diagram:
    """Return the diagram of a run as that of its workflow: no node is reached, no step is named."""
    nodes = [
        DiagramNode(id=node.id, label=node.label, shape=node.shape, icon=node.icon)
        for node in diagram.nodes
        if node.icon != "compensation"
    ]
    shown = {node.id for node in nodes}
    edges = [
        DiagramEdge(source=edge.source, target=edge.target)
        for edge in diagram.edges
        if edge.source in shown and edge.target in shown
    ]
    return Diagram(kind=diagram.kind, nodes=nodes, edges=edges)


def _end_state(status: Status) -> NodeState:
    states = {
        Status.COMPLETED: NodeState.COMPLETED,
        Status.FAILED: NodeState.FAILED,
        Status.EXPIRED: NodeState.FAILED,
        Status.CANCELLED: NodeState.SKIPPED,
        Status.SKIPPED: NodeState.SKIPPED,
    }
    return states.get(status, NodeState.NOT_REACHED)


def _leaves(node: StepNode) -> Iterator[StepNode]:
    """Yield the steps that are drawn."""
    for below in node.below.values():
        if not below.is_run_event and not below.is_branch and _shape(below) is not None:
            yield below
        if below.below:
            yield from _leaves(below)


def _shape(node: StepNode) -> tuple[NodeShape, str] | None:
    if node.events:
        shape = _SHAPES.get(_COMMANDS.get(node.events[0].kind))
        if shape is not None and _is_compensation(node):
            return NodeShape.TASK, "compensation"
        return shape
    return _WAIT_SHAPES.get(str((node.wait or {}).get("kind")), (NodeShape.WAIT, "signal"))


def _is_compensation(node: StepNode) -> bool:
    return bool(node.events) and is_compensation(node.events[0].role)


def _folded_id(step: str) -> str:
    """Return the id of the node of a step: its path without the numbers of calls."""
    if "/" not in step:
        return base_name(step)
    return "/".join(base_name(part) for part in step.split("/"))


def _nodes(leaves: Sequence[StepNode], run: RunView) -> dict[str, DiagramNode]:
    """Return one node per step name and branch, by its id, in the order in which they began."""
    groups: dict[str, list[StepNode]] = {}
    for leaf in leaves:
        groups.setdefault(_folded_id(leaf.step), []).append(leaf)
    return {key: _node(key, calls, run) for key, calls in groups.items()}


def _node(key: str, calls: Sequence[StepNode], run: RunView) -> DiagramNode:
    first = calls[0]
    shape, icon = _shape(first) or (NodeShape.TASK, "")
    count = len(calls)
    run_id = None
    if count == 1:
        run_id = _child(first)
        count = _map_count(first)
    return DiagramNode(
        id=key,
        label=_label(first),
        shape=shape,
        icon=icon,
        state=combined([_state(call, run) for call in calls]),
        count=count,
        steps=_steps_of(key, calls),
        run=run_id,
    )


def _steps_of(key: str, calls: Sequence[StepNode]) -> list[str]:
    """Return the rows of the timeline that a node stands for: the folded calls, or each call."""
    if len(calls) >= FOLD_FROM and "/" not in key:
        return [key + EVERY_CALL]
    return [call.step for call in calls[:FOLD_FROM]]


def with_folded_steps(diagram: Diagram) -> Diagram:
    """Return the diagram of a definition with the steps of its nodes as a timeline folds them."""
    for node in diagram.nodes:
        names = {base_name(step) for step in node.steps}
        if len(node.steps) >= FOLD_FROM and len(names) == 1 and "/" not in node.steps[0]:
            node.steps = [names.pop() + EVERY_CALL]
        node.steps = node.steps[:MOST_STEPS]
    return diagram


def _label(node: StepNode) -> str:
    name = base_name(node.name)
    started = _data(node, EventKind.CHILD_STARTED) or _data(node, EventKind.MAP_STARTED)
    if started.get("workflow"):
        return str(started["workflow"])
    return str(_data(node, EventKind.GATE_OPENED).get("prompt") or name)


def _data(node: StepNode, kind: str) -> dict[str, object]:
    """Return the data of the first event of a kind, as the engine writes it; empty without one."""
    for event in node.events:
        if event.kind == kind and event.data:
            try:
                return typed_json.decode(event.data, dict[str, object])
            except msgspec.MsgspecError:
                return {}
    return {}


def _map_count(node: StepNode) -> int:
    for event in node.events:
        if event.kind == EventKind.MAP_STARTED:
            return map_size(event)
    return 1


def _child(node: StepNode) -> str | None:
    return str(_data(node, EventKind.CHILD_STARTED).get("run") or "") or None


def _state(node: StepNode, run: RunView) -> NodeState:
    if node.is_plain:
        return NodeState.COMPLETED
    state = node.state
    if state is StepState.COMPLETED:
        if _is_compensation(node):
            return NodeState.COMPENSATED
        is_open_child = node.events[-1].kind == EventKind.CHILD_STARTED
        if is_open_child and run.finished_at is None:
            return NodeState.RUNNING
        if attempts_of(node.events) > 1:
            return NodeState.RETRIED
        return NodeState.COMPLETED
    if state is StepState.FAILED:
        return NodeState.FAILED
    if run.finished_at is not None:
        return NodeState.SKIPPED
    return NodeState(state.value)


_BEGIN = 1
_END_AT_ONCE = 2
"""Of moments at the same time, the ends of steps (0) come before the steps that follow them."""


class _Branch:
    """The steps of one branch that have ended and that no later step has followed yet."""

    __slots__ = ("sources", "tips")

    def __init__(self, sources: Sequence[str]) -> None:
        self.sources: Sequence[str] = sources
        """The nodes that the last step that began has followed; a parallel one follows them too."""
        self.tips: dict[str, str] = {}
        """The nodes that have ended since, by step or, for a branch within this one, by its path:
        only the last step of a branch is followed."""

    def follow(self) -> None:
        """Let the next step follow the steps that have ended since the last one began."""
        if len(self.tips) == 1:
            self.sources = list(self.tips.values())
            self.tips.clear()
        elif self.tips:
            self.sources = list(dict.fromkeys(self.tips.values()))
            self.tips.clear()


class _Flow:
    """Draws the edges: each step follows the steps that had ended before it began, in its own
    branch, in branches within it, or in the branch that it left."""

    def __init__(self, nodes: dict[str, DiagramNode]) -> None:
        self._nodes: dict[str, DiagramNode] = nodes
        self._branches: dict[str, _Branch] = {"": _Branch([START])}
        self._edges: dict[tuple[str, str], DiagramEdge] = {}

    def edges(self, leaves: Sequence[StepNode]) -> list[DiagramEdge]:
        keys = [_folded_id(leaf.step) for leaf in leaves]
        moments: list[tuple[int, int, int]] = []
        for number, leaf in enumerate(leaves):
            start = leaf.start or 0
            end = leaf.end
            moments.append((start, _BEGIN, number))
            if end is not None:
                # A step that took no time ends after it began, not before.
                order = _END_AT_ONCE * (end <= start)
                moments.append((end, order, number))
        moments.sort()
        for _, order, number in moments:
            if order == _BEGIN:
                self._begin(leaves[number].step, keys[number])
            else:
                self._end(leaves[number].step, keys[number])
        self._finish(leaves)
        return list(self._edges.values())

    def _branch(self, path: str) -> _Branch:
        branch = self._branches.get(path)
        if branch is None:
            outer = self._branch(path.rpartition("/")[0])
            outer.follow()
            branch = self._branches[path] = _Branch(outer.sources)
        return branch

    def _begin(self, step: str, target: str) -> None:
        path = step.rpartition("/")[0]
        branch = self._branch(path)
        branch.follow()
        for source in branch.sources:
            if source != target:  # the count of the node shows that its step was repeated
                self._connect(source, target)

    def _end(self, step: str, key: str) -> None:
        path = step.rpartition("/")[0]
        self._branch(path).tips[step] = key
        while path:  # the code that waits for the branch follows its last step
            outer = path.rpartition("/")[0]
            self._branch(outer).tips[path] = key
            path = outer

    def _finish(self, leaves: Sequence[StepNode]) -> None:
        """Connect the last steps with the end."""
        open_steps = [_folded_id(leaf.step) for leaf in leaves if leaf.end is None]
        main = self._branches[""]
        for source in dict.fromkeys([*main.tips.values(), *open_steps]) or main.sources:
            self._connect(source, END)

    def _connect(self, source: str, target: str) -> None:
        key = (source, target)
        if key not in self._edges:
            edge = DiagramEdge(source=source, target=target, taken=True)
            if target in self._nodes and self._nodes[target].icon == "compensation":
                edge.kind = "compensation"
            self._edges[key] = edge


# Graphs


def of_graph(graph: GraphView) -> Diagram:
    """Return the diagram of a graph: its members and their dependencies."""
    nodes = [
        DiagramNode(
            id=member.name,
            label=member.name,
            shape=NodeShape.RUN,
            state=_member_state(member),
            run=member.run,
        )
        for member in graph.members
    ]
    labels = {
        (member.name, number): _need_label(need)
        for member in graph.members
        for number, need in enumerate(member.needs)
    }
    edges = [
        DiagramEdge(
            source=edge.upstream,
            target=edge.member,
            kind="dependency",
            label=labels.get((edge.member, edge.group), ""),
            taken=edge.state is GroupState.SATISFIED,
        )
        for edge in graph.edges
    ]
    return Diagram(kind="graph", nodes=nodes, edges=edges)


def _need_label(need: MemberNeedView) -> str:
    if need.need == len(need.of):
        return ""
    return f"{need.need} of {len(need.of)}"


def _member_state(member: MemberView) -> NodeState:
    if member.state is MemberState.STARTED and member.status is not None:
        if member.status in (Status.WAITING, Status.BLOCKED, Status.PENDING):
            return NodeState.WAITING
        return NodeState.RUNNING
    states = {
        "completed": NodeState.COMPLETED,
        "failed": NodeState.FAILED,
        "expired": NodeState.FAILED,
        "stuck": NodeState.FAILED,
        "cancelled": NodeState.SKIPPED,
        "skipped": NodeState.SKIPPED,
    }
    return states.get(member.state.value, NodeState.NOT_REACHED)


# Mermaid


_MERMAID_SHAPES = {
    NodeShape.EVENT: ("((", "))"),
    NodeShape.GATEWAY: ("{", "}"),
    NodeShape.TASK: ("[", "]"),
    NodeShape.WAIT: ("([", "])"),
    NodeShape.GATE: ("{{", "}}"),
    NodeShape.RUN: ("[[", "]]"),
}

_MERMAID_CLASSES = {
    NodeState.NOT_REACHED: "fill:#ffffff,stroke:#9aa4ad,stroke-dasharray:4 3,color:#5b656e",
    NodeState.RUNNING: "fill:#e8f1fd,stroke:#2467b5,color:#12406f",
    NodeState.WAITING: "fill:#f1ecfb,stroke:#6d4bb3,color:#432a78",
    NodeState.COMPLETED: "fill:#e7f5ec,stroke:#23804a,color:#12502c",
    NodeState.FAILED: "fill:#fdeae8,stroke:#b3362a,color:#7a2018",
    NodeState.RETRIED: "fill:#e7f5ec,stroke:#a06a00,color:#12502c",
    NodeState.SKIPPED: "fill:#f3f4f5,stroke:#9aa4ad,color:#5b656e",
    NodeState.COMPENSATED: "fill:#fdf3e0,stroke:#a06a00,color:#6b4700",
}


def mermaid(diagram: Diagram) -> str:
    """Return a diagram as Mermaid text."""
    names = {node.id: f"n{number}" for number, node in enumerate(diagram.nodes)}
    inner: dict[str | None, list[DiagramNode]] = {}
    for node in diagram.nodes:
        inner.setdefault(node.inside, []).append(node)
    lines = ["flowchart LR"]
    lines += _mermaid_nodes(inner, None, names, "    ")
    lines += [_mermaid_edge(edge, names) for edge in diagram.edges if edge.source in names]
    lines += [
        f"    {names[node.attached]} -.- {names[node.id]}"
        for node in diagram.nodes
        if node.attached in names
    ]
    used = dict.fromkeys(node.state for node in diagram.nodes)
    lines += [f"    classDef {_class(state)} {_MERMAID_CLASSES[state]}" for state in used]
    return "\n".join(lines) + "\n"


def _mermaid_nodes(
    inner: dict[str | None, list[DiagramNode]],
    parent: str | None,
    names: dict[str, str],
    indent: str,
) -> list[str]:
    lines: list[str] = []
    for node in inner.get(parent, ()):
        label = _mermaid_text(node.label)
        if node.count > 1:
            label += f" {TIMES}{node.count}"
        if node.shape in (NodeShape.BOX, NodeShape.LANE):
            lines.append(f'{indent}subgraph {names[node.id]}["{label}"]')
            lines += _mermaid_nodes(inner, node.id, names, indent + "    ")
            lines.append(f"{indent}end")
        else:
            left, right = _MERMAID_SHAPES[node.shape]
            lines.append(f'{indent}{names[node.id]}{left}"{label}"{right}:::{_class(node.state)}')
    return lines


def _mermaid_edge(edge: DiagramEdge, names: dict[str, str]) -> str:
    arrow = "-->"
    if edge.kind in ("compensation", "message"):
        arrow = "-.->"
    elif edge.taken:
        arrow = "==>"
    label = ""
    if edge.label:
        label = f'|"{_mermaid_text(edge.label)}"|'
    return f"    {names[edge.source]} {arrow}{label} {names[edge.target]}"


def _class(state: NodeState) -> str:
    return state.value.replace(" ", "_")


def _mermaid_text(text: str) -> str:
    """Return a text for a quoted label: characters with a meaning in Mermaid as their numbers."""
    return _UNSAFE.sub(lambda char: f"#{ord(char[0])};", " ".join(text.split()))


_UNSAFE = re.compile(r"[^\w .,:?!/()'-]")
