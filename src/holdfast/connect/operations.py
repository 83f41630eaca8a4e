"""``engine.operations``: bulk operations, which apply one verb to many runs."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.connect import operation_procedures
from holdfast.connect.async_calls import AsyncCalls
from holdfast.views.operations import OperationReportView, OperationView


class AsyncOperations:
    """The bulk operations that an ``AsyncEngine`` can see: the bulk verbs of ``engine.runs(...)``
    create them. The database keeps an ended operation for 30 days."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls: AsyncCalls = calls

    async def list(
        self, *, status: str | None = None, after: str | None = None, limit: int = 50
    ) -> list[OperationView]:
        """Return up to *limit* bulk operations, newest first; with *status*, only the ``running``,
        ``completed`` or ``stopped`` ones. *after* is the id of the last operation of the
        previous page. Raises BadOption."""
        return await self._calls.call(
            lambda parts: operation_procedures.listed(parts, status, after, limit)
        )

    async def get(self, operation_id: str) -> OperationReportView:
        """Return the report of an operation as it is now. Raises OperationNotFound."""
        return await self._calls.call(lambda parts: operation_procedures.get(parts, operation_id))

    async def stop(self, operation_id: str, *, by: str | None = None) -> OperationReportView:
        """Stop an operation and return its report. Runs that it has changed stay changed; the other
        ones stay as they are. Raises OperationNotFound."""
        return await self._calls.call(
            lambda parts: operation_procedures.stop(parts, operation_id, by)
        )

    async def wait(
        self, operation_id: str, *, progress: Callable[[int], None] | None = None
    ) -> OperationReportView:
        """Carry out the rest of an operation and return its report. *progress* is called with the
        number of runs of each portion. Raises OperationNotFound."""
        report = self._calls.reporter(progress)
        return await self._calls.call(
            lambda parts: operation_procedures.wait(parts, operation_id, report)
        )
