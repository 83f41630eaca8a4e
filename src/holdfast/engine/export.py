"""Copying a run and all below it to a database of its own."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.core.records import Run
from holdfast.errors import RunExists
from holdfast.store.contract import Filter, ImportRun, Store


def export(source: Store, run: Run, open_target: Callable[[], Store]) -> int:
    """Copy *run* and its descendants to the store that *open_target* opens; return how many runs were copied."""
    target = open_target()
    try:
        runs = tree(source, run)
        for answer in target.apply([_imported(source, one) for one in runs]):
            if isinstance(answer, RunExists):
                raise answer
        return len(runs)
    finally:
        target.close()


def _imported(source: Store, run: Run) -> ImportRun:
    return ImportRun(run, source.tags(run.id), source.history(run.id), source.signals(run.id), source.belongings(run.id))


def tree(source: Store, run: Run) -> list[Run]:
    """Return a run and all below it, parents first."""
    found = [run]
    before: str | None = None
    while True:
        page = source.runs(Filter(parent_id=run.id, before=before, limit=500))
        if not page:
            return found
        for child in page:
            found.extend(tree(source, child))
        before = page[-1].id
