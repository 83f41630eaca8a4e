"""Check calls of other workflows: they exist, get their inputs, and form no cycle or long chain."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.authoring.wf import ast
from holdfast.authoring.wf.check.node_index import NodeIndex
from holdfast.authoring.wf.check.surroundings import Surroundings
from holdfast.authoring.wf.document import Document
from holdfast.authoring.wf.problems import Code, ProblemCollector
from holdfast.core.problems import did_you_mean

MOST_LEVELS = 5
"""The longest chain of workflows that call each other, the first one included."""

_Reference = ast.CallWorkflowNode | ast.ForeachNode


def check_subflows(
    document: Document, nodes: NodeIndex, around: Surroundings, problems: ProblemCollector
) -> None:
    """Report calls of workflows that do not exist, miss an input, or lead to a cycle."""
    for path in document.uses:
        fault = around.used_file(path.text, document)
        if fault is not None:
            problems.error(
                path.start, Code.UNKNOWN_WORKFLOW, f"`{path.text}` cannot be used: {fault}"
            )
    if not nodes.of(ast.CallWorkflowNode) and not nodes.of(ast.ForeachNode):
        return
    for _, node in references(document):
        _check_reference(node, document, around, problems)
    _check_chains(document, around, problems)


def references(document: Document) -> Iterator[tuple[int, _Reference]]:
    """Return the nodes of a document that name another workflow, each with the levels of inline
    bodies around it: the body of a ``foreach`` is a child run of its own."""
    yield from _references((*document.body, *document.always), 0)


def _references(nodes: tuple[ast.Node, ...], level: int) -> Iterator[tuple[int, _Reference]]:
    for node in nodes:
        if isinstance(node, ast.ForeachNode):
            yield level, node
            if node.do is not None:
                yield from _references(node.do.body, level + 1)
        elif isinstance(node, ast.CallWorkflowNode):
            yield level, node
        elif isinstance(node, ast.BLOCKS):
            yield from _references(node.body, level)


def called_name(node: _Reference) -> ast.Word | None:
    """Return the workflow that a node names; None for an inline body."""
    return node.name if isinstance(node, ast.CallWorkflowNode) else node.workflow


def _check_reference(
    node: _Reference, document: Document, around: Surroundings, problems: ProblemCollector
) -> None:
    name = called_name(node)
    if name is None:
        return
    called = around.workflow(name.text, document)
    if called is None:
        problems.error(
            name.start,
            Code.UNKNOWN_WORKFLOW,
            f"there is no workflow `{name.text}`",
            did_you_mean(name.text, around.workflow_names(document)),
        )
    elif called.document is not None:
        _check_inputs(node, name.text, called.document, problems)


def _check_inputs(
    node: _Reference, name: str, called: Document, problems: ProblemCollector
) -> None:
    supplied = [key for key, _ in node.inputs]
    missing = [
        declaration.name
        for declaration in called.inputs
        if declaration.required and declaration.name not in supplied
    ]
    if not missing:
        return
    declared = {declaration.name for declaration in called.inputs}
    strangers = [key for key in supplied if key not in declared]
    hint = f"write `inputs {{ {missing[0]} = ... }}`"
    for stranger in strangers:
        hint = did_you_mean(stranger, missing) or hint
    listed = ", ".join(f"`{each}`" for each in missing)
    problems.error(
        node.start,
        Code.MISSING_INPUT,
        f"the workflow `{name}` requires {listed}",
        hint,
    )


def _check_chains(document: Document, around: Surroundings, problems: ProblemCollector) -> None:
    """Report the first cycle, else the first chain that is too long."""
    named = [(level, node, called_name(node)) for level, node in references(document)]
    searched: set[str] = set()
    for _, node, name in named:
        if name is None or name.text in searched:
            continue
        searched.add(name.text)
        chain = _cycle(document, name, around)
        if chain is not None:
            listed = " -> ".join(chain)
            problems.error(node.start, Code.CYCLE, f"circular workflow reference {listed}")
            return
    depths: _Depths = {}
    for level, node, name in named:
        below = 1 if name is None else _depth(document, name, around, depths)
        if 1 + level + below > MOST_LEVELS:
            problems.error(
                node.start,
                Code.TOO_DEEP,
                f"workflows call each other more than {MOST_LEVELS} levels deep",
                "call the inner workflows from an outer one",
            )
            return


def _cycle(document: Document, name: ast.Word, around: Surroundings) -> list[str] | None:
    """Return the names of a cycle that a call leads to. The search is iterative: a chain of
    definitions may have any length."""
    path: list[str] = [document.name]
    stack: list[Iterator[tuple[str, Document]]] = [iter(_called(document, name, around))]
    finished: set[str] = set()
    while stack:
        following = next(stack[-1], None)
        if following is None:
            finished.add(path.pop())
            stack.pop()
            continue
        called_as, called = following
        if called_as in path:
            return [*path[path.index(called_as) :], called_as]
        if called_as not in finished:
            path.append(called_as)
            stack.append(_children(called, around))
    return None


def _called(document: Document, name: ast.Word, around: Surroundings) -> list[tuple[str, Document]]:
    called = around.workflow(name.text, document)
    if called is None or called.document is None:
        return []
    return [(called.name, called.document)]


def _children(document: Document, around: Surroundings) -> Iterator[tuple[str, Document]]:
    for _, node in references(document):
        name = called_name(node)
        if name is not None:
            yield from _called(document, name, around)


_Depths = dict[tuple[str, int], int]
"""The levels of a workflow, by its name and the levels that are left to look at."""


def _depth(document: Document, name: ast.Word, around: Surroundings, depths: _Depths) -> int:
    """Return the levels of the workflow of a name and everything below it. The search ends one
    level behind the limit."""
    for _, called in _called(document, name, around):
        return _levels(called, around, depths, MOST_LEVELS)
    return 1


def _levels(document: Document, around: Surroundings, depths: _Depths, left: int) -> int:
    if left <= 1:
        return 1
    key = (document.name, left)
    if key not in depths:
        deepest = 1
        for level, node in references(document):
            name = called_name(node)
            below = 1
            if name is not None:
                for _, called in _called(document, name, around):
                    below = _levels(called, around, depths, left - 1)
            deepest = max(deepest, 1 + level + below)
        depths[key] = deepest
    return depths[key]
