"""Errors about models: files of BPMN processes and DMN decisions, and their deployment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.errors.base import HoldfastError, UsageError, safe_repr, sentence_of
from holdfast.errors.problems import problems_of


class ModelUnreadable(UsageError):
    """This is not a model that can be read: give a complete XML file of BPMN 2.0 or DMN, without
    entities and within the limits of size and depth."""


class ModelRefused(UsageError):
    """The model has problems that prevent its execution: repair them, then deploy it again."""

    def __init__(self, problems: Sequence[Any] = (), **facts: object) -> None:
        self.problems: list[Any] = problems_of(problems)
        """All problems of the refused models, errors and warnings."""
        super().__init__(problems=self.problems, **facts)

    def _text(self) -> str:
        lines = [str(problem) for problem in self.problems if problem.severity == "error"]
        return "\n".join([sentence_of(type(self)), *lines])

    def __reduce__(self) -> tuple[object, ...]:
        return (ModelRefused, (self.problems,))


class BpmnError(HoldfastError):
    """A handler has thrown a BPMN error: an event of the model catches it, and it is never
    retried."""

    def __init__(self, code: str, message: str = "", **variables: object) -> None:
        self.code: str = code if isinstance(code, str) else safe_repr(code)
        self.message: str = message
        self.variables: dict[str, object] = variables
        super().__init__(code=self.code, message=message, variables=variables)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_bpmn_error, (self.code, self.message, self.variables))


def _rebuild_bpmn_error(code: str, message: str, variables: dict[str, object]) -> BpmnError:
    return BpmnError(code, message, **variables)
