"""Group runs by their root cause. Only errors are opened, not inputs and results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from holdfast.connect import run_procedures
from holdfast.connect.components import Components
from holdfast.core.runs import RunRecord
from holdfast.core.text import is_one_of
from holdfast.core.validation import checked_count
from holdfast.errors import BadOption
from holdfast.store.runs.list_query import RunPage
from holdfast.views.error_groups import ErrorGroupView, grouped
from holdfast.views.pages import Page

ERROR = "error"
"""The only property by which runs are grouped."""

PAGE = 500

ReadPage = Callable[[str | None, int], RunPage]
"""Return a page of runs after a cursor, of the given size."""


def group_by_error(
    parts: Components,
    filters: Mapping[str, Any],
    ids: Iterable[str] | None,
    by: str,
    after: str | None,
    limit: int,
) -> Page[ErrorGroupView]:
    """Return the groups of the first *limit* runs after a cursor. The page has a ``next`` if there
    are more runs. Raises BadOption."""
    if not is_one_of(by, (ERROR,)):
        raise BadOption(option="by", value=by, why="runs are grouped by 'error'")
    checked_count("limit", limit, least=1)
    reading = _Reading(parts, partial(run_procedures.page, parts, filters, ids), after, limit)
    return Page(grouped(reading.runs()), reading.cursor)


class _Reading:
    """Reads runs in pages, and keeps the cursor behind the last of them."""

    def __init__(self, parts: Components, read: ReadPage, after: str | None, limit: int) -> None:
        self._parts: Components = parts
        self._read: ReadPage = read
        self._left: int = limit
        self.cursor: str | None = after

    def runs(self) -> Iterator[RunRecord]:
        while self._left > 0:
            size = min(PAGE, self._left)
            page = self._read(self.cursor, size)
            self._left -= size
            self.cursor = None
            for run in page.runs:
                # A run without input and result: they need not be opened.
                bare = msgspec.structs.replace(run, input=b"null", result=None)
                yield self._parts.sealer.display.run(bare)
            if page.next is None:
                return
            self.cursor = page.next.text()
