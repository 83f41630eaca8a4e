"""Read ``.wf`` and ``.wft`` files. A file that cannot be read is a problem with a location."""

from __future__ import annotations

import os

from holdfast.authoring.wf.document import Document
from holdfast.authoring.wf.parser import LARGEST_TEXT, ParsedText, read
from holdfast.authoring.wf.problems import Code
from holdfast.authoring.wf.templates import read_template
from holdfast.core.problems import Problem
from holdfast.errors import BadWorkflow

_LARGEST_FILE = 4 * LARGEST_TEXT
"""A character of UTF-8 has at most four bytes."""


def load(path: str | os.PathLike[str]) -> Document:
    """Return the document of a file. Raises BadWorkflow with all problems, if one is an error."""
    outcome = read_file(path)
    if outcome.document is None or outcome.has_errors:
        raise BadWorkflow(problems=outcome.problems)
    return outcome.document


def read_file(path: str | os.PathLike[str], shown: str | None = None) -> ParsedText:
    """Parse a file and return its document and its problems. *shown* is the path in problems."""
    name = os.fspath(path)
    label = shown if shown is not None else name
    text, problem = file_text(name, label)
    if problem is not None:
        return ParsedText(None, (problem,), False)
    return read_named_text(text, label, is_template=name.endswith(".wft"))


def read_named_text(text: str, path: str, is_template: bool | None = None) -> ParsedText:
    """Parse the text of a file; by default its path tells whether it is a template."""
    if is_template is None:
        is_template = path.endswith(".wft")
    return read_template(text, path) if is_template else read(text, path)


def file_text(name: str, label: str) -> tuple[str, Problem | None]:
    """Return the text of a file; if it cannot be read, an empty text and the problem."""
    try:
        with open(name, "rb") as file:
            data = file.read(_LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return "", _problem(label, 1, 1, f"the file cannot be read: {reason}")
    return decoded(data, label)


def decoded(data: bytes, label: str) -> tuple[str, Problem | None]:
    """Return bytes as a text; if they are not UTF-8, or too many, an empty text and the problem."""
    if len(data) > _LARGEST_FILE:
        return "", _problem(label, 1, 1, f"the file has more than {_LARGEST_FILE:,} bytes")
    try:
        return data.decode("utf-8"), None
    except UnicodeDecodeError as error:
        return "", _undecodable(data, error.start, label)


def _undecodable(data: bytes, place: int, label: str) -> Problem:
    before = data[:place]
    first = before.rfind(b"\n") + 1
    column = len(before[first:].decode("utf-8")) + 1
    message = f"the byte 0x{data[place]:02x} is not UTF-8"
    return _problem(label, before.count(b"\n") + 1, column, message, "save the file as UTF-8")


def _problem(path: str, line: int, column: int, message: str, hint: str = "") -> Problem:
    return Problem(
        path=path, line=line, column=column, code=Code.SYNTAX.value, message=message, hint=hint
    )
