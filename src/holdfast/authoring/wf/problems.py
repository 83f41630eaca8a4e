"""Problems of ``.wf`` texts: their codes, and the collector that turns offsets into lines."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from holdfast.authoring.wf.lexer import LineIndex
from holdfast.core.problems import Problem, Severity

MOST_PROBLEMS = 200
"""The most problems of one text that are listed."""


class Code(StrEnum):
    """The kinds of problems."""

    SYNTAX = "syntax"
    TRAILING_TEXT = "trailing-text"
    UNKNOWN_OPTION = "unknown-option"
    MISSING_OPTION = "missing-option"
    BAD_VALUE = "bad-value"
    DUPLICATE_OPTION = "duplicate-option"
    UNKNOWN_STEP = "unknown-step"
    UNKNOWN_INPUT = "unknown-input"
    UNKNOWN_WORKFLOW = "unknown-workflow"
    MISSING_INPUT = "missing-input"
    CYCLE = "cycle"
    TOO_DEEP = "too-deep"
    UNKNOWN_PROVIDER = "unknown-provider"
    BAD_SCOPE = "bad-scope"
    MISSING_FILTER = "missing-filter"
    NOT_ORDERED = "not-ordered"
    NO_EFFECT = "no-effect"
    UNKNOWN_EXECUTOR = "unknown-executor"
    UNKNOWN_GATE = "unknown-gate"
    UNKNOWN_SCHEMA = "unknown-schema"
    BAD_SCHEMA = "bad-schema"
    MISSING_SCRIPT = "missing-script"
    NOT_EXECUTABLE = "not-executable"
    UNKNOWN_TARGET = "unknown-target"
    TRIGGER = "trigger"
    FILE_NAME = "file-name"


MEANINGS: dict[Code, str] = {
    Code.SYNTAX: "the text cannot be parsed",
    Code.TRAILING_TEXT: "there is text after the last brace",
    Code.UNKNOWN_OPTION: "the node has no such option",
    Code.MISSING_OPTION: "a required option is missing",
    Code.BAD_VALUE: "the value of an option has the wrong kind, or is an unknown word",
    Code.DUPLICATE_OPTION: "an option is given twice; the last value counts",
    Code.UNKNOWN_STEP: "no step of this name can have run before",
    Code.UNKNOWN_INPUT: "a condition names an input that is not declared, or is not boolean",
    Code.UNKNOWN_WORKFLOW: "the workflow that is called, or the file that is used, does not exist",
    Code.MISSING_INPUT: "a required input of a sub-workflow is not given",
    Code.CYCLE: "workflows call each other in a cycle",
    Code.TOO_DEEP: "workflows call each other more than five levels deep, the first included",
    Code.UNKNOWN_PROVIDER: "the provider of a `foreach` does not exist",
    Code.BAD_SCOPE: "the provider does not accept the scope or the filter",
    Code.MISSING_FILTER: "the provider needs a filter",
    Code.NOT_ORDERED: "the provider has no order",
    Code.NO_EFFECT: "`skip_dependents` without `ordered`",
    Code.UNKNOWN_EXECUTOR: "the target of a call, of `on_fail` or of `undo` does not exist",
    Code.UNKNOWN_GATE: "the type of a gate has no resolver and does not begin with `human_`",
    Code.UNKNOWN_SCHEMA: "the schema of `output` does not exist",
    Code.BAD_SCHEMA: "the schema of `output` cannot be read",
    Code.MISSING_SCRIPT: "the file of `run` does not exist",
    Code.NOT_EXECUTABLE: "the file of `run` is not executable",
    Code.UNKNOWN_TARGET: "`meta` names a target that is not allowed",
    Code.TRIGGER: "the trigger of `meta` has no effect",
    Code.FILE_NAME: "the file has another name than its workflow; the declared name counts",
}

WARNINGS = frozenset((Code.DUPLICATE_OPTION, Code.UNKNOWN_GATE, Code.TRIGGER, Code.FILE_NAME))
"""The codes of problems that do not prevent a start."""


class _Entry(msgspec.Struct, frozen=True):
    start: int
    code: Code
    message: str
    hint: str
    severity: Severity


class ProblemCollector:
    """Collect the problems of one text by their offsets; at most MOST_PROBLEMS of them.

    Lines and columns are computed only if there is a problem."""

    __slots__ = ("_entries", "_first_line", "_lines", "_path", "_text")

    def __init__(self, text: str, path: str, first_line: int = 1) -> None:
        self._text: str = text
        self._first_line: int = first_line
        self._path: str = path
        self._entries: list[_Entry] = []
        self._lines: LineIndex | None = None

    def error(self, start: int, code: Code, message: str, hint: str = "") -> None:
        self._add(_Entry(start, code, message, hint, Severity.ERROR))

    def warning(self, start: int, code: Code, message: str, hint: str = "") -> None:
        self._add(_Entry(start, code, message, hint, Severity.WARNING))

    @property
    def is_full(self) -> bool:
        return len(self._entries) >= MOST_PROBLEMS

    @property
    def has_errors(self) -> bool:
        return any(entry.severity is Severity.ERROR for entry in self._entries)

    def problems(self) -> list[Problem]:
        """Return the problems in text order, one per place and code."""
        unique = {(entry.start, entry.code): entry for entry in reversed(self._entries)}
        ordered = sorted(unique.values(), key=lambda entry: entry.start)
        return [self._located(entry) for entry in ordered]

    def _add(self, entry: _Entry) -> None:
        if len(self._entries) < MOST_PROBLEMS:
            self._entries.append(entry)

    def _located(self, entry: _Entry) -> Problem:
        if self._lines is None:
            self._lines = LineIndex(self._text, self._first_line)
        line, column = self._lines.position(entry.start)
        return Problem(
            path=self._path,
            line=line,
            column=column,
            severity=entry.severity,
            code=entry.code.value,
            message=entry.message,
            hint=entry.hint,
        )
