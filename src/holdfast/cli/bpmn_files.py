"""Check ``.bpmn`` files for the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.authoring.bpmn.judged import judged_models
from holdfast.authoring.bpmn.loading import load
from holdfast.authoring.bpmn.model import ModelProblem
from holdfast.cli.definition_files import CheckedFile
from holdfast.core.program import Definition
from holdfast.errors import ModelUnreadable


class FileProblem(msgspec.Struct, kw_only=True):
    """A problem of a model, with the path of its file."""

    path: str
    severity: str
    code: str
    message: str
    process: str | None = None
    element: str | None = None
    line: int | None = None
    hint: str | None = None

    @property
    def is_error(self) -> bool:
        return self.severity == "error"

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        element = "" if self.element is None else f" {self.element}"
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}: {self.severity}{element}: {self.message}{hint}"


def check_files(paths: Sequence[str], using: bool) -> list[CheckedFile]:
    """Check models. Handlers count as known if a module of ``--using`` has bound them."""
    return [_check(path) for path in paths]


def load_definitions(path: str) -> Mapping[str, Definition]:
    """Return the processes of a file, for the judgement of runs of any version of them."""
    return judged_models(path)


def _check(path: str) -> CheckedFile:
    try:
        model = load(path)
    except ModelUnreadable as error:
        line = error.facts.get("line")
        problem = FileProblem(
            path=path,
            severity="error",
            code="unreadable",
            message=str(error.facts.get("why")),
            line=line if isinstance(line, int) else None,
        )
        return CheckedFile(path=path, problems=[problem])
    processes = [process.id for process in model.processes]
    problems = [_located(path, problem) for problem in model.problems]
    return CheckedFile(path=path, problems=problems, summary={"processes": processes})


def _located(path: str, problem: ModelProblem) -> FileProblem:
    return FileProblem(path=path, **msgspec.structs.asdict(problem))
