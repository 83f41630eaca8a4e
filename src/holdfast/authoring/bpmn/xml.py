"""The XML of BPMN as a tree of nodes. The subtree of the diagram is skipped unless a drawing needs
it."""

from __future__ import annotations

from holdfast.authoring.xml_reader import read_tree

BPMN = "http://www.omg.org/spec/BPMN/20100524/MODEL"
_PREFIXES = {
    BPMN: "",
    "http://camunda.org/schema/1.0/bpmn": "camunda:",
    "http://camunda.org/schema/zeebe/1.0": "zeebe:",
    "http://flowable.org/bpmn": "flowable:",
    "http://activiti.org/bpmn": "activiti:",
    "urn:holdfast:bpmn": "holdfast:",
    "http://www.w3.org/2001/XMLSchema-instance": "xsi:",
    "http://www.omg.org/spec/BPMN/20100524/DI": "diagram:",
}
"""The prefix under which the reader knows the names of a namespace, whatever the file writes."""

_UNKNOWN = "other:"
_DIAGRAM = "diagram:BPMNDiagram"


class XmlNode:
    """One element: its name with the prefix of its namespace, attributes, children and text."""

    __slots__ = ("attributes", "children", "line", "tag", "text")

    def __init__(self, tag: str, attributes: dict[str, str], line: int) -> None:
        self.tag: str = tag
        self.attributes: dict[str, str] = attributes
        self.children: list[XmlNode] = []
        self.text: str = ""
        self.line: int = line

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return an attribute; *default* if it is missing."""
        return self.attributes.get(name, default)

    def first(self, tag: str) -> XmlNode | None:
        """Return the first child with that tag."""
        for child in self.children:
            if child.tag == tag:
                return child
        return None

    def all(self, *tags: str) -> list[XmlNode]:
        """Return the children with one of these tags, in document order."""
        return [child for child in self.children if child.tag in tags]


def read_xml(data: bytes, *, with_diagram: bool = False) -> XmlNode:
    """Return the root of the tree. Raises ModelUnreadable."""
    return read_tree(data, XmlNode, _prefix, None if with_diagram else _DIAGRAM)


def _prefix(space: str) -> str:
    return _PREFIXES.get(space, _UNKNOWN)
