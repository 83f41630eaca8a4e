"""Check ``foreach``: its provider exists and accepts the scope, the filter and the order."""

from __future__ import annotations

from holdfast.authoring.wf import ast
from holdfast.authoring.wf.check.node_index import NodeIndex
from holdfast.authoring.wf.check.surroundings import ProviderFacts, Surroundings
from holdfast.authoring.wf.problems import Code, ProblemCollector
from holdfast.core.problems import did_you_mean


def check_fanout(nodes: NodeIndex, around: Surroundings, problems: ProblemCollector) -> None:
    """Report faults of the foreach nodes of a document."""
    for node in nodes.of(ast.ForeachNode):
        _check_order(node, problems)
        _check_provider(node, around, problems)


def _check_order(node: ast.ForeachNode, problems: ProblemCollector) -> None:
    if node.on_child_fail == "skip_dependents" and not node.ordered:
        problems.error(
            node.start,
            Code.NO_EFFECT,
            f"`skip_dependents` of `foreach {node.name}` has no effect without order",
            "write `ordered = true`",
        )


def _check_provider(
    node: ast.ForeachNode, around: Surroundings, problems: ProblemCollector
) -> None:
    providers = around.providers()
    if providers is None or not node.over.text:
        return
    facts = providers.get(node.over.text)
    if facts is None:
        problems.error(
            node.over.start,
            Code.UNKNOWN_PROVIDER,
            f"there is no provider `{node.over.text}`",
            did_you_mean(node.over.text, providers) or "register it with `library.provider`",
        )
        return
    if node.ordered and not facts.ordered:
        ordered = sorted(name for name, other in providers.items() if other.ordered)
        listed = ", ".join(f"`{name}`" for name in ordered) or "none"
        problems.error(
            node.start,
            Code.NOT_ORDERED,
            f"the provider `{node.over.text}` has no order",
            f"providers with an order: {listed}",
        )
    _check_selection(node, facts, around, problems)


def _check_selection(
    node: ast.ForeachNode,
    facts: ProviderFacts,
    around: Surroundings,
    problems: ProblemCollector,
) -> None:
    if facts.needs_filter and not node.filter:
        problems.error(
            node.start,
            Code.MISSING_FILTER,
            f"the provider `{node.over.text}` needs a filter",
            "write `filter = { ... }`",
        )
        return
    faults = around.provider_faults(node.over.text, dict(node.scope), dict(node.filter))
    if faults:
        problems.error(node.start, Code.BAD_SCOPE, "; ".join(faults))
