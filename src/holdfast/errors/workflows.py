"""Errors about workflows: their names, their code, and their calls."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError, UsageError


class NotInWorkflow(UsageError):
    """This call works only inside a running workflow: call it from the workflow function."""


class UnknownWorkflow(UsageError):
    """This process knows no workflow with this name: import the module that defines it."""


class WorkflowExists(UsageError):
    """Two workflows have the same name: give one of them name=... in its decorator."""


class NotCheckable(UsageError):
    """This is not a kind of definition that this version checks: name a Python file or module with
    workflows, or a database file that `holdfast db export` has written."""


class Diverged(HoldfastError):
    """The code no longer matches the recorded history: deploy code that matches, then resume the
    run."""
