"""Queries about retention rules, maintenance locks, and finished trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.core.retention import RetentionRule
from holdfast.store.reader import Reader
from holdfast.store.retention import count_query
from holdfast.store.retention.apply import retention_from
from holdfast.store.retention.operations import (
    MaintenanceLock,
    PrunableCount,
    PrunableRun,
    PruneFilter,
    WorkflowBytes,
)
from holdfast.store.runs import list_query
from holdfast.store.runs.list_query import RunFilter


class RetentionQueries:
    """Queries about retention."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader
        self.now: Callable[[], int] = reader.now

    def workflows(self) -> list[str]:
        """Return the names of all workflows that were ever started, sorted."""
        rows, _ = self._reader.sound_rows("routes")
        return sorted({row["workflow"] for row in rows})

    def rules(self) -> list[RetentionRule]:
        """Return all retention rules."""
        return self._reader.listed(retention_from, "retentions")

    def maintenance_lock(self, name: str) -> MaintenanceLock | None:
        """Return the state of a maintenance task; None if no session has ever taken it."""
        return self._reader.first(
            lambda row: MaintenanceLock(**dict(row)), "maintenance_lock", name=name
        )

    def by_workflow(self, since: int) -> list[WorkflowBytes]:
        """Return the approximate bytes of the runs of each workflow, the largest first, and of what
        was written since an instant. Every run and event is read."""
        rows = self._reader.rows("workflow_bytes", since=since)
        return [WorkflowBytes(**dict(row)) for row in rows]

    def used_bytes(self) -> int:
        """Return the approximate bytes of the data: the figure that deleting reduces."""
        used: int = self._reader.rows("used_bytes")[0]["bytes"]
        return used

    def nth_newest(self, workflow: str, statuses: Sequence[str], number: int) -> int | None:
        """Return when the *number*-th newest finished root of a workflow ended; None if there are
        fewer."""
        rows = self._reader.rows(
            "nth_newest",
            workflow=workflow,
            statuses=self._reader.as_list(statuses),
            skip=number - 1,
        )
        return rows[0]["finished_at"] if rows else None

    def oldest_finished(
        self, workflow: str | None, statuses: Sequence[str], since: int, before: int, limit: int
    ) -> list[PrunableRun]:
        """Return the finished trees whose roots ended from *since* on and before *before*, oldest
        first."""
        rows = self._reader.rows(
            "oldest_finished",
            workflow=workflow,
            statuses=self._reader.as_list(statuses),
            since=since,
            before=before,
            limit=limit,
        )
        return [self._prunable(row["id"], row["finished_at"]) for row in rows]

    def count_prunable(self, which: PruneFilter) -> PrunableCount:
        """Return how many trees of finished runs pruning would delete, and how many runs."""
        roots = self._count(count_query.ROOTS, which)["roots"]
        trees = self._count(count_query.TREES, which)
        members = self._count(count_query.MEMBERS, which)
        deleted = roots - trees["kept"] - members["kept"]
        return PrunableCount(trees=deleted, runs=deleted + trees["runs"])

    def sample(self, which: PruneFilter, limit: int) -> list[PrunableRun]:
        """Return the size of some of the trees that pruning would delete: of the newest, at most
        *limit*."""
        chosen = RunFilter(
            workflows=[] if which.workflow is None else [which.workflow],
            statuses=which.statuses,
            until=which.before,
            roots=True,
            limit=limit,
        )
        sql, values = list_query.list_runs(
            chosen, lambda sql, values: int(self._fetch(sql, values)[0]["runs"])
        )
        # The rows were not checked: one with a damaged instant is left out.
        trees = [
            self._prunable(row["id"], row["finished_at"])
            for row in self._fetch(sql, values)
            if isinstance(row["finished_at"], int) and row["finished_at"] < which.before
        ]
        return [tree for tree in trees if tree.runs]

    def _fetch(self, sql: str, values: dict[str, object]) -> list[Any]:
        return self._reader.fetch(self._reader.spelled(sql), values)

    def _count(self, query: str, which: PruneFilter) -> Mapping[str, int]:
        sql, values = count_query.composed(query, which)
        counts: Mapping[str, int] = self._fetch(sql, values)[0]
        return counts

    def _prunable(self, run_id: str, finished_at: int) -> PrunableRun:
        """Return the size of a finished tree; 0 if a part of it has not ended."""
        (row,) = self._reader.rows("tree_bytes", run_id=run_id)
        if self._reader.rows("has_late_descendant", run_id=run_id, before=1 << 62):
            return PrunableRun(run_id, finished_at, runs=0, bytes=0)
        return PrunableRun(run_id, finished_at, row["runs"], row["bytes"])
