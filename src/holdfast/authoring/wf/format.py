"""Format a ``.wf`` text: one layout for every text, with all its comments.

A block of options stands on one line if it is short and has no comments; every other block has one
statement per line. Strings and expressions stay as they are written. Formatting a formatted text
changes nothing.
"""

from __future__ import annotations

from holdfast.authoring.wf.front_matter import split_front_matter
from holdfast.authoring.wf.layout import (
    CompositeValue,
    SourceFile,
    TextBlock,
    TextComment,
    TextStatement,
    structure_of,
)
from holdfast.authoring.wf.parser import read
from holdfast.errors import BadWorkflow

INDENT = "  "
WIDTH = 100
SHORT = 80
MOST_ON_A_LINE = 3
"""So many options stand on one line."""


def format_text(text: str, path: str = "<text>") -> str:
    """Return a text in the layout of the language. Raises BadWorkflow if it has syntax errors. The
    front matter of a template stays as it is."""
    header, body = split_front_matter(text)
    outcome = read(body, path, first_line=header.count("\n") + 1)
    if not outcome.is_complete:
        raise BadWorkflow(problems=outcome.problems)
    return header + formatted(structure_of(body))


def formatted(source: SourceFile) -> str:
    """Return the text of a structure."""
    lines: list[str] = []
    _write_statement(source.workflow, "", lines)
    _write_comments(source.closing, "", lines)
    return "\n".join(lines).lstrip("\n") + "\n"


def _write_comments(comments: list[TextComment], indent: str, lines: list[str]) -> None:
    for comment in comments:
        if comment.after_blank:
            _blank_line(lines)
        lines.append(indent + comment.text)


def _blank_line(lines: list[str]) -> None:
    """Add a blank line, unless a block begins here or one stands here already."""
    if lines and lines[-1] and not lines[-1].endswith("{") and not _opens_block(lines[-1]):
        lines.append("")


def _opens_block(line: str) -> bool:
    before, comment, _ = line.partition("{ //")
    return bool(comment) and '"' not in before


def _write_statement(statement: TextStatement, indent: str, lines: list[str]) -> None:
    _write_comments(statement.leading, indent, lines)
    if statement.after_blank:
        _blank_line(lines)
    if statement.value is not None:
        _write_value(statement, statement.value, indent, lines)
    elif statement.block is None:
        lines.append(indent + statement.head + _trailing(statement))
    else:
        _write_block(statement, statement.block, indent, lines)


def _trailing(statement: TextStatement) -> str:
    return f" {statement.trailing}" if statement.trailing else ""


def _write_value(
    statement: TextStatement, value: CompositeValue, indent: str, lines: list[str]
) -> None:
    line = f"{indent}{statement.head} {_inline_value(value)}"
    if len(line) <= WIDTH or len(value.entries) < 2 or "\n" in line:
        lines.append(line + _trailing(statement))
        return
    lines.append(f"{indent}{statement.head} {value.opening.strip()}")
    for entry in value.entries:
        lines.append(f"{indent}{INDENT}{entry}{value.separator.rstrip()}")
    lines.append(f"{indent}{value.closing.strip()}{_trailing(statement)}")


def _inline_value(value: CompositeValue) -> str:
    if not value.entries:
        return value.opening.strip() + value.closing.strip()
    return value.opening + value.separator.join(value.entries) + value.closing


def _write_block(statement: TextStatement, block: TextBlock, indent: str, lines: list[str]) -> None:
    tail = f" {statement.tail}" if statement.tail else ""
    inline = _inline_block(statement, block)
    if inline is not None and len(indent) + len(inline) <= SHORT:
        lines.append(f"{indent}{inline}{tail}{_trailing(statement)}")
        return
    opening = f" {block.opening}" if block.opening else ""
    lines.append(f"{indent}{statement.head} {{{opening}")
    for inner in block.statements:
        _write_statement(inner, indent + INDENT, lines)
    _write_comments(block.closing, indent + INDENT, lines)
    lines.append(f"{indent}}}{tail}{_trailing(statement)}")


_ALWAYS_OPEN = ("workflow", "do", "parallel", "always")


def _inline_block(statement: TextStatement, block: TextBlock) -> str | None:
    """Return a block on one line; None if it needs several."""
    if block.opening or block.closing:
        return None
    if not block.statements:
        return f"{statement.head} {{}}"
    if statement.head.split(" ", 1)[0] in _ALWAYS_OPEN:
        return None
    if len(block.statements) > MOST_ON_A_LINE:
        return None
    texts = [_inline_statement(inner) for inner in block.statements]
    if any(text is None or "\n" in text for text in texts):
        return None
    return f"{statement.head} {{ {' '.join(text for text in texts if text)} }}"


def _inline_statement(statement: TextStatement) -> str | None:
    if statement.leading or statement.trailing or statement.block is not None:
        return None
    if statement.value is not None:
        return f"{statement.head} {_inline_value(statement.value)}"
    first = statement.head.split(" ", 2)
    is_option = len(first) > 1 and first[1] == "="
    is_input = first[0].isidentifier() and first[0] not in _NODES
    return statement.head if is_option or is_input else None


_NODES = frozenset(("call", "sleep", "wait", "emit"))
