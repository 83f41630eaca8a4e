"""The XML of DMN as a tree of elements."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.authoring.xml_reader import read_tree
from holdfast.errors import ModelUnreadable

_DMN = re.compile(r"https?://www\.omg\.org/spec/DMN/[^/]*/(?:MODEL/|dmn\.xsd)")
_KNOWN = {"http://camunda.org/schema/1.0/dmn": "camunda:"}


class DmnElement:
    """An element of a DMN file. Names of DMN have no prefix, of any version; others have one."""

    __slots__ = ("attributes", "children", "line", "tag", "text")

    def __init__(self, tag: str, attributes: dict[str, str], line: int) -> None:
        self.tag: str = tag
        self.attributes: dict[str, str] = attributes
        self.children: list[DmnElement] = []
        self.text: str = ""
        self.line: int = line

    def get(self, name: str, default: str = "") -> str:
        """Return an attribute."""
        return self.attributes.get(name, default)

    def first(self, *tags: str) -> DmnElement | None:
        """Return the first child with one of these tags."""
        return next(self.all(*tags), None)

    def all(self, *tags: str) -> Iterator[DmnElement]:
        """Yield the children with these tags."""
        return (child for child in self.children if child.tag in tags)

    def content(self, tag: str = "text") -> str:
        """Return the text of a child, empty if there is none."""
        child = self.first(tag)
        if child is None:
            return ""
        return child.text.strip()


def read_dmn_xml(data: bytes) -> DmnElement:
    """Return the root of the elements. Raises ModelUnreadable."""
    root = read_tree(data, DmnElement, _prefix)
    if root.tag != "definitions":
        raise ModelUnreadable(why="its root is not `definitions` of DMN", element=root.tag)
    return root


def _prefix(space: str) -> str:
    if not space or _DMN.fullmatch(space):
        return ""
    return _KNOWN.get(space, "other:")
