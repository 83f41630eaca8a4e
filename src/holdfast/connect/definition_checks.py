"""Check the text of a definition of any kind. Nothing is stored, and no file is read.

The front ends are imported when they are needed: a server without texts loads none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from holdfast.connect.components import Components
from holdfast.core.problems import Problem
from holdfast.errors import BadOption, ModelUnreadable
from holdfast.errors.base import text_of
from holdfast.views.definition_checks import CheckedDefinitionView, DefinitionProblemView, checked


def check_text(
    parts: Components, text: str, *, kind: str, path: str, files: Mapping[str, str]
) -> CheckedDefinitionView:
    """Check the text of a definition. *path* is its name in problems; *files* are the texts of
    other files that it uses, by path. Raises BadOption."""
    check = _CHECKS.get(kind)
    if check is None:
        raise BadOption(option="kind", value=kind, known=", ".join(_CHECKS))
    return check(parts, text, path, files)


def _check_wf(
    parts: Components, text: str, path: str, files: Mapping[str, str]
) -> CheckedDefinitionView:
    from holdfast.authoring.wf.check.documents import check_document
    from holdfast.authoring.wf.check.texts import TextSurroundings
    from holdfast.authoring.wf.files import read_named_text

    outcome = read_named_text(text, path)
    document = outcome.document
    problems = list(outcome.problems)
    if document is None:
        return checked("wf", [_view(problem) for problem in problems], {})
    if outcome.is_complete:
        others = {name: read_named_text(other, name).document for name, other in files.items()}
        known = {*parts.definitions(), *(stored.name for stored in parts.models.list())}
        problems += check_document(document, TextSurroundings(others, known))
        problems = sorted(dict.fromkeys(problems), key=lambda each: (each.line, each.column))
    return checked("wf", [_view(problem) for problem in problems], document.summary())


def _check_bpmn(
    parts: Components, text: str, path: str, files: Mapping[str, str]
) -> CheckedDefinitionView:
    from holdfast.authoring.bpmn.loading import load

    try:
        model = load(text.encode())
    except ModelUnreadable as error:
        return checked("bpmn", [_unreadable(path, error)], {})
    problems = [
        DefinitionProblemView(path=path, **msgspec.structs.asdict(each)) for each in model.problems
    ]
    return checked("bpmn", problems, {"processes": [process.id for process in model.processes]})


def _check_dmn(
    parts: Components, text: str, path: str, files: Mapping[str, str]
) -> CheckedDefinitionView:
    from holdfast.connect.decisions import load

    try:
        model = load(text.encode(), imports=[other.encode() for other in files.values()])
    except ModelUnreadable as error:
        return checked("dmn", [_unreadable(path, error)], {})
    summary = {"decisions": model.decisions, "inputs": model.inputs}
    return checked("dmn", [_view(each, path) for each in model.problems], summary)


def _view(problem: Problem, path: str | None = None) -> DefinitionProblemView:
    return DefinitionProblemView(
        path=problem.path if path is None else path,
        severity=problem.severity.value,
        code=problem.code,
        message=problem.message,
        line=problem.line,
        column=problem.column,
        hint=problem.hint or None,
    )


def _unreadable(path: str, error: ModelUnreadable) -> DefinitionProblemView:
    line = error.facts.get("line")
    return DefinitionProblemView(
        path=path,
        severity="error",
        code="unreadable",
        message=text_of(error.facts, "why"),
        line=line if isinstance(line, int) else None,
    )


Check = Callable[[Components, str, str, Mapping[str, str]], CheckedDefinitionView]

_CHECKS: dict[str, Check] = {"wf": _check_wf, "bpmn": _check_bpmn, "dmn": _check_dmn}
