"""Errors about workflows: their names, their code, and their calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.errors.base import HoldfastError, UsageError, sentence_of
from holdfast.errors.problems import problems_of


class NotInWorkflow(UsageError):
    """This call works only inside a running workflow: call it from the workflow function."""


class UnknownWorkflow(UsageError):
    """This process knows no workflow with this name: import the module that defines it."""


class WorkflowExists(UsageError):
    """Two workflows have the same name: give one of them another name, a workflow in Python with
    name=... in its decorator."""


class BadWorkflow(UsageError):
    """The definition of the workflow has errors: correct them and try again."""

    def __init__(self, problems: Sequence[Any] = (), **facts: object) -> None:
        super().__init__(problems=tuple(problems_of(problems)), **facts)

    @property
    def problems(self) -> tuple[Any, ...]:
        """All problems (``holdfast.core.problems.Problem``), in text order; also warnings."""
        problems: tuple[Any, ...] = self.facts["problems"]  # type: ignore[assignment]
        return problems

    def _text(self) -> str:
        errors = [problem for problem in self.problems if problem.severity == "error"]
        lines = [str(problem) for problem in errors[:_SHOWN_PROBLEMS]]
        if len(errors) > _SHOWN_PROBLEMS:
            lines.append(f"and {len(errors) - _SHOWN_PROBLEMS} more")
        return "\n".join([sentence_of(type(self)), *lines])


_SHOWN_PROBLEMS = 5


class NotCheckable(UsageError):
    """This is not a kind of definition that this version checks: name a .wf file, a Python file or
    module with workflows, or a database file that `holdfast db export` has written."""


class Diverged(HoldfastError):
    """The code no longer matches the recorded history: deploy code that matches, then resume the
    run."""
