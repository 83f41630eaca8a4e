"""Requests about bulk operations: select the runs, check the arguments, prepare the portions.

A portion is prepared outside the transaction that writes it: histories are read, waits are found,
payloads are sealed. The transaction checks each run again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core import associated_data
from holdfast.core.operations import (
    PART,
    TAKEOVER,
    BulkVerb,
    OperationPart,
    OperationRecord,
    OperationStatus,
)
from holdfast.core.runs import RunRecord
from holdfast.core.status import FINAL
from holdfast.core.text import is_one_of, is_storable, plain_text
from holdfast.core.validation import (
    checked_count,
    checked_many,
    checked_text,
)
from holdfast.engine.runtime.ids import new_id
from holdfast.errors import (
    BadData,
    BadOption,
    HoldfastError,
    OperationNotFound,
    RunNotFound,
    StoreError,
)
from holdfast.service.bulk_verbs import BulkCall, MigrationCheck, VerbPlanner
from holdfast.service.graphs import GraphService
from holdfast.service.requests import Request, identity
from holdfast.service.runs import RunService
from holdfast.store.database import Operation
from holdfast.store.operations.operations import (
    BulkAction,
    CarryOut,
    StartOperation,
    StopOperation,
)
from holdfast.store.runs.operations import ReplayRun

SELECTED_AT_ONCE = 1000
"""Runs that one query selects."""

REPORTED = 10_000
"""Ids of changed runs, and of refused ones, that a report contains at most."""


class BulkOutcome(msgspec.Struct):
    """The ids of changed runs, and the reasons of refusals by id. ``complete`` is false if there
    are more than it lists."""

    done: list[str]
    refused: dict[str, str]
    complete: bool = True


class PreparedPortion(msgspec.Struct):
    """A portion, and the operations that must be committed before it, because one of its runs needs
    more than one transaction."""

    before: Sequence[Operation]
    portion: CarryOut


class OperationService:
    """Builds the operations of bulk operations, and reads bulk operations."""

    def __init__(
        self, client: RunService, graphs: GraphService, check_migration: MigrationCheck
    ) -> None:
        self._client = client
        self._store = client.store
        self._planner = VerbPlanner(client, graphs, check_migration)

    # Selecting

    def _select(
        self, call: BulkCall, filters: Mapping[str, Any], ids: Iterable[str] | None
    ) -> tuple[list[str], dict[str, str]]:
        """Return the ids of the selected runs, newest first or as given, and the refusals of given
        ids that no run of this namespace has. Add the selected statuses to the arguments of the
        call. Raises BadOption."""
        if ids is not None:
            return self._given(filters, ids)
        if call.verb is BulkVerb.DELETE:
            if filters.get("parent_id") is not None:
                why = "children are deleted with their parent: select the parent"
                raise BadOption(option="parent_id", why=why)
            filters = {**filters, "roots": True}
        which = self._client.filter(filters)
        call.arguments.statuses = which.statuses
        return list(self._client.matching_ids(which, SELECTED_AT_ONCE)), {}

    def _given(
        self, filters: Mapping[str, Any], ids: Iterable[str]
    ) -> tuple[list[str], dict[str, str]]:
        chosen = list(dict.fromkeys(checked_ids(filters, ids)))
        runs = self._client.get_many(chosen)
        missing = {id: str(run) for id, run in runs.items() if isinstance(run, RunNotFound)}
        return chosen, missing

    # Starting and stopping

    def start(
        self,
        call: BulkCall,
        filters: Mapping[str, Any],
        ids: Iterable[str] | None,
        operation_id: str | None = None,
        *,
        by: str | None,
        waits: bool,
    ) -> Request[OperationRecord]:
        """Store a bulk operation for the runs that match now. The answer is OperationRecord. Raises
        BadOption."""
        asked_by = checked_text("by", by)
        call.arguments.by = asked_by
        chosen, missing = self._select(call, filters, ids)
        operation_id = operation_id or new_id()
        payload = None
        if call.payload is not None:
            payload = self._client.sealer.values.seal_inline(
                call.payload, associated_data.operation_payload(operation_id)
            )
        record = OperationRecord(
            id=operation_id,
            namespace=self._client.within(filters.get("namespace")),
            verb=call.verb,
            status=OperationStatus.RUNNING,
            arguments=call.arguments,
            filters=_shown(filters, ids),
            payload=payload,
            asked_by=asked_by,
            total=len(chosen),
            done=0,
            refused=len(missing),
            part=0,
            revision=0,
            created_at=0,
            updated_at=0,
            due_at=0,
            finished_at=None,
        )
        take_over = TAKEOVER if waits else 0
        return Request(
            StartOperation(record, _parts(operation_id, chosen, missing), take_over), identity
        )

    def stop(self, operation_id: str) -> Request[OperationRecord]:
        """Stop a bulk operation. The answer is OperationRecord. Raises OperationNotFound."""
        return Request(StopOperation(_operation_id(operation_id), self._client.only), identity)

    # Carrying out

    def dry_run(
        self, call: BulkCall, filters: Mapping[str, Any], ids: Iterable[str] | None
    ) -> BulkOutcome:
        """Return the runs that the verb would change, and the refusals, without a write. Raises
        BadOption."""
        chosen, missing = self._select(call, filters, ids)
        outcome = BulkOutcome([], {})
        for first in range(0, len(chosen), PART):
            runs = self._read(chosen[first : first + PART])
            for run_id, run in runs.items():
                refused = missing.get(run_id) or self._would_refuse(call, run)
                if refused is None:
                    outcome.done.append(run_id)
                else:
                    outcome.refused[run_id] = refused
        return outcome

    def _would_refuse(self, call: BulkCall, run: RunRecord | HoldfastError) -> str | None:
        try:
            self._planner.plan(call.verb, call.arguments, run, call.payload or b"")
        except HoldfastError as error:
            _raise_if_store_failed(error)
            return str(error)
        return None

    def prepare(
        self, record: OperationRecord, size: int, failures: Mapping[str, str]
    ) -> PreparedPortion:
        """Prepare the next portion of at most *size* runs. *failures* are the runs that could not
        be changed, with the reasons: they are refused. Raises KeyMissing."""
        part = self._store.operations.part(record.id, record.part)
        if part is None:
            raise OperationNotFound(operation=record.id, part=record.part)
        payload = b""
        if record.payload is not None:
            payload = self._client.sealer.values.open(
                record.payload,
                f"the payload of operation {record.id}",
                associated_data.operation_payload(record.id),
            )
        actions: list[BulkAction] = []
        before: Sequence[Operation] = ()
        for run_id, run in self._read(part.left()[:size]).items():
            if run_id in failures:
                actions.append(BulkAction(run_id, refusal=failures[run_id]))
                continue
            action, needed, alone = self._action(record, part, run_id, run, payload)
            if alone and any(other.op is not None for other in actions):
                break
            actions.append(action)
            if alone:
                before = needed
                break
        return PreparedPortion(
            before, CarryOut(operation_id=record.id, revision=record.revision, actions=actions)
        )

    def _read(self, run_ids: Sequence[str]) -> dict[str, RunRecord | HoldfastError]:
        """Return runs by their ids, in order; in place of a run that cannot be read, its error."""
        runs = {run.id: run for run in self._store.runs.by_id(run_ids)} if run_ids else {}
        return {run_id: runs.get(run_id) or self._unreadable(run_id) for run_id in run_ids}

    def _unreadable(self, run_id: str) -> RunRecord | HoldfastError:
        try:
            return self._store.runs.get(run_id) or RunNotFound(run=run_id)
        except HoldfastError as error:
            _raise_if_store_failed(error)
            return error

    def _action(
        self,
        record: OperationRecord,
        part: OperationPart,
        run_id: str,
        run: RunRecord | HoldfastError,
        payload: bytes,
    ) -> tuple[BulkAction, Sequence[Operation], bool]:
        """Return what to do with a run, the operations that must be committed before, and whether
        the run needs a portion of its own."""
        begun = run_id in part.begun
        if record.verb is BulkVerb.CANCEL and begun and _has_ended(run):
            return BulkAction(run_id), (), False  # it has cancelled its children itself
        try:
            ops = self._planner.plan(record.verb, record.arguments, run, payload, begun=begun)
        except HoldfastError as error:
            _raise_if_store_failed(error)
            return BulkAction(run_id, refusal=str(error)), (), False
        alone = len(ops) > 1 or _may_refuse_late(ops[-1])
        return BulkAction(run_id, self._client.sealer.seal(ops[-1])), ops[:-1], alone

    # Reading

    def get(self, operation_id: str) -> OperationRecord:
        """Return a bulk operation. Raises OperationNotFound."""
        record = self._store.operations.get(_operation_id(operation_id))
        if record is None or self._client.only not in (None, record.namespace):
            raise OperationNotFound(operation=operation_id)
        return record

    def find(self, status: str | None, after: str | None, limit: int) -> list[OperationRecord]:
        """Return bulk operations from new to old; *after* is the id of the last one of the previous
        page. Raises BadOption."""
        if status is not None and not is_one_of(status, list(OperationStatus)):
            raise BadOption(option="status", value=status, known=", ".join(OperationStatus))
        before = None if after is None else _operation_id(after)
        return self._store.operations.find(
            self._client.only,
            status=status,
            before=before,
            limit=checked_count("limit", limit),
        )

    def outcome(self, operation_id: str) -> BulkOutcome:
        """Return the outcomes of an operation so far, of at most REPORTED runs each."""
        outcome = BulkOutcome([], {})
        for part in self._parts(operation_id):
            outcome.done += part.done
            outcome.refused |= part.refused
            if max(len(outcome.done), len(outcome.refused)) > REPORTED:
                refused = dict(list(outcome.refused.items())[:REPORTED])
                return BulkOutcome(outcome.done[:REPORTED], refused, complete=False)
        return outcome

    def _parts(self, operation_id: str) -> Iterator[OperationPart]:
        after = -1
        while parts := self._store.operations.parts(operation_id, after, 50):
            yield from parts
            after = parts[-1].number


def checked_ids(filters: Mapping[str, Any], ids: Any) -> list[str]:
    """Return the given ids of runs. Raises BadOption for ids that are not texts, and for another
    filter beside them."""
    if isinstance(ids, str):
        raise BadOption(option="ids", value=ids, why="give a list of ids")
    others = [name for name, value in filters.items() if value and name != "namespace"]
    if others:
        why = "ids select the runs by themselves: leave the other filters out"
        raise BadOption(option=others[0], why=why)
    run_ids = list(checked_many("ids", ids))
    for run_id in run_ids:
        if not isinstance(run_id, str) or not is_storable(run_id):
            raise BadOption(option="ids", value=run_id, why="an id is a text")
    return [plain_text(run_id) for run_id in run_ids]


def _operation_id(operation_id: Any) -> str:
    if not isinstance(operation_id, str) or not is_storable(operation_id):
        raise OperationNotFound(operation=operation_id)
    return plain_text(operation_id)


def _has_ended(run: RunRecord | HoldfastError) -> bool:
    return isinstance(run, RunRecord) and run.status in FINAL


def _may_refuse_late(op: Operation) -> bool:
    """Return whether an operation may be refused after its first write."""
    if isinstance(op, ReplayRun):
        return bool(op.children or op.detach)
    return op.may_refuse_late


def _raise_if_store_failed(error: HoldfastError) -> None:
    """Raise an error of the store itself; a value that cannot be read concerns one run."""
    if isinstance(error, StoreError) and not isinstance(error, BadData):
        raise error


def _parts(
    operation_id: str, chosen: Sequence[str], missing: Mapping[str, str]
) -> list[OperationPart]:
    """Return the parts of an operation, with the refusals that are known from the start."""
    parts = []
    for number, first in enumerate(range(0, len(chosen), PART)):
        ids = list(chosen[first : first + PART])
        refused = {run_id: missing[run_id] for run_id in ids if run_id in missing}
        parts.append(
            OperationPart(operation_id=operation_id, number=number, chosen=ids, refused=refused)
        )
    return parts


def _shown(filters: Mapping[str, Any], ids: Iterable[str] | None) -> dict[str, Any]:
    """Return the filters as JSON can hold them, for people."""
    shown = {name: value for name, value in filters.items() if value}
    if ids is not None:
        shown["ids"] = "given"
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(shown, enc_hook=str))
    return decoded
