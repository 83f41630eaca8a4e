"""The summary of a tree: its nodes by kind, and the names that it uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from holdfast.authoring.wf import ast


def count_nodes(nodes: Iterable[ast.Node]) -> dict[str, int]:
    """Return the number of nodes by kind, nested ones included."""
    counts = Counter(ast.kind_of(node) for node in ast.walk(nodes))
    return dict(sorted(counts.items()))


def kinds_of(nodes: Iterable[ast.Node]) -> list[str]:
    """Return the kinds of nodes, in order."""
    return [ast.kind_of(node) for node in nodes]


def used_names(nodes: Iterable[ast.Node], files: Iterable[ast.Word]) -> dict[str, list[str]]:
    """Return the names that nodes use, sorted, by the kind of the named thing. Empty lists are left
    out."""
    names: dict[str, set[str]] = {"files": {file.text for file in files}}
    for node in ast.walk(nodes):
        for kind, name in _names_of(node):
            names.setdefault(kind, set()).add(name)
    return {kind: sorted(names[kind]) for kind in sorted(names) if names[kind]}


def _names_of(node: ast.Node) -> list[tuple[str, str]]:
    names = [*_own_names(node), *_handlers(node)]
    if isinstance(node, ast.CallNode | ast.DoNode | ast.ParallelNode):
        names += _texts(node)
    if isinstance(node, ast.ForeachNode) and node.do is not None:
        names += _texts(node.do)
    identity = getattr(node, "identity", None)
    if identity is not None:
        names.append(("identities", identity))
    lane = getattr(node, "lane", None)
    if lane is not None:
        names.append(("lanes", lane))
    return names


def _own_names(node: ast.Node) -> list[tuple[str, str]]:
    match node:
        case ast.CallNode():
            return [("executors", node.target.text)]
        case ast.CallWorkflowNode():
            return [("workflows", node.name.text)]
        case ast.ScriptNode():
            return [("scripts", word) for word in node.run.text.split()[:1]]
        case ast.GateNode():
            return [("gates", node.type)]
        case ast.QualityGateNode():
            return [("gates", "quality_gate")]
        case ast.WaitNode():
            return [("signals", node.signal)]
        case ast.ForeachNode():
            names = [("providers", node.over.text)]
            if node.workflow is not None:
                names.append(("workflows", node.workflow.text))
            return names
    return []


def _handlers(node: ast.Node) -> list[tuple[str, str]]:
    if not isinstance(node, ast.CallNode | ast.CallWorkflowNode | ast.ScriptNode):
        return []
    return [("executors", target.text) for target in (node.on_fail, node.undo) if target]


def _texts(node: ast.CallNode | ast.DoNode | ast.ParallelNode) -> list[tuple[str, str]]:
    names = [("snippets", snippet.text) for snippet in node.snippets]
    if node.output is not None:
        names.append(("schemas", node.output.text))
    return names
