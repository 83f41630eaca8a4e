"""The outcome of checking the text of a definition."""

from __future__ import annotations

from typing import Any

import msgspec


class DefinitionProblemView(msgspec.Struct, kw_only=True):
    """A problem of a definition. ``element`` is the element of a model that it is about."""

    path: str
    severity: str
    code: str
    message: str
    line: int | None = None
    column: int | None = None
    process: str | None = None
    element: str | None = None
    hint: str | None = None


class CheckedDefinitionView(msgspec.Struct, kw_only=True):
    """The problems of a definition, and what it defines, if it could be read. ``ok`` is False if a
    problem is an error."""

    ok: bool
    kind: str
    problems: list[DefinitionProblemView]
    summary: dict[str, Any] = {}


def checked(
    kind: str, problems: list[DefinitionProblemView], summary: dict[str, Any]
) -> CheckedDefinitionView:
    """Return the outcome of a check."""
    is_ok = not any(problem.severity == "error" for problem in problems)
    return CheckedDefinitionView(ok=is_ok, kind=kind, problems=problems, summary=summary)
