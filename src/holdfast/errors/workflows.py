"""Errors about workflows: their names, their code, and what they may call."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError, UsageError


class NotInWorkflow(UsageError):
    """This works only inside a running workflow."""


class UnknownWorkflow(UsageError):
    """No workflow of that name is known to this process: import the module that defines it."""


class WorkflowExists(UsageError):
    """Two workflows want the same name: give one of them name=... in its decorator."""


class Diverged(HoldfastError):
    """The code no longer matches the recorded history."""
