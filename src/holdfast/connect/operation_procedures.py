"""Carry out bulk operations, portion by portion. These procedures block the calling thread; both
faces of the engine call them, and so does the worker that continues the operation of a dead
process."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from holdfast.connect.components import Components
from holdfast.core.operations import PART, OperationRecord, OperationStatus
from holdfast.engine.worker.worker import Worker
from holdfast.errors import (
    BadData,
    EngineClosed,
    HoldfastError,
    KeyMissing,
    OperationNotFound,
    StoreError,
)
from holdfast.service.bulk_verbs import BulkCall
from holdfast.service.replay import TRIES
from holdfast.service.requests import Request, identity
from holdfast.store.operations.operations import CarriedOut
from holdfast.store.operations.verbs import AGAIN
from holdfast.views import operations as views
from holdfast.views.operations import OperationReportView, OperationView

log = logging.getLogger("holdfast")

SLOW = 0.2
"""Seconds that a portion may take: other writers wait meanwhile. After a slower one, the next
portions have fewer runs."""

Progress = Callable[[int], None]


def apply_to_all(
    parts: Components,
    call: BulkCall,
    filters: Mapping[str, Any],
    ids: Iterable[str] | None,
    *,
    dry_run: bool,
    wait: bool,
    by: str | None,
    progress: Progress | None,
    operation_id: str | None = None,
) -> OperationReportView:
    """Apply a verb to the runs that match, and return the report. Without *wait*, only store the
    operation. An operation of this id that is stored already is continued. Raises BadOption."""
    if dry_run:
        return views.preview(call.verb, parts.operations.dry_run(call, filters, ids))
    record = None if operation_id is None else parts.store.operations.get(operation_id)
    if record is None:
        request = parts.operations.start(call, filters, ids, operation_id, by=by, waits=wait)
        record = parts.commit(
            parts.audit.record(request, by, f"runs.{call.verb}", "the runs that match")
        )
    if wait:
        record = carry_out(parts, record.id, progress)
    return report(parts, record)


def report(parts: Components, record: OperationRecord) -> OperationReportView:
    """Return the report of an operation as it is now."""
    return views.report_of(record, parts.operations.outcome(record.id))


def get(parts: Components, operation_id: str) -> OperationReportView:
    """Return the report of an operation. Raises OperationNotFound."""
    return report(parts, parts.operations.get(operation_id))


def listed(
    parts: Components, status: str | None, after: str | None, limit: int
) -> list[OperationView]:
    """Return bulk operations from new to old. Raises BadOption."""
    return [views.of(record) for record in parts.operations.find(status, after, limit)]


def stop(parts: Components, operation_id: str, by: str | None) -> OperationReportView:
    """Stop an operation between two portions, and return its report. Raises OperationNotFound."""
    request = parts.operations.stop(operation_id)
    request = parts.audit.record(request, by, "operations.stop", operation_id)
    return report(parts, parts.commit(request))


def wait(parts: Components, operation_id: str, progress: Progress | None) -> OperationReportView:
    """Carry out the rest of an operation, and return its report. Raises OperationNotFound."""
    record = parts.operations.get(operation_id)
    return report(parts, carry_out(parts, record.id, progress))


def carry_out(
    parts: Components, operation_id: str, progress: Progress | None = None
) -> OperationRecord:
    """Carry out an operation until it has ended, and return it. Another process may do so at the
    same time: each portion is written once. Raises StoreError, EngineClosed."""
    carrier = _Carrier(parts, operation_id)
    while True:
        before = carrier.settled
        carrier.next_portion()
        if progress is not None and carrier.settled > before:
            progress(carrier.settled - before)
        if carrier.record.status is not OperationStatus.RUNNING:
            return carrier.record


def attach(parts: Components, worker: Worker) -> None:
    """Let the worker continue the operations of dead processes."""
    reported: set[str] = set()

    def continue_due() -> None:
        with suppress(EngineClosed):
            for operation_id in parts.store.operations.due(parts.store.now()):
                _continue(parts, operation_id, reported, lambda: worker.stopping or parts.closed)

    worker.operations.continue_due = continue_due


def _continue(
    parts: Components, operation_id: str, reported: set[str], is_stopping: Callable[[], bool]
) -> None:
    """Continue an operation until it has ended, the worker stops or another process continues it.
    If this process cannot continue it, that is logged once. Raises StoreError, EngineClosed."""
    try:
        carrier = _Carrier(parts, operation_id)
        while not is_stopping() and carrier.next_portion():
            log.debug("this worker continues bulk operation %s", operation_id)
    except (StoreError, EngineClosed):
        raise
    except HoldfastError as error:
        if operation_id not in reported:
            reported.add(operation_id)
            log.warning("bulk operation %s cannot be continued here: %s", operation_id, error)


class _Carrier:
    """Carries out the portions of one operation, as long as this process does so."""

    def __init__(self, parts: Components, operation_id: str) -> None:
        self._parts = parts
        self.record = self._read(operation_id)
        self._size = PART
        self._failures: dict[str, str] = {}
        self._changed: Counter[str] = Counter()
        """How often a run changed between the preparation of a portion and its transaction."""

    @property
    def settled(self) -> int:
        """The number of runs with an outcome."""
        return self.record.done + self.record.refused

    def _read(self, operation_id: str) -> OperationRecord:
        record = self._parts.store.operations.get(operation_id)
        if record is None:
            raise OperationNotFound(operation=operation_id)
        return record

    def next_portion(self) -> bool:
        """Carry out the next portion. Return False if another process has carried out one
        meanwhile, or has stopped the operation."""
        if self.record.status is not OperationStatus.RUNNING:
            return False
        prepared = self._parts.operations.prepare(self.record, self._size, self._failures)
        actions = prepared.portion.actions
        began = time.monotonic()
        try:
            for op in prepared.before:
                self._parts.change_finished(Request(op, identity))
            answer: CarriedOut = self._parts.change_finished(Request(prepared.portion, identity))
        except Exception as error:
            # Also an unexpected one: damage to a run that shows only when it is written must not
            # stop the others.
            if _concerns_all(error) or all(action.op is None for action in actions):
                raise
            self._narrow([action.run_id for action in actions], error)
            self.record = self._read(self.record.id)
            return True
        self.record = answer.record
        self._note(answer)
        self._adapt(time.monotonic() - began)
        return answer.written

    def _narrow(self, run_ids: list[str], error: Exception) -> None:
        """Find the run that fails a portion, by smaller portions; a single run is refused."""
        if len(run_ids) == 1:
            self._failures[run_ids[0]] = str(error) or repr(error)
        else:
            self._size = max(len(run_ids) // 2, 1)

    def _note(self, answer: CarriedOut) -> None:
        """Refuse a run that changed again and again while its portion was prepared."""
        for run_id, why in answer.open.items():
            if why != AGAIN:
                self._changed[run_id] += 1
                if self._changed[run_id] >= TRIES:
                    self._failures[run_id] = why

    def _adapt(self, elapsed: float) -> None:
        if elapsed > SLOW:
            self._size = max(self._size // 2, 1)
        else:
            self._size = min(self._size * 2, PART)


def _concerns_all(error: Exception) -> bool:
    """Return whether an error is not about one run: the store failed, the engine was closed, or the
    operation itself is gone or unreadable."""
    if isinstance(error, StoreError):
        return not isinstance(error, BadData)
    return isinstance(error, EngineClosed | KeyMissing | OperationNotFound)
