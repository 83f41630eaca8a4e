"""Draw a document as a Mermaid flowchart. Every step is named by its key."""

from __future__ import annotations

from holdfast.authoring.wf import ast
from holdfast.authoring.wf.document import Document

_SHAPES: dict[type, tuple[str, str]] = {
    ast.CallNode: ("[", "]"),
    ast.ScriptNode: ("[/", "/]"),
    ast.CallWorkflowNode: ("[[", "]]"),
    ast.GateNode: ("{{", "}}"),
    ast.QualityGateNode: ("{{", "}}"),
    ast.ForeachNode: ("[[", "]]"),
    ast.SleepNode: ("([", "])"),
    ast.WaitNode: ("([", "])"),
    ast.EmitNode: (">", "]"),
}
_LONGEST_LABEL = 80

_Ends = list[tuple[str, str]]
"""The nodes whose next edge is still open, each with the label of that edge."""


def draw(document: Document) -> str:
    """Return the flowchart of a workflow."""
    picture = _Picture()
    picture.line("flowchart TD")
    picture.line(f'  begin(("{_label(document.name)}"))')
    ends = picture.sequence(document.body, [("begin", "")])
    if document.always:
        picture.line('  subgraph always["always"]')
        ends = picture.sequence(document.always, ends)
        picture.line("  end")
    picture.line("  finish((end))")
    picture.join(ends, "finish")
    return "\n".join(picture.lines) + "\n"


class _Picture:
    """The lines of a flowchart. A method takes the open ends before its nodes and returns those
    behind them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count: int = 0

    def line(self, text: str) -> None:
        self.lines.append(text)

    def sequence(self, nodes: tuple[ast.Node, ...], ends: _Ends) -> _Ends:
        for node in nodes:
            ends = self._node(node, ends)
        return ends

    def join(self, ends: _Ends, target: str) -> None:
        """Draw the open edges to a node."""
        for source, label in ends:
            arrow = f'-- "{_label(label)}" -->' if label else "-->"
            self.line(f"  {source} {arrow} {target}")

    def _node(self, node: ast.Node, ends: _Ends) -> _Ends:
        match node:
            case ast.IfNode():
                return self._branch(node.condition, node.body, ends, ("yes", "no"))
            case ast.UnlessNode():
                return self._branch(node.condition, node.body, ends, ("no", "yes"))
            case ast.WhileNode():
                return self._while(node, ends)
            case ast.DoWhileNode():
                return self._do_while(node, ends)
            case ast.DoNode() | ast.AlwaysNode():
                return self.sequence(node.body, ends)
            case ast.ParallelNode():
                return self._parallel(node, ends)
            case ast.ForeachNode() if node.do is not None:
                return self._inline_foreach(node, node.do, ends)
        return self._step(node, ends)

    def _new(self, label: str, shape: tuple[str, str]) -> str:
        self._count += 1
        name = f"n{self._count}"
        self.line(f'  {name}{shape[0]}"{_label(label)}"{shape[1]}')
        return name

    def _step(self, node: ast.Node, ends: _Ends) -> _Ends:
        condition = node.condition if isinstance(node, ast.CallNode) else None
        skipped: _Ends = []
        if condition is not None:
            question = self._new(condition_text(condition), ("{", "}"))
            self.join(ends, question)
            ends = [(question, "yes")]
            skipped = [(question, "no")]
        name = self._new(caption(node), _SHAPES[type(node)])
        self.join(ends, name)
        return [(name, ""), *skipped]

    def _branch(
        self,
        condition: ast.Condition,
        body: tuple[ast.Node, ...],
        ends: _Ends,
        answers: tuple[str, str],
    ) -> _Ends:
        question = self._new(condition_text(condition), ("{", "}"))
        self.join(ends, question)
        taken = self.sequence(body, [(question, answers[0])])
        return [*taken, (question, answers[1])]

    def _while(self, node: ast.WhileNode, ends: _Ends) -> _Ends:
        question = self._new(condition_text(node.condition), ("{", "}"))
        self.join(ends, question)
        inner = self.sequence(node.body, [(question, "yes")])
        self.join(inner, question)
        return [(question, "no")]

    def _do_while(self, node: ast.DoWhileNode, ends: _Ends) -> _Ends:
        first = self._new("do", ("(", ")"))
        self.join(ends, first)
        inner = self.sequence(node.body, [(first, "")])
        question = self._new(condition_text(node.condition), ("{", "}"))
        self.join(inner, question)
        self.join([(question, "yes")], first)
        return [(question, "no")]

    def _parallel(self, node: ast.ParallelNode, ends: _Ends) -> _Ends:
        fork = self._new("parallel", ("(", ")"))
        self.join(ends, fork)
        joined: _Ends = []
        for branch in node.body:
            joined += self._node(branch, [(fork, "")])
        meet = self._new("all" if node.min_success is None else f"{node.min_success}", ("(", ")"))
        self.join(joined, meet)
        return [(meet, "")]

    def _inline_foreach(self, node: ast.ForeachNode, body: ast.DoNode, ends: _Ends) -> _Ends:
        first = self._new(f"{node.name}: foreach {node.over.text}", ("[[", "]]"))
        self.join(ends, first)
        self.line(f'  subgraph {first}_items["{_label(node.name)}"]')
        inner = self.sequence(body.body, [(first, "item")])
        self.line("  end")
        return inner


def caption(node: ast.Node) -> str:
    """Return the words on the node of a step."""
    key = ast.key_of(node) or ast.kind_of(node)
    match node:
        case ast.SleepNode():
            return f"{key}: {node.duration.text}"
        case ast.EmitNode():
            return f"{key}: {node.text.text}"
        case ast.ForeachNode() if node.workflow is not None:
            return f"{key}: foreach {node.over.text} call {node.workflow.text}"
    return key


def condition_text(condition: ast.Condition) -> str:
    """Return a condition as a question."""
    match condition:
        case ast.MarkerCondition():
            return f"{condition.step}.{condition.marker}?"
        case ast.InputCondition():
            return f"{condition.name}?"
    return f"{' '.join(condition.text.split())}?"


def _label(text: str) -> str:
    """Return a text as it may stand in a quoted label."""
    flat = " ".join(text.split())
    if len(flat) > _LONGEST_LABEL:
        flat = flat[: _LONGEST_LABEL - 3] + "..."
    for character, entity in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        flat = flat.replace(character, entity)
    return flat
