"""The verbs of bulk operations: the checks of their arguments, and the operations that apply them
to one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from holdfast.core.operations import BulkArguments, BulkVerb, refusal
from holdfast.core.runs import RunRecord
from holdfast.core.validation import (
    checked_flag,
    checked_reason,
    checked_signal,
    checked_string,
    checked_text,
    checked_version,
    priority_of,
)
from holdfast.errors import HoldfastError
from holdfast.service.graphs import GraphService
from holdfast.service.replay import in_parts, plan_replay
from holdfast.service.runs import RunService
from holdfast.service.waits import releasable_step
from holdfast.store.database import Operation
from holdfast.store.messages.operations import InstructRun
from holdfast.store.operations.operations import DeleteRun
from holdfast.store.runs.operations import RequestCancel, ResumeRun
from holdfast.store.signals.operations import SignalRun
from holdfast.store.tasks.operations import SetPriority
from holdfast.store.waits.operations import ReleaseWait


class BulkCall(msgspec.Struct):
    """A verb with its checked arguments; ``payload`` is encoded and not yet sealed."""

    verb: BulkVerb
    arguments: BulkArguments
    payload: bytes | None = None


def cancel(reason: str, *, force: bool) -> BulkCall:
    """Cancel runs. Raises BadOption."""
    arguments = BulkArguments(reason=checked_reason(reason), force=checked_flag("force", force))
    return BulkCall(BulkVerb.CANCEL, arguments)


def replay(from_step: str | None) -> BulkCall:
    """Replay finished runs. Raises BadOption."""
    arguments = BulkArguments(from_step=checked_string("from_step", from_step))
    return BulkCall(BulkVerb.REPLAY, arguments)


def resume() -> BulkCall:
    """Resume stuck runs."""
    return BulkCall(BulkVerb.RESUME, BulkArguments())


def signal(
    client: RunService, name: str, payload: Any, key: str | None, source: str | None
) -> BulkCall:
    """Send a signal to each run. Raises BadOption."""
    arguments = BulkArguments(
        name=checked_signal(name),
        key=checked_text("key", key),
        source=checked_text("source", source),
        limit=client.max_signals,
    )
    data = client.codec.encode(payload, label=f"signal {arguments.name!r}")
    return BulkCall(BulkVerb.SIGNAL, arguments, data)


def release(client: RunService, payload: Any, by: str | None) -> BulkCall:
    """Release the wait of each run. Raises BadOption."""
    arguments = BulkArguments(by=checked_text("by", by))
    return BulkCall(BulkVerb.RELEASE, arguments, client.codec.encode(payload, label="the payload"))


def prioritise(priority: int) -> BulkCall:
    """Change the priority of unfinished runs. Raises BadOption."""
    return BulkCall(BulkVerb.PRIORITISE, BulkArguments(priority=priority_of(priority)))


def delete() -> BulkCall:
    """Delete finished runs with their descendants."""
    return BulkCall(BulkVerb.DELETE, BulkArguments())


def migrate(
    version: int | str, mapping: dict[str, str], by: str | None, reason: str | None
) -> BulkCall:
    """Move the runs of models to another version. Raises BadOption."""
    arguments = BulkArguments(
        version=checked_version("to", version),
        mapping=mapping,
        by=checked_text("by", by),
        reason=checked_text("reason", reason),
    )
    return BulkCall(BulkVerb.MIGRATE, arguments)


MigrationCheck = Callable[[RunRecord, BulkArguments], None]
"""Raises the refusal of a migration of a run, as the run is now."""


class VerbPlanner:
    """Plans how a verb is applied to one run, as the run is now."""

    def __init__(
        self, client: RunService, graphs: GraphService, check_migration: MigrationCheck
    ) -> None:
        self._check_migration: MigrationCheck = check_migration
        self._client = client
        self._graphs = graphs
        self._store = client.store
        self._planners: dict[
            BulkVerb, Callable[[BulkArguments, RunRecord, bytes], Sequence[Operation]]
        ] = {
            BulkVerb.CANCEL: self._cancel,
            BulkVerb.REPLAY: self._replay,
            BulkVerb.RESUME: self._resume,
            BulkVerb.SIGNAL: self._signal,
            BulkVerb.RELEASE: self._release,
            BulkVerb.PRIORITISE: self._prioritise,
            BulkVerb.DELETE: self._delete,
            BulkVerb.MIGRATE: self._migrate,
        }

    def plan(
        self,
        verb: BulkVerb,
        arguments: BulkArguments,
        run: RunRecord | HoldfastError,
        payload: bytes,
        *,
        begun: bool = False,
    ) -> Sequence[Operation]:
        """Return the operations that apply the verb to a run; the last one completes it. Raises the
        refusal."""
        if isinstance(run, HoldfastError):
            raise run
        refused = None if begun else refusal(verb, run, arguments.statuses)
        if refused is not None:
            raise refused
        return self._planners[verb](arguments, run, payload)

    def _cancel(self, arguments: BulkArguments, run: RunRecord, _: bytes) -> Sequence[Operation]:
        return [RequestCancel(run.id, arguments.reason or "", arguments.force, by=arguments.by)]

    def _resume(self, arguments: BulkArguments, run: RunRecord, _: bytes) -> Sequence[Operation]:
        return [ResumeRun(run.id, arguments.by)]

    def _replay(self, arguments: BulkArguments, run: RunRecord, _: bytes) -> Sequence[Operation]:
        member = None if run.graph_id is None else self._store.graphs.member(run.id)
        if member is not None:
            requests = self._graphs.replay(
                member.graph_id,
                member.name,
                None,
                arguments.from_step,
                namespace=run.namespace,
            )
            return [request.op for request in requests]
        return in_parts(plan_replay(self._store, run.id, arguments.from_step, arguments.by))

    def _signal(
        self, arguments: BulkArguments, run: RunRecord, payload: bytes
    ) -> Sequence[Operation]:
        op = SignalRun(
            run.id,
            arguments.name or "",
            payload,
            arguments.key,
            arguments.source,
            limit=arguments.limit or self._client.max_signals,
        )
        return [op]

    def _release(
        self, arguments: BulkArguments, run: RunRecord, payload: bytes
    ) -> Sequence[Operation]:
        step = releasable_step(self._store, run.id)
        return [ReleaseWait(run_id=run.id, step=step, payload=payload, by=arguments.by)]

    def _prioritise(
        self, arguments: BulkArguments, run: RunRecord, _: bytes
    ) -> Sequence[Operation]:
        priority = arguments.priority or 0
        return [
            SetPriority(run_id=run.id, namespace=run.namespace, priority=priority, by=arguments.by)
        ]

    def _delete(self, _: BulkArguments, run: RunRecord, __: bytes) -> Sequence[Operation]:
        return [DeleteRun(run.id)]

    def _migrate(self, arguments: BulkArguments, run: RunRecord, _: bytes) -> Sequence[Operation]:
        self._check_migration(run, arguments)
        instruction = {
            "verb": "migrate",
            "to": arguments.version,
            "mapping": arguments.mapping or {},
            "reason": arguments.reason,
        }
        payload = self._client.codec.encode(instruction, label="the instruction")
        return [InstructRun(run_id=run.id, payload=payload, by=arguments.by)]
