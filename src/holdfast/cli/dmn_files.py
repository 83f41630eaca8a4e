"""Check DMN files, for ``holdfast check``."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.cli.definition_files import CheckedFile
from holdfast.connect.decisions import load
from holdfast.core.problems import Problem
from holdfast.errors import ModelUnreadable
from holdfast.errors.base import text_of


def check_files(paths: Sequence[str], using: bool) -> list[CheckedFile]:
    """Check files; each with all its problems, and the names of its decisions and inputs."""
    return [_checked(path) for path in paths]


def _checked(path: str) -> CheckedFile:
    try:
        model = load(path)
    except ModelUnreadable as error:
        return CheckedFile(path=path, problems=[_unreadable(path, error)])
    summary = {"decisions": model.decisions, "inputs": model.inputs}
    return CheckedFile(path=path, problems=model.problems, summary=summary)


def _unreadable(path: str, error: ModelUnreadable) -> Problem:
    line = error.facts.get("line")
    column = error.facts.get("column")
    return Problem(
        path=path,
        line=line if isinstance(line, int) else 1,
        column=column if isinstance(column, int) else 1,
        code="unreadable",
        message=text_of(error.facts, "why"),
        hint="give a complete XML file of DMN, without entities",
    )
