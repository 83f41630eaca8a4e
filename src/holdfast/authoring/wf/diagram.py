"""The diagram of a text: nodes and edges from the document, states from the steps of a run.

The plan has the place of every step. A set of iterations follows the flow: which iterations of the
loops around a place a run has entered, and which have left it. An ``if`` is not recorded; a run
went past its body in the iterations that entered it and in which no step of the body was recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.authoring.wf import ast
from holdfast.authoring.wf.draw import caption, condition_text
from holdfast.authoring.wf.identity import ALWAYS, CHILD, HANDLER, UNDO, template_of
from holdfast.authoring.wf.interpreter.plan import Plan, PlanNode
from holdfast.authoring.wf.view import COMPLETED, FAILED, SKIPPED, TIMED_OUT, TextStep, steps_of
from holdfast.core.codec import Codec
from holdfast.core.diagrams import (
    Diagram,
    DiagramEdge,
    DiagramNode,
    NodeShape,
    NodeState,
    combined,
)
from holdfast.core.events import Event, EventKind
from holdfast.core.status import FINAL, Status

START = "(start)"
END = "(end)"

Iterations = frozenset[tuple[int, ...]]
_NONE: Iterations = frozenset()

_SHAPES: dict[type, tuple[NodeShape, str]] = {
    ast.CallNode: (NodeShape.TASK, ""),
    ast.ScriptNode: (NodeShape.TASK, ""),
    ast.CallWorkflowNode: (NodeShape.RUN, ""),
    ast.GateNode: (NodeShape.GATE, ""),
    ast.QualityGateNode: (NodeShape.GATE, ""),
    ast.ForeachNode: (NodeShape.RUN, "map"),
    ast.SleepNode: (NodeShape.WAIT, "timer"),
    ast.WaitNode: (NodeShape.WAIT, "signal"),
    ast.EmitNode: (NodeShape.EVENT, "message"),
}

_STATES = {
    "running": NodeState.RUNNING,
    "waiting": NodeState.WAITING,
    COMPLETED: NodeState.COMPLETED,
    FAILED: NodeState.FAILED,
    TIMED_OUT: NodeState.FAILED,
    SKIPPED: NodeState.SKIPPED,
    "cancelled": NodeState.SKIPPED,
}

_END_STATES = {
    Status.COMPLETED: NodeState.COMPLETED,
    Status.FAILED: NodeState.FAILED,
    Status.EXPIRED: NodeState.FAILED,
    Status.CANCELLED: NodeState.SKIPPED,
    Status.SKIPPED: NodeState.SKIPPED,
}


class TextPart(msgspec.Struct, frozen=True):
    """The part of a text that a run executes: the whole, the body of an inline foreach, or a single
    call. Both are templates."""

    body: str | None = None
    only: str | None = None


class OpenEnd(msgspec.Struct, frozen=True):
    """A node whose next edge is still open, and the iterations in which a run went along it."""

    source: str
    label: str
    left: Iterations


def steps_drawn(
    plan: Plan, part: TextPart, history: Sequence[Event], codec: Codec
) -> list[TextStep]:
    """Return the steps of a run that executes a part of a text. A single call is drawn without the
    loops around it."""
    steps = steps_of(plan, part.body, history, codec, ())
    if part.only is not None:
        for step in steps:
            step.id = plan.steps[part.only].node.local
            step.iteration = []
    return steps


def item_counts(history: Sequence[Event]) -> dict[str, int]:
    """Return the number of items that each foreach has started, by the identity of its step."""
    counts: dict[str, int] = {}
    for event in history:
        step = event.step or ""
        if event.kind == EventKind.MAP_STARTED:
            counts[step] = int(msgspec.json.decode(event.data or b"{}").get("count", 0))
        elif event.kind == EventKind.CHILD_STARTED and CHILD in step:
            owner = step.partition(CHILD)[0]
            counts[owner] = counts.get(owner, 0) + 1
    return counts


def draw_text(
    plan: Plan,
    part: TextPart,
    steps: Sequence[TextStep],
    status: Status | None,
    items: Mapping[str, int] | None = None,
) -> Diagram:
    """Return the diagram of a text; *steps* are those of a run with this *status*, *items* the
    number of items of each foreach."""
    prefix = "" if part.body is None else f"{part.body}:"
    recorded: dict[str, list[TextStep]] = {}
    for step in steps:
        recorded.setdefault(prefix + template_of(step.id), []).append(step)
    if status in FINAL:
        for step in steps:
            if step.status in ("running", "waiting"):
                step.status = "cancelled"
    picture = _TextDiagram(recorded, items or {})
    entered: Iterations = _NONE if status is None or status is Status.PENDING else frozenset({()})
    if recorded:
        entered = frozenset({()})
    picture.event(START, "start", NodeState.COMPLETED if entered else NodeState.NOT_REACHED)
    ends = [OpenEnd(START, "", entered)]
    if part.only is not None:
        ends = picture.only(plan.steps[part.only].node, part.only, ends)
    elif part.body is not None:
        ends = picture.sequence(plan.bodies[part.body], prefix, ends)
    else:
        ends = picture.sequence(plan.body, "", ends)
        ends = picture.always(plan.always, ends)
    end = NodeState.NOT_REACHED
    if status is not None:
        end = _END_STATES.get(status, NodeState.NOT_REACHED)
    picture.event(END, "end", end)
    picture.finish(ends, is_completed=status is Status.COMPLETED)
    return Diagram(kind="wf", nodes=picture.nodes, edges=picture.edges)


class _TextDiagram:
    """The nodes and edges of a text. A method takes the open ends before its nodes and returns the
    ends behind them."""

    def __init__(self, recorded: Mapping[str, list[TextStep]], items: Mapping[str, int]) -> None:
        self.nodes: list[DiagramNode] = []
        self.edges: list[DiagramEdge] = []
        self._recorded: Mapping[str, list[TextStep]] = recorded
        self._items: Mapping[str, int] = items
        self._box: str | None = None
        self._failed: list[OpenEnd] = []
        """The steps of the body whose failure ended it: the always block follows them."""
        self._questions: list[str] = []
        """The nodes that no event records, in the order of the text."""

    # Nodes

    def event(self, node_id: str, label: str, state: NodeState) -> None:
        """Add the start or the end."""
        self.nodes.append(
            DiagramNode(id=node_id, label=label, shape=NodeShape.EVENT, icon=label, state=state)
        )

    def _question(self, label: str, icon: str, ends: Sequence[OpenEnd]) -> tuple[str, Iterations]:
        """Add a gateway, and return it with the iterations that reached it."""
        entered = _left(ends)
        node_id = f"({icon} {len(self.nodes)})"
        self.nodes.append(
            DiagramNode(
                id=node_id,
                label=label,
                shape=NodeShape.GATEWAY,
                icon=icon,
                inside=self._box,
                state=NodeState.COMPLETED if entered else NodeState.NOT_REACHED,
            )
        )
        self._questions.append(node_id)
        self._join(ends, node_id, entered)
        return node_id, entered

    def _join(self, ends: Sequence[OpenEnd], target: str, reached: Iterations) -> None:
        for end in ends:
            self.edges.append(
                DiagramEdge(
                    source=end.source,
                    target=target,
                    label=end.label,
                    taken=not end.left.isdisjoint(reached),
                )
            )

    # Structure

    def sequence(
        self, nodes: Iterable[PlanNode], path: str, ends: Sequence[OpenEnd]
    ) -> list[OpenEnd]:
        """Add nodes one behind the other."""
        ends = list(ends)
        for node in nodes:
            ends = self._node(node, path, ends)
        return ends

    def always(self, nodes: Sequence[PlanNode], ends: list[OpenEnd]) -> list[OpenEnd]:
        """Add the block that every run executes at its end, however its body ended."""
        if not nodes:
            return ends
        outer = self._open_box("(always)", "always")
        before = [*ends, *(_outside_loops(end) for end in self._failed)]
        self._failed = []
        after = self.sequence(nodes, ALWAYS, before)
        self._close_box("(always)", outer, 1)
        return after

    def only(self, plan: PlanNode, template: str, ends: list[OpenEnd]) -> list[OpenEnd]:
        """Add a single call, whatever is around it in the text."""
        steps = [step for group in self._recorded.values() for step in group]
        self._recorded = {template: steps}
        path = template.removesuffix(plan.local)
        return self._step(plan, path, ends)

    def _node(self, plan: PlanNode, path: str, ends: list[OpenEnd]) -> list[OpenEnd]:
        match plan.node:
            case ast.IfNode():
                return self._branch(plan, path, ends, "yes", "no")
            case ast.UnlessNode():
                return self._branch(plan, path, ends, "no", "yes")
            case ast.WhileNode():
                return self._while(plan, path, ends)
            case ast.DoWhileNode():
                return self._do_while(plan, path, ends)
            case ast.ParallelNode():
                return self._parallel(plan, path, ends)
            case ast.DoNode() | ast.AlwaysNode():
                return self.sequence(plan.body, path, ends)
        return self._step(plan, path, ends)

    def _branch(
        self, plan: PlanNode, path: str, ends: list[OpenEnd], into: str, past: str
    ) -> list[OpenEnd]:
        label = condition_text(plan.node.condition)
        question, entered = self._question(label, "exclusive", ends)
        touched = self._touched(plan.body, path)
        after = self.sequence(plan.body, path, [OpenEnd(question, into, entered & touched)])
        return [*after, OpenEnd(question, past, entered - touched)]

    def _while(self, plan: PlanNode, path: str, ends: list[OpenEnd]) -> list[OpenEnd]:
        box, outer, inner, touched = self._open_loop(plan, path)
        label = condition_text(plan.node.condition)
        question, entered = self._question(label, "exclusive", ends)
        after = self.sequence(plan.body, inner, [OpenEnd(question, "yes", touched)])
        self._join(after, question, _left(after))
        self._close_box(box, outer, len(touched))
        return [OpenEnd(question, "no", _without_open(entered, touched, _left(after)))]

    def _do_while(self, plan: PlanNode, path: str, ends: list[OpenEnd]) -> list[OpenEnd]:
        box, outer, inner, touched = self._open_loop(plan, path)
        first = len(self.nodes)
        entered = _left(ends)
        within = [OpenEnd(end.source, end.label, _first_of(touched, end.left)) for end in ends]
        after = self.sequence(plan.body, inner, within)
        label = condition_text(plan.node.condition)
        question, done = self._question(label, "exclusive", after)
        again = any(iteration[-1] > 0 for iteration in touched)
        self.edges.append(
            DiagramEdge(source=question, target=self.nodes[first].id, label="yes", taken=again)
        )
        self._close_box(box, outer, len(touched))
        return [OpenEnd(question, "no", _without_open(entered, touched, done) if done else _NONE)]

    def _open_loop(self, plan: PlanNode, path: str) -> tuple[str, str | None, str, Iterations]:
        box = f"{path}{plan.local}[]"
        outer = self._open_box(box, "loop")
        inner = f"{box}/"
        return box, outer, inner, self._touched(plan.body, inner)

    def _parallel(self, plan: PlanNode, path: str, ends: list[OpenEnd]) -> list[OpenEnd]:
        fork, entered = self._question("", "parallel", ends)
        branches = [self._node(branch, path, [OpenEnd(fork, "", entered)]) for branch in plan.body]
        need = plan.node.min_success or len(branches)
        lefts = [_left(branch) for branch in branches]
        done = frozenset(
            iteration for iteration in entered if sum(iteration in left for left in lefts) >= need
        )
        label = "" if plan.node.min_success is None else f"{need} of {len(branches)}"
        joined = [
            OpenEnd(end.source, end.label, end.left & done) for branch in branches for end in branch
        ]
        meet, _ = self._question(label, "parallel", joined)
        return [OpenEnd(meet, "", done)]

    def _open_box(self, box: str, label: str) -> str | None:
        outer = self._box
        self.nodes.append(DiagramNode(id=box, label=label, shape=NodeShape.BOX, inside=outer))
        self._box = box
        return outer

    def _close_box(self, box: str, outer: str | None, count: int) -> None:
        node = next(node for node in self.nodes if node.id == box)
        node.count = max(1, count)
        node.state = combined([inner.state for inner in self.nodes if inner.inside == box])
        self._box = outer

    # Steps

    def _step(self, plan: PlanNode, path: str, ends: list[OpenEnd]) -> list[OpenEnd]:
        past: list[OpenEnd] = []
        template = path + plan.local
        steps = self._recorded.get(template, [])
        reached = frozenset(tuple(step.iteration) for step in steps)
        condition = plan.node.condition if isinstance(plan.node, ast.CallNode) else None
        if condition is not None:
            question, entered = self._question(condition_text(condition), "exclusive", ends)
            ran = frozenset(tuple(step.iteration) for step in steps if step.status != SKIPPED)
            ends = [OpenEnd(question, "yes", entered & ran)]
            past = [OpenEnd(question, "no", entered - ran)]
        self._add_step(plan, template, steps)
        self._join(ends, template, reached)
        failed = _where(steps, FAILED, TIMED_OUT)
        done = _where(steps, COMPLETED, SKIPPED)
        stopped = self._handler(plan, template, failed)
        if getattr(plan.node, "tolerates", False):
            done |= failed
        elif failed:
            self._failed += stopped or [OpenEnd(template, "failed", failed)]
        return [OpenEnd(template, "", done), *past]

    def _add_step(self, plan: PlanNode, template: str, steps: Sequence[TextStep]) -> None:
        shape, icon = _SHAPES[type(plan.node)]
        count = len(steps)
        runs = [step.run for step in steps if step.run is not None]
        if isinstance(plan.node, ast.ForeachNode):
            count = sum(self._items.get(step.id, 0) for step in steps)
        undone = self._undo(plan, template)
        states = [_state_of(step) for step in steps]
        if undone and NodeState.FAILED not in states:
            states = [NodeState.COMPENSATED]
        self.nodes.append(
            DiagramNode(
                id=template,
                label=caption(plan.node),
                shape=shape,
                icon=icon,
                state=combined(states),
                count=max(1, count),
                inside=self._box,
                steps=[step.id for step in [*steps, *undone]],
                run=runs[0] if len(runs) == 1 else None,
            )
        )

    def _undo(self, plan: PlanNode, template: str) -> list[TextStep]:
        undo = getattr(plan.node, "undo", None)
        if undo is None:
            return []
        return self._recorded.get(f"{template}{UNDO}{undo.key}", [])

    def _handler(self, plan: PlanNode, template: str, failed: Iterations) -> list[OpenEnd]:
        """Add the handler of a failure of a step. The failure still ends the body."""
        target = getattr(plan.node, "on_fail", None)
        if not isinstance(target, ast.Target):
            return []
        handler = f"{template}{HANDLER}{target.key}"
        steps = self._recorded.get(handler, [])
        self.nodes.append(
            DiagramNode(
                id=handler,
                label=target.key,
                shape=NodeShape.TASK,
                icon="error",
                state=combined([_state_of(step) for step in steps]),
                count=max(1, len(steps)),
                inside=self._box,
                steps=[step.id for step in steps],
            )
        )
        reached = frozenset(tuple(step.iteration) for step in steps)
        self._join([OpenEnd(template, "on fail", failed)], handler, reached)
        return [OpenEnd(handler, "", _where(steps, COMPLETED, FAILED))]

    def _touched(self, nodes: Iterable[PlanNode], path: str) -> Iterations:
        """Return the iterations of the loops around *path* in which a step of *nodes* is
        recorded."""
        depth = path.rpartition(":")[2].count("[]/")
        touched: set[tuple[int, ...]] = set()
        for node in nodes:
            template = f"{path}{node.local}"
            if isinstance(node.node, ast.WhileNode | ast.DoWhileNode):
                inner = self._touched(node.body, f"{template}[]/")
                touched.update(iteration[:depth] for iteration in inner)
            elif isinstance(node.node, ast.BLOCKS):
                touched |= self._touched(node.body, path)
            for step in self._recorded.get(template, ()):
                touched.add(tuple(step.iteration)[:depth])
        return frozenset(touched)

    # The end

    def finish(self, ends: Sequence[OpenEnd], *, is_completed: bool) -> None:
        """Connect the last nodes with the end. A question at the front of a run that has not
        completed may be undecided: it counts as reached only if the run went on."""
        reached = frozenset({()}) if is_completed else _NONE
        self._join(ends, END, reached)
        if is_completed:
            return
        by_id = {node.id: node for node in self.nodes}
        for question in reversed(self._questions):
            if any(edge.taken for edge in self.edges if edge.source == question):
                continue
            by_id[question].state = NodeState.NOT_REACHED
            for edge in self.edges:
                if edge.target == question:
                    edge.taken = False


def _left(ends: Iterable[OpenEnd]) -> Iterations:
    return _NONE.union(*(end.left for end in ends))


def _outside_loops(end: OpenEnd) -> OpenEnd:
    """Return the end of a body that failed, in whichever iteration."""
    return OpenEnd(end.source, end.label, frozenset({()}) if end.left else _NONE)


def _where(steps: Iterable[TextStep], *statuses: str) -> Iterations:
    return frozenset(tuple(step.iteration) for step in steps if step.status in statuses)


def _state_of(step: TextStep) -> NodeState:
    state = _STATES.get(step.status, NodeState.RUNNING)
    if state is NodeState.COMPLETED and step.attempts > 1:
        return NodeState.RETRIED
    return state


def _without_open(entered: Iterations, touched: Iterations, done: Iterations) -> Iterations:
    """Return the iterations around a loop in which its last iteration has ended."""
    last: dict[tuple[int, ...], tuple[int, ...]] = {}
    for iteration in touched:
        outer = iteration[:-1]
        last[outer] = max(last.get(outer, iteration), iteration)
    return frozenset(outer for outer in entered if outer not in last or last[outer] in done)


def _first_of(touched: Iterations, around: Iterations) -> Iterations:
    """Return the first iterations of a loop that was entered in the iterations *around* it."""
    return frozenset(
        iteration for iteration in touched if iteration[-1] == 0 and iteration[:-1] in around
    )
