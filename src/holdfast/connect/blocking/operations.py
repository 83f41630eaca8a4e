# Generated from connect/operations.py by tools/generate_blocking.py: do not edit.
"""``engine.operations``: bulk operations, which apply one verb to many runs."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.connect import operation_procedures
from holdfast.connect.calls import Calls
from holdfast.views.operations import OperationReportView, OperationView


class Operations:
    """The bulk operations that an ``Engine`` can see: the bulk verbs of ``engine.runs(...)``
    create them. The database keeps an ended operation for 30 days."""

    def __init__(self, calls: Calls) -> None:
        self._calls: Calls = calls

    def list(
        self, *, status: str | None = None, after: str | None = None, limit: int = 50
    ) -> list[OperationView]:
        """Return up to *limit* bulk operations, newest first; with *status*, only the ``running``,
        ``completed`` or ``stopped`` ones. *after* is the id of the last operation of the
        previous page. Raises BadOption."""
        return self._calls.call(
            lambda parts: operation_procedures.listed(parts, status, after, limit)
        )

    def get(self, operation_id: str) -> OperationReportView:
        """Return the report of an operation as it is now. Raises OperationNotFound."""
        return self._calls.call(lambda parts: operation_procedures.get(parts, operation_id))

    def stop(self, operation_id: str, *, by: str | None = None) -> OperationReportView:
        """Stop an operation and return its report. Runs that it has changed stay changed; the other
        ones stay as they are. Raises OperationNotFound."""
        return self._calls.call(lambda parts: operation_procedures.stop(parts, operation_id, by))

    def wait(
        self, operation_id: str, *, progress: Callable[[int], None] | None = None
    ) -> OperationReportView:
        """Carry out the rest of an operation and return its report. *progress* is called with the
        number of runs of each portion. Raises OperationNotFound."""
        report = self._calls.reporter(progress)
        return self._calls.call(
            lambda parts: operation_procedures.wait(parts, operation_id, report)
        )
