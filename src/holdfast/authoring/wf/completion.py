"""Suggestions for the place of the cursor: keywords, options, values, steps, inputs, workflows.

The text before the cursor may be incomplete, so only its tokens are read: the open braces and the
words before them tell which block the cursor is in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from holdfast.authoring.wf import ast
from holdfast.authoring.wf.cursor import NODE_KEYWORDS
from holdfast.authoring.wf.document import Document
from holdfast.authoring.wf.lexer import LETTERS, tokenize
from holdfast.authoring.wf.options import OPTIONS

_BLOCK_WORDS = frozenset(
    ("workflow", "meta", "inputs", "wait", "budget", "outputs", *NODE_KEYWORDS)
)
_WITH_NODES = frozenset(
    ("workflow", "if", "unless", "while", "do", "do while", "parallel", "always")
)
_TOP_LEVEL = ("meta", "inputs", "outputs", "budget", "use", "always")
_NODE_WORDS = (*sorted(NODE_KEYWORDS), "call workflow", "sleep", "wait signal", "emit")
_MODIFIERS = ("required", "boolean", "default", "description", "type", "choices")
_CHOICES = re.compile(r"`([a-z_]+)`")


class Suggestion(msgspec.Struct, frozen=True):
    """A word that fits the place of the cursor. *kind* is keyword, option, value, step, input or
    workflow."""

    label: str
    kind: str
    detail: str = ""


def suggestions(
    text: str, offset: int, document: Document | None, workflows: Sequence[str]
) -> list[Suggestion]:
    """Return the words that fit at *offset*. *document* is the text as far as it can be parsed."""
    words = _words_before(text, offset)
    last = words[-1] if words else ""
    before = words[-2] if len(words) > 1 else ""
    if (before, last) == ("call", "workflow") or (before, last) == ("workflow", "="):
        return [Suggestion(name, "workflow") for name in workflows]
    if last == "call":
        return [Suggestion("workflow", "keyword"), *_targets(document)]
    if last in ("if", "unless", "while"):
        return [*_steps(document), *_boolean_inputs(document)]
    if last == ".":
        return _markers(document, before)
    stack = _open_blocks(words)
    kind = stack[-1] if stack else ""
    if last == "=":
        return _values(kind, before, document)
    return _block_words(kind, words, document)


def _words_before(text: str, offset: int) -> list[str]:
    """Return the tokens before the word at the cursor."""
    tokens = tokenize(text[:offset])
    words = tokens.texts[:-1]
    is_partial = bool(words) and words[-1][:1] in LETTERS and tokens.ends[len(words) - 1] == offset
    return words[:-1] if is_partial else words


def _open_blocks(words: list[str]) -> list[str]:
    """Return the kinds of the blocks that are open at the end; an empty text for a map."""
    stack: list[str] = []
    begins = 0
    for index, word in enumerate(words):
        if word == "{":
            is_map = index > 0 and words[index - 1] == "="
            stack.append("" if is_map else _kind(words[begins:index], stack))
            begins = index + 1
        elif word == "}":
            if stack:
                stack.pop()
            begins = index + 1
    return stack


def _kind(head: list[str], stack: list[str]) -> str:
    """Return the kind of the block that the words before a brace begin."""
    for index in range(len(head) - 1, -1, -1):
        word = head[index]
        if word not in _BLOCK_WORDS or (index and head[index - 1] in ("=", ".")):
            continue
        following = head[index + 1] if index + 1 < len(head) else ""
        if word == "workflow" and index and head[index - 1] == "call":
            return "call workflow"
        if word == "gate" and following == "quality_gate":
            return "quality gate"
        if word == "call" and stack and stack[-1] == "parallel":
            return "call in parallel"
        return word
    return ""


def _block_words(kind: str, words: list[str], document: Document | None) -> list[Suggestion]:
    if not kind:
        return [] if words else [Suggestion("workflow", "keyword")]
    if kind == "inputs":
        return [Suggestion(word, "keyword") for word in _MODIFIERS]
    offered: list[Suggestion] = []
    for option in (kind, "do while") if kind == "do" else (kind,):
        for rule in OPTIONS.get(option, {}).values():
            offered.append(Suggestion(rule.key, "option", rule.doc))
    if kind in _WITH_NODES:
        offered += [Suggestion(word, "keyword") for word in _NODE_WORDS]
    if kind == "workflow":
        offered += [Suggestion(word, "keyword") for word in _TOP_LEVEL]
    if kind == "call workflow":
        offered.append(Suggestion("inputs", "keyword"))
    if kind == "foreach":
        offered.append(Suggestion("do", "keyword"))
    return _unique(offered)


def _values(kind: str, key: str, document: Document | None) -> list[Suggestion]:
    rule = OPTIONS.get(kind, {}).get(key)
    if rule is None and kind == "do":
        rule = OPTIONS["do while"].get(key)
    if rule is None:
        return []
    offered = [Suggestion(word, "value") for word in _CHOICES.findall(rule.form)]
    if key in ("source", "options"):
        offered += _steps(document)
    if key in ("on_fail", "undo"):
        offered += _targets(document)
    return _unique(offered)


def _nodes(document: Document | None) -> list[ast.Node]:
    if document is None:
        return []
    return list(ast.walk((*document.body, *document.always)))


def _steps(document: Document | None) -> list[Suggestion]:
    keys = [ast.key_of(node) for node in _nodes(document) if not isinstance(node, _NO_STEPS)]
    return _unique(Suggestion(key, "step") for key in keys if key)


_NO_STEPS = (ast.GateNode, ast.QualityGateNode, ast.SleepNode, ast.EmitNode)


def _targets(document: Document | None) -> list[Suggestion]:
    calls = [node for node in _nodes(document) if isinstance(node, ast.CallNode)]
    return _unique(
        Suggestion(node.target.text, "step") for node in calls if not node.target.is_path
    )


def _boolean_inputs(document: Document | None) -> list[Suggestion]:
    declared = document.inputs if document is not None else ()
    return [Suggestion(item.name, "input") for item in declared if item.type == "boolean"]


def _markers(document: Document | None, step: str) -> list[Suggestion]:
    """Return the markers of a step that other conditions of the text name."""
    offered = []
    for node in _nodes(document):
        condition = getattr(node, "condition", None)
        if isinstance(condition, ast.MarkerCondition) and condition.step == step:
            offered.append(Suggestion(condition.marker, "value"))
    return _unique(offered)


def _unique(offered: Iterable[Suggestion]) -> list[Suggestion]:
    return list({suggestion.label: suggestion for suggestion in offered}.values())
