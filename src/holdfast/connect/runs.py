"""``AsyncRunQuery``: the runs that ``engine.runs(...)`` selects, and the bulk verbs on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from holdfast.connect import run_views
from holdfast.connect.async_calls import AsyncAnswer, AsyncCalls
from holdfast.connect.async_run import AsyncRun
from holdfast.connect.components import Components
from holdfast.connect.tasks import AsyncTasks
from holdfast.errors import UsageError
from holdfast.service.bulk import BulkReport
from holdfast.store.runs.list_query import RunPage
from holdfast.views.pages import Page
from holdfast.views.runs import RunView

PAGE = 100
"""Runs that are read at once, unless the caller says otherwise."""


class AsyncRunQuery:
    """The runs that match some filters, newest first. It reads them in pages, when they are
    needed: ``async for run in engine.runs(status="failed")``."""

    def __init__(self, calls: AsyncCalls, filters: Mapping[str, Any]) -> None:
        self._calls: AsyncCalls = calls
        self._filters: Mapping[str, Any] = filters

    async def __aiter__(self) -> AsyncIterator[RunView]:
        after: str | None = None
        while True:
            page = await self.page(after=after)
            for run in page:
                yield run
            if page.next is None:
                return
            after = page.next

    async def _ids(self) -> AsyncIterator[str]:
        """Yield the ids of the runs: their values are not opened."""
        after: str | None = None
        while True:
            page = await self._page_of_records(after)
            for run in page.runs:
                yield run.id
            if page.next is None:
                return
            after = page.next.text()

    async def _page_of_records(self, after: str | None) -> RunPage:
        return await self._calls.call(
            lambda parts: parts.client.page(
                parts.client.filter(self._filters), after=after, limit=PAGE
            )
        )

    async def page(self, *, after: str | None = None, limit: int = PAGE) -> Page[RunView]:
        """Return up to *limit* runs, newest first by their time of creation. *after* is the
        ``next`` of the previous page, or the id of its last run. Raises BadOption, RunNotFound."""

        def read(parts: Components) -> Page[RunView]:
            page = parts.client.page(parts.client.filter(self._filters), after=after, limit=limit)
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
            lambda parts: parts.store.runs.count(parts.client.filter(self._filters))
        )

    # Bulk verbs

    async def cancel(
        self, reason: str = "cancelled by request", *, force: bool = False
    ) -> BulkReport:
        """Cancel the runs, as ``run.cancel`` does, and return the report."""
        return await self._each(lambda run: run.cancel(reason, force=force))

    async def resume(self) -> BulkReport:
        """Resume the stuck runs, as ``run.resume`` does, and return the report."""
        return await self._each(lambda run: run.resume())

    async def replay(self) -> BulkReport:
        """Replay the finished runs, as ``run.replay`` does, and return the report."""
        return await self._each(lambda run: run.replay())

    async def signal(
        self,
        name: str,
        payload: Any = None,
        *,
        key: str | None = None,
        source: str | None = None,
    ) -> BulkReport:
        """Send a signal to each run, as ``run.signal`` does, and return the report."""
        return await self._each(lambda run: run.signal(name, payload, key=key, source=source))

    async def release(self, *, payload: Any = None, by: str | None = None) -> BulkReport:
        """Release the wait of each run, as ``run.release`` does, and return the report."""
        return await self._each(lambda run: run.release(payload=payload, by=by))

    async def prioritise(self, priority: int) -> BulkReport:
        """Change the priority of the unfinished runs and return the report."""
        tasks = AsyncTasks(self._calls)
        return await self._each(lambda run: tasks.prioritise(run.id, priority))

    async def _each(self, verb: Callable[[AsyncRun[Any]], AsyncAnswer]) -> BulkReport:
        """Apply a verb to each run. A refusal does not stop the others."""
        report = BulkReport()
        async for run_id in self._ids():
            try:
                await verb(AsyncRun(self._calls, run_id))
            except UsageError as refusal:
                report.refused[run_id] = str(refusal)
            else:
                report.done.append(run_id)
        return report
