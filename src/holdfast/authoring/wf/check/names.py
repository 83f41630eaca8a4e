"""Check the names of steps and inputs: a condition names a step that can have run before it.

The walk keeps the keys of the steps that can have run so far. A branch that may not be taken and a
loop that may not be entered add their keys all the same: the check only refuses a name that cannot
exist. If a called workflow is unknown, its steps are unknown too, and nothing is reported after it.
"""

from __future__ import annotations

from holdfast.authoring.wf import ast
from holdfast.authoring.wf.check.surroundings import Surroundings
from holdfast.authoring.wf.conditions import ITEM, step_references
from holdfast.authoring.wf.document import Document
from holdfast.authoring.wf.problems import Code, ProblemCollector
from holdfast.core.problems import did_you_mean


def check_names(document: Document, around: Surroundings, problems: ProblemCollector) -> None:
    """Report names of steps and inputs that do not exist."""
    walk = _NameWalk(document, around, problems)
    steps: set[str] = set()
    walk.nodes(document.body, steps)
    walk.outputs(steps)
    walk.nodes(document.always, steps)


class _NameWalk:
    """A walk over the nodes in text order. Every method adds the keys of its nodes to *steps*: one
    set for the whole walk, because the keys of a block count after it, too."""

    __slots__ = ("_around", "_bodies", "_document", "_later", "_problems", "_unknown")

    def __init__(
        self, document: Document, around: Surroundings, problems: ProblemCollector
    ) -> None:
        self._document: Document = document
        self._around: Surroundings = around
        self._problems: ProblemCollector = problems
        self._unknown: bool = False
        self._bodies: int = 0
        """How many bodies of inline foreach nodes are around the node: these have an item."""
        self._later: set[str] | None = None

    def nodes(self, nodes: tuple[ast.Node, ...], steps: set[str]) -> None:
        for node in nodes:
            if type(node) is ast.CallNode:  # the most frequent node, and the cheapest
                if node.condition is not None:
                    self._condition(node.condition, steps)
                steps.add(node.target.key)
            else:
                self._node(node, steps)

    def outputs(self, steps: set[str]) -> None:
        """Check the outputs of the workflow, which are read at its end."""
        for output in self._document.outputs:
            if isinstance(output.value, ast.FieldRef):
                self._step(output.value.step, output.value.start, steps)

    def _node(self, node: ast.Node, steps: set[str]) -> None:
        match node:
            case ast.IfNode() | ast.UnlessNode() | ast.WhileNode():
                self._condition(node.condition, steps)
                self.nodes(node.body, steps)
            case ast.DoWhileNode():
                self.nodes(node.body, steps)
                self._condition(node.condition, steps)
            case ast.DoNode() | ast.AlwaysNode():
                self.nodes(node.body, steps)
            case ast.ParallelNode():
                self._branches(node.body, steps)
            case ast.CallWorkflowNode():
                self._subflow(node, steps)
            case ast.ForeachNode():
                if node.do is not None:
                    self._bodies += 1
                    self.nodes(node.do.body, set())
                    self._bodies -= 1
                steps.add(node.name)
            case _:
                self._leaf(node, steps)

    def _branches(self, branches: tuple[ast.Node, ...], steps: set[str]) -> None:
        """Walk the branches of a parallel block: none sees the steps of another."""
        added: set[str] = set()
        for branch in branches:
            if isinstance(branch, ast.CallNode):
                if branch.condition is not None:
                    self._condition(branch.condition, steps)
                added.add(branch.target.key)
            else:
                own = set(steps)
                self.nodes((branch,), own)
                added |= own
        steps |= added

    def _leaf(self, node: ast.Node, steps: set[str]) -> None:
        match node:
            case ast.ScriptNode():
                steps.add(node.name)
            case ast.WaitNode():
                steps.add(node.signal)
            case ast.QualityGateNode() if node.source.text:
                self._step(node.source.text, node.source.start, steps)
            case ast.GateNode() if isinstance(node.options, ast.FieldRef):
                self._step(node.options.step, node.options.start, steps)

    def _subflow(self, node: ast.CallWorkflowNode, steps: set[str]) -> None:
        called = self._around.workflow(node.name.text, self._document)
        if called is None:
            self._unknown = True
            return
        steps.add(node.name.text)
        if called.document is not None:
            steps |= _keys(called.document.body)

    # Names

    def _condition(self, condition: ast.Condition, steps: set[str]) -> None:
        match condition:
            case ast.MarkerCondition():
                self._step(condition.step, condition.start, steps)
            case ast.InputCondition():
                self._boolean_input(condition, steps)
            case ast.ExpressionCondition():
                self._expression(condition, steps)

    def _expression(self, condition: ast.ExpressionCondition, steps: set[str]) -> None:
        for name, is_step, start in step_references(condition):
            if is_step and name == ITEM and self._bodies and ITEM not in steps:
                continue
            if is_step:
                self._step(name, start, steps)
            elif self._document.input(name) is None:
                known = [declaration.name for declaration in self._document.inputs]
                self._problems.error(
                    start,
                    Code.UNKNOWN_INPUT,
                    f"the workflow has no input `{name}`",
                    did_you_mean(name, known) or f"declare it: `inputs {{ {name} }}`",
                )

    def _step(self, name: str, start: int, steps: set[str]) -> None:
        if name in steps or self._unknown or self._problems.is_full:
            return
        self._problems.error(
            start,
            Code.UNKNOWN_STEP,
            f"no step `{name}` can have run before",
            self._step_hint(name, steps),
        )

    def _step_hint(self, name: str, steps: set[str]) -> str:
        if self._later is None:
            self._later = _keys((*self._document.body, *self._document.always))
        if name in self._later:
            return f"`{name}` runs later, or in another branch"
        gates = {node.type for node in ast.walk(self._document.body) if type(node) is ast.GateNode}
        if name in gates:
            return "a gate has no markers: the run continues only if it is approved"
        return did_you_mean(name, steps) or did_you_mean(name, self._later)

    def _boolean_input(self, condition: ast.InputCondition, steps: set[str]) -> None:
        name = condition.name
        declaration = self._document.input(name)
        if declaration is not None and declaration.type == "boolean":
            return
        if declaration is not None:
            message = f"the input `{name}` is not boolean"
            hint = f"declare it as `{name} boolean`, or write an expression: `({name} == ...)`"
        else:
            message = f"the workflow has no boolean input `{name}`"
            hint = self._input_hint(name, steps)
        self._problems.error(condition.start, Code.UNKNOWN_INPUT, message, hint)

    def _input_hint(self, name: str, steps: set[str]) -> str:
        if name in steps:
            return f"name a marker of the step: `{name}.MARKER`"
        booleans = [item.name for item in self._document.inputs if item.type == "boolean"]
        return did_you_mean(name, booleans) or f"declare it: `inputs {{ {name} boolean }}`"


def _keys(nodes: tuple[ast.Node, ...]) -> set[str]:
    """Return the keys that the nodes of a workflow can add to the results of its caller."""
    keys = set()
    for node in ast.walk(nodes):
        key = ast.key_of(node)
        if key is not None and not isinstance(node, _WITHOUT_RESULT):
            keys.add(key)
    return keys


_WITHOUT_RESULT = (ast.GateNode, ast.QualityGateNode, ast.SleepNode, ast.EmitNode)
