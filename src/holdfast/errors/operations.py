"""Errors about bulk operations."""

from __future__ import annotations

from holdfast.errors.base import UsageError


class OperationNotFound(UsageError):
    """There is no such bulk operation: `holdfast operations` lists them."""


class StatusChanged(UsageError):
    """The run no longer has the status by which it was selected: select it again, then decide."""


class RunHasParent(UsageError):
    """The run is a child and is deleted together with the run that started it: delete that run."""
