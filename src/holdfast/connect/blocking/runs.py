# Generated from connect/runs.py by tools/generate_blocking.py: do not edit.
"""``RunQuery``: the runs that ``engine.runs(...)`` selects, and the bulk verbs on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from holdfast.connect import run_views
from holdfast.connect.blocking.run import Run
from holdfast.connect.blocking.tasks import Tasks
from holdfast.connect.calls import Answer, Calls
from holdfast.connect.components import Components
from holdfast.errors import UsageError
from holdfast.service.bulk import BulkReport
from holdfast.store.runs.list_query import RunPage
from holdfast.views.pages import Page
from holdfast.views.runs import RunView

PAGE = 100
"""Runs that are read at once, unless the caller says otherwise."""


class RunQuery:
    """The runs that match some filters, newest first. It reads them in pages, when they are
    needed: ``for run in engine.runs(status="failed")``."""

    def __init__(self, calls: Calls, filters: Mapping[str, Any]) -> None:
        self._calls: Calls = calls
        self._filters: Mapping[str, Any] = filters

    def __iter__(self) -> Iterator[RunView]:
        after: str | None = None
        while True:
            page = self.page(after=after)
            yield from page
            if page.next is None:
                return
            after = page.next

    def _ids(self) -> Iterator[str]:
        """Yield the ids of the runs: their values are not opened."""
        after: str | None = None
        while True:
            page = self._page_of_records(after)
            for run in page.runs:
                yield run.id
            if page.next is None:
                return
            after = page.next.text()

    def _page_of_records(self, after: str | None) -> RunPage:
        return self._calls.call(
            lambda parts: parts.client.page(
                parts.client.filter(self._filters), after=after, limit=PAGE
            )
        )

    def page(self, *, after: str | None = None, limit: int = PAGE) -> Page[RunView]:
        """Return up to *limit* runs, newest first by their time of creation. *after* is the
        ``next`` of the previous page, or the id of its last run. Raises BadOption, RunNotFound."""

        def read(parts: Components) -> Page[RunView]:
            page = parts.client.page(parts.client.filter(self._filters), after=after, limit=limit)
            cursor = None if page.next is None else page.next.text()
            return Page(run_views.listed(parts, page.runs), cursor)

        return self._calls.call(read)

    def first(self) -> RunView | None:
        """Return the newest run; None if no run matches. Raises BadOption."""
        page = self.page(limit=1)
        return page[0] if page else None

    def count(self) -> int:
        """Return the number of runs that match, without reading them. Raises BadOption."""
        return self._calls.call(
            lambda parts: parts.store.runs.count(parts.client.filter(self._filters))
        )

    # Bulk verbs

    def cancel(self, reason: str = "cancelled by request", *, force: bool = False) -> BulkReport:
        """Cancel the runs, as ``run.cancel`` does, and return the report."""
        return self._each(lambda run: run.cancel(reason, force=force))

    def resume(self) -> BulkReport:
        """Resume the stuck runs, as ``run.resume`` does, and return the report."""
        return self._each(lambda run: run.resume())

    def replay(self) -> BulkReport:
        """Replay the finished runs, as ``run.replay`` does, and return the report."""
        return self._each(lambda run: run.replay())

    def signal(
        self,
        name: str,
        payload: Any = None,
        *,
        key: str | None = None,
        source: str | None = None,
    ) -> BulkReport:
        """Send a signal to each run, as ``run.signal`` does, and return the report."""
        return self._each(lambda run: run.signal(name, payload, key=key, source=source))

    def release(self, *, payload: Any = None, by: str | None = None) -> BulkReport:
        """Release the wait of each run, as ``run.release`` does, and return the report."""
        return self._each(lambda run: run.release(payload=payload, by=by))

    def prioritise(self, priority: int) -> BulkReport:
        """Change the priority of the unfinished runs and return the report."""
        tasks = Tasks(self._calls)
        return self._each(lambda run: tasks.prioritise(run.id, priority))

    def _each(self, verb: Callable[[Run[Any]], Answer]) -> BulkReport:
        """Apply a verb to each run. A refusal does not stop the others."""
        report = BulkReport()
        for run_id in self._ids():
            try:
                verb(Run(self._calls, run_id))
            except UsageError as refusal:
                report.refused[run_id] = str(refusal)
            else:
                report.done.append(run_id)
        return report
