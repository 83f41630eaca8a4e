"""Read the runs to judge, page by page, each page from one snapshot of the database.

A snapshot lasts no longer than the reads of its page, so that a long check keeps no old rows alive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from holdfast.core.events import Event, EventKind
from holdfast.core.program import Definition
from holdfast.core.runs import RunRecord
from holdfast.core.status import FINAL, Status
from holdfast.engine.dry_replay.judge import RecordedRun
from holdfast.errors import RowDamaged
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.store import Store, View

PAGE = 200
"""Runs that are read together."""

LIVE = tuple(status.value for status in Status if status not in FINAL)


class RecordedRuns:
    """The runs of a database that are to be judged with given definitions."""

    def __init__(
        self, store: Store, definitions: Mapping[str, Definition], namespace: str | None = None
    ) -> None:
        self._store: Store = store
        self._definitions: Mapping[str, Definition] = definitions
        self._namespace: str | None = namespace
        self.left_out: list[str] = []
        """The damaged rows of runs that the pages so far have left out."""

    def live(self) -> Iterator[RecordedRun]:
        """Yield the runs of the definitions that have not ended."""
        for workflow in sorted(self._definitions):
            yield from self._pages(statuses=LIVE, workflow=workflow)

    def all(self) -> Iterator[RecordedRun]:
        """Yield every run, of whatever workflow."""
        yield from self._pages()

    def one(self, run_id: str) -> RecordedRun | None:
        """Return one run; None if there is none. Raises RowDamaged if its row is damaged."""
        with self._store.snapshot() as view:
            run = view.runs.get(run_id)
            if run is None:
                return None
            return self._read(view, [run])[0]

    def other_workflows(self) -> list[str]:
        """Return the workflows that have live runs and none of the definitions."""
        names = {
            route.workflow
            for route in self._store.runs.routes().values()
            if self._namespace in (None, route.namespace)
        }
        return [
            name
            for name in sorted(names - set(self._definitions))
            if self._store.runs.find(self._filter(statuses=LIVE, workflow=name, limit=1))
        ]

    def _pages(
        self, statuses: Sequence[str] = (), workflow: str | None = None
    ) -> Iterator[RecordedRun]:
        which = self._filter(statuses=statuses, workflow=workflow, limit=PAGE)
        while True:
            with self._store.snapshot() as view:
                page = view.runs.page(which)
                recorded = self._read(view, page.runs)
                self.left_out.extend(view.left_out)
            yield from recorded
            if page.next is None:
                return
            which = msgspec.structs.replace(which, after=page.next)

    def _filter(self, *, statuses: Sequence[str], workflow: str | None, limit: int) -> RunFilter:
        return RunFilter(
            namespace=self._namespace,
            statuses=statuses,
            workflows=[] if workflow is None else [workflow],
            limit=limit,
        )

    def _read(self, view: View, runs: Sequence[RunRecord]) -> list[RecordedRun]:
        """Read the histories of runs together; if one is damaged, each by itself."""
        try:
            histories = view.runs.histories([run.id for run in runs])
        except RowDamaged:
            return [self._read_one(view, run) for run in runs]
        return [
            RecordedRun(run, self._from_checkpoint(view, run, histories[run.id])) for run in runs
        ]

    def _read_one(self, view: View, run: RunRecord) -> RecordedRun:
        try:
            return RecordedRun(run, self._from_checkpoint(view, run, view.runs.history(run.id)))
        except RowDamaged as error:
            return RecordedRun(run, [], error)

    def _from_checkpoint(self, view: View, run: RunRecord, history: list[Event]) -> list[Event]:
        """Return the part of a history that a worker would read; without the checkpoints of another
        definition, if this one begins with the whole history."""
        definition = self._definitions.get(run.workflow)
        if definition is None or not definition.writes_checkpoints:
            return [event for event in history if event.kind != EventKind.CHECKPOINT_WRITTEN]
        checkpoint = view.runs.last_checkpoint(run.id)
        return [event for event in history if event.seq >= checkpoint]
