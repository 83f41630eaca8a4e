"""The document: a ``.wf`` text without errors, as a tree with its declarations."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from holdfast.authoring.wf.ast import (
    BudgetLimit,
    ExpressionCondition,
    InputDeclaration,
    Node,
    OutputDeclaration,
    TemplateHeader,
    Word,
)
from holdfast.authoring.wf.lexer import LineIndex
from holdfast.authoring.wf.summary import count_nodes, kinds_of, used_names
from holdfast.core.problems import Problem


class Document(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A parsed text without errors. *warnings* are its problems that are not errors."""

    path: str
    text: str
    name: str
    start: int = 0
    """The offset of the name."""
    title: str = ""
    """The display name; the name if the text has none."""
    description: str = ""
    trigger: str = "manual"
    targets: tuple[Word, ...] = ()
    group: str = ""
    inputs: tuple[InputDeclaration, ...] = ()
    outputs: tuple[OutputDeclaration, ...] = ()
    budget: tuple[BudgetLimit, ...] = ()
    uses: tuple[Word, ...] = ()
    """The paths of ``use``, relative to this file."""
    body: tuple[Node, ...] = ()
    always: tuple[Node, ...] = ()
    template: TemplateHeader | None = None
    first_line: int = 1
    """The line of the file that the text begins at: the body of a template follows its header."""
    warnings: tuple[Problem, ...] = ()

    @cached_property
    def lines(self) -> LineIndex:
        return LineIndex(self.text, self.first_line)

    def position(self, offset: int) -> tuple[int, int]:
        """Return the line and the column of an offset, both counted from 1."""
        return self.lines.position(offset)

    def line(self, node: Node) -> int:
        """Return the line of a node."""
        return self.lines.position(node.start)[0]

    def input(self, name: str) -> InputDeclaration | None:
        """Return the declaration of an input; None if it is not declared."""
        for declaration in self.inputs:
            if declaration.name == name:
                return declaration
        return None

    def summary(self) -> dict[str, Any]:
        """Return the workflow as plain JSON: its inputs, nodes and the names that it uses."""
        summary: dict[str, Any] = {
            "workflow": self.name,
            "title": self.title,
            "description": self.description,
            "trigger": self.trigger,
            "targets": [target.text for target in self.targets],
            "group": self.group,
            "inputs": [_input_summary(declaration) for declaration in self.inputs],
            "nodes": count_nodes((*self.body, *self.always)),
            "body": kinds_of(self.body),
            "always": kinds_of(self.always),
            "uses": used_names((*self.body, *self.always), self.uses),
        }
        if self.outputs:
            summary["outputs"] = [output.name for output in self.outputs]
        return summary


def _input_summary(declaration: InputDeclaration) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "name": declaration.name,
        "type": declaration.type,
        "required": declaration.required,
        "default": declaration.default,
        "description": declaration.description,
    }
    if declaration.type == "choice":
        summary["choices"] = list(declaration.choices)
    return summary


def same_tree(left: Document, right: Document) -> bool:
    """Return whether two documents mean the same: everything but places, text, path and problems
    is equal."""
    return _plain(left) == _plain(right)


_PLACES = frozenset({"start", "end", "first_line", "path", "warnings"})


def _plain(value: object) -> object:
    if isinstance(value, Document):
        fields: tuple[str, ...] = tuple(f for f in value.__struct_fields__ if f != "text")
        return {f: _plain(getattr(value, f)) for f in fields if f not in _PLACES}
    if isinstance(value, ExpressionCondition):
        return value.text.split()
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
        plain = {f: _plain(getattr(value, f)) for f in names if f not in _PLACES}
        return type(value).__name__, plain
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
