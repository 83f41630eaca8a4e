"""Tell the language of an expression by its text and by what the file says."""

from __future__ import annotations

from holdfast.authoring.bpmn.model import Assignment, ModelExpression
from holdfast.authoring.bpmn.xml import XmlNode

LITERAL = "literal"
JUEL = "juel"
FEEL = "feel"
CONDITION = "condition"
LIST = "list"
MAP = "map"
PLAIN = "plain"
"""A condition whose language neither its text nor the file states."""


def expression_of(text: str | None, language: str | None = None) -> ModelExpression | None:
    """Return the expression that a text stands for; None if it is empty.

    *language* is the language that the file states for a text without a mark of its own."""
    text = (text or "").strip()
    if not text:
        return None
    if "${" in text or "#{" in text:
        return ModelExpression(text, JUEL)
    if text.startswith("="):
        return ModelExpression(text, FEEL)
    return ModelExpression(text, stated_language(language) or LITERAL)


def computed(text: str | None) -> ModelExpression | None:
    """Return the expression that gives a name; None if the text is the name itself."""
    expression = expression_of(text)
    if expression is None or expression.language == LITERAL:
        return None
    return expression


def stated_language(language: str | None) -> str | None:
    """Return the short name of a language that a file names; None if it names none."""
    if not language:
        return None
    lowered = language.lower()
    if "feel" in lowered:
        return FEEL
    if "juel" in lowered or lowered.rstrip("/").endswith("/el"):
        return JUEL
    return lowered


def extension_children(node: XmlNode, tag: str) -> list[XmlNode]:
    """Return the children with that tag of all extension elements of a node."""
    return [
        child
        for extension in node.children
        if extension.tag == "extensionElements"
        for child in extension.children
        if child.tag == tag
    ]


def extension(node: XmlNode, tag: str) -> XmlNode | None:
    """Return the first extension with that tag."""
    for child in extension_children(node, tag):
        return child
    return None


def texts_of(text: str | None) -> tuple[ModelExpression, ...]:
    """Return the expressions of a list that is separated by commas; one expression if the text is
    one, commas and all."""
    if text and text.strip()[:1] in ("$", "#", "="):
        whole = expression_of(text)
        return () if whole is None else (whole,)
    parts = (expression_of(part) for part in (text or "").split(","))
    return tuple(part for part in parts if part is not None)


def assignment(source: str | None, target: str | None) -> Assignment | None:
    """Return a line of a mapping; None if it is incomplete."""
    expression = expression_of(source)
    if expression is None or not target:
        return None
    return Assignment(expression, target)
