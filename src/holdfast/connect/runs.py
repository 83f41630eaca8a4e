"""``AsyncRunQuery``: the runs that ``engine.runs(...)`` selects, and the bulk verbs on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any

from holdfast.connect import operation_procedures, run_procedures, run_views
from holdfast.connect.async_calls import AsyncCalls
from holdfast.connect.components import Components
from holdfast.connect.error_groups import group_by_error
from holdfast.connect.migrations import checked_mapping
from holdfast.core.validation import checked_flag
from holdfast.service import bulk_verbs
from holdfast.service.bulk_verbs import BulkCall
from holdfast.views.error_groups import ErrorGroupView
from holdfast.views.operations import OperationReportView
from holdfast.views.pages import Page
from holdfast.views.runs import RunView

PAGE = 100
"""Runs that are read at once, unless the caller says otherwise."""


class AsyncRunQuery:
    """The runs that match some filters, newest first. It reads them in pages, when they are
    needed: ``async for run in engine.runs(status="failed")``."""

    def __init__(
        self, calls: AsyncCalls, filters: Mapping[str, Any], ids: Iterable[str] | None = None
    ) -> None:
        self._calls: AsyncCalls = calls
        # An iterator would be empty when the second page is read.
        self._filters: Mapping[str, Any] = {
            name: list(value) if isinstance(value, Iterator) else value
            for name, value in filters.items()
        }
        self._ids: Iterable[str] | None = list(ids) if isinstance(ids, Iterator) else ids
        """The ids of the runs, instead of filters."""
        self.operation_id: str | None = None
        """The id of the bulk operation; one that exists is continued. None for a new one."""

    async def __aiter__(self) -> AsyncIterator[RunView]:
        after: str | None = None
        while True:
            page = await self.page(after=after)
            for run in page:
                yield run
            if page.next is None:
                return
            after = page.next

    async def page(self, *, after: str | None = None, limit: int = PAGE) -> Page[RunView]:
        """Return up to *limit* runs, newest first by their time of creation. *after* is the
        ``next`` of the previous page, or the id of its last run. Raises BadOption, RunNotFound."""

        def read(parts: Components) -> Page[RunView]:
            page = run_procedures.page(parts, self._filters, self._ids, after, limit)
            cursor = None if page.next is None else page.next.text()
            return Page(run_views.listed(parts, page.runs), cursor)

        return await self._calls.call(read)

    async def first(self) -> RunView | None:
        """Return the newest run; None if no run matches. Raises BadOption."""
        page = await self.page(limit=1)
        return page[0] if page else None

    async def count(self) -> int:
        """Return the number of runs that match, without reading them. Raises BadOption."""
        return await self._calls.call(
            lambda parts: run_procedures.count(parts, self._filters, self._ids)
        )

    async def group(
        self, by: str = "error", *, after: str | None = None, limit: int = 10_000
    ) -> Page[ErrorGroupView]:
        """Return the runs grouped by root cause, workflow and step, the largest group first. Up to
        *limit* runs are read; the ``next`` of the page is the cursor to read the others after.
        Runs without an error are left out. Raises BadOption."""
        return await self._calls.call(
            lambda parts: group_by_error(parts, self._filters, self._ids, by, after, limit)
        )

    # Bulk verbs

    async def cancel(
        self,
        reason: str = "cancelled by request",
        *,
        force: bool = False,
        dry_run: bool = False,
        wait: bool = True,
        by: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> OperationReportView:
        """Cancel the runs, as ``run.cancel`` does, and return the report.

        Every bulk verb is a durable operation (``engine.operations``), which applies to the runs
        that match now. Its refusals do not stop it, and if this process dies, a worker finishes it.
        With *dry_run*, nothing is written, and the report tells which runs would be changed.
        Without *wait*, the operation is only stored, and a worker carries it out. *by* is the
        person or program that asks; *progress* is called with the number of runs of each portion.
        Raises BadOption.
        """
        return await self._apply(
            lambda parts: bulk_verbs.cancel(reason, force=force), dry_run, wait, by, progress
        )

    async def resume(
        self,
        *,
        dry_run: bool = False,
        wait: bool = True,
        by: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> OperationReportView:
        """Resume the stuck runs, as ``run.resume`` does, and return the report; the options are
        those of ``cancel``."""
        return await self._apply(lambda parts: bulk_verbs.resume(), dry_run, wait, by, progress)

    async def replay(
        self,
        *,
        from_step: str | None = None,
        dry_run: bool = False,
        wait: bool = True,
        by: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> OperationReportView:
        """Replay the finished runs, as ``run.replay`` does, and return the report; the other
        options are those of ``cancel``."""
        return await self._apply(
            lambda parts: bulk_verbs.replay(from_step), dry_run, wait, by, progress
        )

    async def signal(
        self,
        name: str,
        payload: Any = None,
        *,
        key: str | None = None,
        source: str | None = None,
        dry_run: bool = False,
        wait: bool = True,
        by: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> OperationReportView:
        """Send a signal to each run, once, as ``run.signal`` does, and return the report; the other
        options are those of ``cancel``."""
        return await self._apply(
            lambda parts: bulk_verbs.signal(parts.client, name, payload, key, source),
            dry_run,
            wait,
            by,
            progress,
        )

    async def release(
        self,
        *,
        payload: Any = None,
        dry_run: bool = False,
        wait: bool = True,
        by: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> OperationReportView:
        """Release the wait of each run, as ``run.release`` does, and return the report; the other
        options are those of ``cancel``."""
        return await self._apply(
            lambda parts: bulk_verbs.release(parts.client, payload, by),
            dry_run,
            wait,
            by,
            progress,
        )

    async def prioritise(
        self,
        priority: int,
        *,
        dry_run: bool = False,
        wait: bool = True,
        by: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> OperationReportView:
        """Change the priority of the unfinished runs and return the report; the other options are
        those of ``cancel``."""
        return await self._apply(
            lambda parts: bulk_verbs.prioritise(priority), dry_run, wait, by, progress
        )

    async def delete(
        self,
        *,
        dry_run: bool = False,
        wait: bool = True,
        by: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> OperationReportView:
        """Delete the finished runs with their descendants and everything that belongs to them, and
        return the report; the options are those of ``cancel``. Filters select only runs without a
        parent: children are deleted with their parent."""
        return await self._apply(lambda parts: bulk_verbs.delete(), dry_run, wait, by, progress)

    async def migrate(
        self,
        to: int | str,
        mapping: Mapping[str, str] | None = None,
        *,
        reason: str | None = None,
        dry_run: bool = False,
        wait: bool = True,
        by: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> OperationReportView:
        """Move the runs of models to another version, as ``engine.models.migrate`` does, and return
        the report; the other options are those of ``cancel``. A run with a token that cannot move
        is refused. Each of the others gets an instruction, which its worker applies: if the run has
        changed by then so that a token cannot move, it stays in its version."""
        names = checked_mapping(mapping)
        return await self._apply(
            lambda parts: bulk_verbs.migrate(to, names, by, reason), dry_run, wait, by, progress
        )

    async def _apply(
        self,
        make_call: Callable[[Components], BulkCall],
        dry_run: bool,
        wait: bool,
        by: str | None,
        progress: Callable[[int], None] | None,
    ) -> OperationReportView:
        """Apply a verb to all runs of the query."""
        checked_flag("dry_run", dry_run)
        checked_flag("wait", wait)
        report = self._calls.reporter(progress)
        return await self._calls.call(
            lambda parts: operation_procedures.apply_to_all(
                parts,
                make_call(parts),
                self._filters,
                self._ids,
                dry_run=dry_run,
                wait=wait,
                by=by,
                progress=report,
                operation_id=self.operation_id,
            )
        )
