"""The nodes of a document by kind, found in one walk for all checks."""

from __future__ import annotations

from typing import TypeVar

from holdfast.authoring.wf import ast
from holdfast.authoring.wf.document import Document

N = TypeVar("N")


class NodeIndex:
    """All nodes of a document, nested ones included, by their class, in text order."""

    __slots__ = ("_nodes",)

    def __init__(self, nodes: dict[type, list[ast.Node]]) -> None:
        self._nodes: dict[type, list[ast.Node]] = nodes

    def of(self, kind: type[N]) -> list[N]:
        """Return the nodes of one class."""
        return self._nodes.get(kind, [])  # type: ignore[return-value]


def nodes_by_kind(document: Document) -> NodeIndex:
    nodes: dict[type, list[ast.Node]] = {}
    for node in ast.walk((*document.body, *document.always)):
        same = nodes.get(type(node))
        if same is None:
            nodes[type(node)] = [node]
        else:
            same.append(node)
    return NodeIndex(nodes)
