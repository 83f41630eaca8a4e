"""The plan of a text: its nodes with their identities and prepared options.

It is made once per text. The interpreter walks it; the view of a run's steps finds the node of a
recorded identity in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.authoring.wf import ast
from holdfast.authoring.wf.document import Document
from holdfast.authoring.wf.identity import ALWAYS, HANDLER, UNDO, KeyCounter
from holdfast.core.retry import RetryPolicy

LONGEST_BACKOFF = 30 * 86_400_000_000
"""Microseconds that the doubled delay between attempts reaches at most."""

STEP_KINDS: dict[Any, str] = {
    ast.CallNode: "call",
    ast.ScriptNode: "script",
    ast.CallWorkflowNode: "workflow",
    ast.GateNode: "gate",
    ast.QualityGateNode: "gate",
    ast.ForeachNode: "foreach",
    ast.SleepNode: "sleep",
    ast.WaitNode: "wait",
    ast.EmitNode: "emit",
}


class PlanNode:
    """One node of a text with its place."""

    __slots__ = (
        "block",
        "body",
        "key",
        "kind",
        "line",
        "local",
        "node",
        "order",
        "policy",
        "schema",
        "snippets",
    )

    def __init__(self, node: Any, local: str, line: int, order: int, block: str | None) -> None:
        self.node: Any = node
        self.local: str = local
        """The identity within the body of its loop."""
        self.line: int = line
        self.order: int = order
        """Its number in the order of the text."""
        self.block: str | None = block
        """The template of the parallel block around it; None outside."""
        self.key: str = ast.key_of(node) or ""
        self.kind: str = STEP_KINDS.get(type(node), "")
        self.body: tuple[PlanNode, ...] = ()
        self.policy: RetryPolicy = policy_of(node)
        output = getattr(node, "output", None)
        self.schema: str | None = None if output is None else output.text
        self.snippets: tuple[str, ...] = tuple(word.text for word in getattr(node, "snippets", ()))


class PlannedStep:
    """A place in the text that records a step: a node, a handler of its failure, or its undo."""

    __slots__ = ("always", "handled", "key", "kind", "node", "order")

    def __init__(self, node: PlanNode, key: str, kind: str, always: bool, order: float) -> None:
        self.node: PlanNode = node
        self.key: str = key
        self.kind: str = kind
        self.always: bool = always
        self.order: float = order
        self.handled: str | None = None
        if kind not in ("undo", "handler") and getattr(node.node, "tolerates", False):
            self.handled = "continue"


class Plan:
    """The nodes of a document, and the places in its text by template."""

    def __init__(self, document: Document) -> None:
        self.document: Document = document
        self.steps: dict[str, PlannedStep] = {}
        self.bodies: dict[str, tuple[PlanNode, ...]] = {}
        """The bodies of inline foreach nodes, by the template of the foreach."""
        self.lines: dict[str, int] = {}
        self.keys: set[str] = set()
        """The keys of all steps."""
        self._order: int = 0
        self._always: int = 0
        """How many nested always blocks are around the node that is planned."""
        self.body: tuple[PlanNode, ...] = self._nodes(document.body, "", KeyCounter(), None)
        self.always: tuple[PlanNode, ...] = self._nodes(document.always, ALWAYS, KeyCounter(), None)

    def _nodes(
        self, nodes: Iterable[Any], path: str, counter: KeyCounter, block: str | None
    ) -> tuple[PlanNode, ...]:
        return tuple(self._plan(node, path, counter, block) for node in nodes)

    def _plan(self, node: Any, path: str, counter: KeyCounter, block: str | None) -> PlanNode:
        line = self.document.line(node)
        self._order += 1
        if isinstance(node, ast.WhileNode | ast.DoWhileNode):
            plan = PlanNode(node, counter.next(loop_name(node)), line, self._order, block)
            inner = f"{path}{plan.local}[]/"
            plan.body = self._nodes(node.body, inner, KeyCounter(), block)
        elif isinstance(node, ast.ParallelNode):
            plan = PlanNode(node, counter.next("parallel"), line, self._order, block)
            plan.body = self._nodes(node.body, path, counter, f"{path}{plan.local}")
        elif isinstance(node, ast.BLOCKS):
            plan = PlanNode(node, "", line, self._order, block)
            self._always += isinstance(node, ast.AlwaysNode)
            plan.body = self._nodes(node.body, path, counter, block)
            self._always -= isinstance(node, ast.AlwaysNode)
        else:
            plan = PlanNode(node, counter.next(ast.key_of(node) or ""), line, self._order, block)
            self._add_step(plan, path)
        return plan

    def _add_step(self, plan: PlanNode, path: str) -> None:
        template = path + plan.local
        always = path.startswith(ALWAYS) or self._always > 0
        self.keys.add(plan.key)
        self.lines[template] = plan.line
        self.steps[template] = PlannedStep(plan, plan.key, plan.kind, always, plan.order)
        handler = getattr(plan.node, "on_fail", None)
        if isinstance(handler, ast.Target):
            place = f"{template}{HANDLER}{handler.key}"
            self.steps[place] = PlannedStep(plan, handler.key, "handler", always, plan.order + 0.5)
        undo = getattr(plan.node, "undo", None)
        if undo is not None:
            place = f"{template}{UNDO}{undo.key}"
            self.steps[place] = PlannedStep(plan, undo.key, "undo", always, plan.order)
        if isinstance(plan.node, ast.ForeachNode) and plan.node.do is not None:
            self.bodies[template] = self._nodes(
                plan.node.do.body, f"{template}:", KeyCounter(), None
            )

    def all_nodes(self) -> Iterator[PlanNode]:
        """Yield the nodes that are steps, in the order of the text."""
        for step in self.steps.values():
            if step.kind not in ("handler", "undo"):
                yield step.node


def loop_name(node: ast.WhileNode | ast.DoWhileNode) -> str:
    """Return the name of a loop in identities: its condition, if that is a marker."""
    if isinstance(node.condition, ast.MarkerCondition):
        return f"{node.condition.step}.{node.condition.marker}"
    return "loop"


def policy_of(node: Any) -> RetryPolicy:
    """Return the retry policy of a node; without ``retry`` there is no delay."""
    rule = getattr(node, "retry", None)
    if rule is None:
        return RetryPolicy(retries=getattr(node, "retries", 0), delay=0, jitter=0.0)
    return RetryPolicy(
        retries=rule.max,
        delay=rule.backoff,
        factor=2.0,
        cap=max(LONGEST_BACKOFF, rule.backoff),
        jitter=0.0,
        when=_Retryable(rule.on) if rule.on else None,
    )


class _Retryable:
    """Tells whether a text retries a failure."""

    __slots__ = ("_names",)

    def __init__(self, names: Iterable[str]) -> None:
        self._names: frozenset[str] = frozenset(names)

    def __call__(self, error: Exception) -> bool:
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if "StepTimeout" in kinds:
            kinds.add("timed_out")
        if "ScriptFailed" in kinds and "code" in getattr(error, "facts", {}):
            kinds.add("exit")
        return bool(kinds & self._names)
