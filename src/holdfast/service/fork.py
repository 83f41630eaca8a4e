"""Fork a run: create a new run with the history of another one up to, but without, a step.

A long history is written in parts that belong to a stage, not to a run, so that no reader sees
them. The last transaction copies them, inside the database, to the run that it creates. Parts that
a dead process has left are deleted like any other stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from holdfast.core import history as run_history
from holdfast.core.budgets import rules as budget_rules
from holdfast.core.envelope import digests_of
from holdfast.core.event_table import OnReplay, kinds_with
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import MEMBER_MARK, RunRecord
from holdfast.core.status import FINAL, Status
from holdfast.core.stored_json import object_of
from holdfast.core.validation import checked_run_id, checked_string, checked_text
from holdfast.core.versions import first_version
from holdfast.engine.runtime.ids import new_id
from holdfast.errors import HoldfastError, RunExists, RunNotFound, StepNotFound, UsageError
from holdfast.service.graph_stages import Do, sweep
from holdfast.service.replay import whole_history
from holdfast.service.requests import Request, identity
from holdfast.service.runs import RunService
from holdfast.store.runs.copy_operations import ImportRun, StagedEvents, StageEvents
from holdfast.store.store import Store

PART = 2000
"""Events that one transaction writes, at most: other writers wait meanwhile."""

BYTES = 4_000_000
"""Bytes of values that one transaction writes, at most, unless a single event has more."""

_OF_OPEN_GATES = kinds_with(OnReplay.VOID_IF_GATE_REOPENS)


def fork(
    client: RunService,
    run_id: str,
    from_step: str | None,
    fork_id: str | None,
    do: Do,
    by: str | None = None,
) -> str:
    """Create a fork of a run and return its id. *by* is the person or program that asks for it.

    If *fork_id* is the id of an existing fork of the same run from the same step, that id is
    returned. Raises RunExists, RunNotFound, StepNotFound, HistoryGone."""
    from_step = checked_string("from_step", from_step)
    fork_id = checked_run_id(fork_id)
    by = checked_text("by", by)
    run = client.get(client.own_run_id(run_id))
    if fork_id is not None and _is_there(client, fork_id, run_id, from_step):
        return fork_id
    events = run_history.live_events(whole_history(client.store, run_id))
    copied = _events_to_copy(client.store, events, run_id, from_step)
    version = _version_at(events, from_step) or run.version
    origin = {"run": run_id, "step": from_step}
    data = msgspec.json.encode(origin if by is None else {**origin, "by": by})
    copied.append(Event(EventKind.RUN_FORKED, data=data, at=client.store.now()))
    run_history.renumber(copied)
    op = _new_run(client, run, version, copied, fork_id or new_id())
    try:
        _write(op, do)
    except RunExists:
        if fork_id is None or not _is_there(client, fork_id, run_id, from_step):
            raise
    return op.run.id


def _is_there(client: RunService, fork_id: str, run_id: str, from_step: str | None) -> bool:
    """Return whether the fork *fork_id* of this run from this step exists already. Raises RunExists
    if the id belongs to another run."""
    with suppress(RunNotFound):
        existing = client.get(fork_id)
        events = [
            event
            for event in client.store.runs.history(fork_id)
            if event.kind == EventKind.RUN_FORKED
        ]
        origins = [
            object_of(event.data, "the history")
            for event in client.sealer.opener.events(fork_id, events)
        ]
        if existing.forked_from != run_id or any(
            origin.get("step") != from_step for origin in origins
        ):
            raise RunExists(run=fork_id, workflow=existing.workflow)
        return True
    return False


def _events_to_copy(
    store: Store, events: list[Event], run_id: str, from_step: str | None
) -> list[Event]:
    """Return the events that the fork takes over. Raises StepNotFound."""
    if from_step is None:
        return []
    cut = next((place for place, event in enumerate(events) if event.step == from_step), None)
    if cut is None:
        raise StepNotFound(run=run_id, step=from_step)
    events = [] if run_history.was_undone(events) else events[:cut]
    copied = _without_open_gates(_without_open_waits(store, _without_open_children(store, events)))
    return _without_stale_checkpoints(events, copied)


def _version_at(events: Sequence[Event], step: str | None) -> str | None:
    """Return the version that a run had at a step; None if it is the version that the run has, or
    if the fork begins from the start."""
    if step is None or run_history.was_undone(events):
        return None
    cut = next(place for place, event in enumerate(events) if event.step == step)
    return first_version(events[cut:])


def _new_run(
    client: RunService, run: RunRecord, version: str, copied: list[Event], fork_id: str
) -> ImportRun:
    input, events = client.sealer.copy_for_fork(run, copied, fork_id)
    fork = RunRecord(
        id=fork_id,
        namespace=run.namespace,
        workflow=run.workflow,
        version=version,
        lane=run.lane,
        capabilities=run.capabilities,
        status=Status.PENDING,
        priority=run.priority,
        input=input,
        generation=0,
        revision=0,
        crashes=0,
        created_at=client.store.now(),
        forked_from=run.id,
        started_at=run.started_at,
        budgets=tuple(name for name in run.budgets if not name.startswith(budget_rules.TREE)),
        share=run.share,
    )
    return ImportRun(fork, client.store.runs.tags(run.id), events)


# Writing


def _write(op: ImportRun, do: Do) -> None:
    """Write a fork; if its events are too many for one transaction, write them to a stage first."""
    parts = list(_parts(op.events))
    if len(parts) == 1:
        do(Request(op, identity))
        return
    # No member of a graph has a name in brackets, so the id cannot be that of a graph's stage.
    stage_id = f"{op.run.id}{MEMBER_MARK}({new_id()})"
    copied = op.events[:-1]
    try:
        for part in _parts(copied):
            do(Request(StageEvents(stage_id, part), identity))
        digests = digests_of(*(value for event in copied for value in (event.data, event.error)))
        op.staged = StagedEvents(stage_id, len(copied), digests)
        op.events = op.events[-1:]
        do(Request(op, identity))
    except UsageError:
        with suppress(HoldfastError):  # the leader deletes abandoned stages anyway
            sweep(do, stage_id, give_up=True)
        raise
    sweep(do, stage_id)


def _parts(events: Sequence[Event]) -> Iterator[Sequence[Event]]:
    """Yield events in parts of at most PART events and, unless it is a single event, BYTES
    bytes."""
    first = size = 0
    for place, event in enumerate(events):
        weight = len(event.data or b"") + len(event.error or b"")
        if place > first and (place - first == PART or size + weight > BYTES):
            yield events[first:place]
            first = place
            size = 0
        size += weight
    yield events[first:]


# Events that a fork does not take over


def _without_open_children(store: Store, events: list[Event]) -> list[Event]:
    """Return the events without the starts of children that the fork must start itself.

    These are children that have not ended, and children that did not complete and whose end is not
    part of the history. They include the children of an open map, which notify their own parent of
    their ends."""
    ends = {
        event.step for event in events if event.kind in (EventKind.CHILD_ENDED, EventKind.MAP_ENDED)
    }
    return [event for event in events if not _starts_again(store, event, ends)]


def _starts_again(store: Store, event: Event, ends: set[str | None]) -> bool:
    if event.kind == EventKind.MAP_STARTED:
        return event.step not in ends
    if event.kind != EventKind.CHILD_STARTED:
        return False
    child = store.runs.get(object_of(event.data, "the history").get("run", ""))
    if child is None or child.status not in FINAL:
        return True
    return child.status is not Status.COMPLETED and f"{event.step} end" not in ends


def _without_open_waits(store: Store, events: list[Event]) -> list[Event]:
    """Return the events without open waits: their signals reach the original run, so the fork opens
    its own waits."""
    return [
        event
        for event in events
        if event.kind != EventKind.WAIT_CREATED or _has_closed(store, event)
    ]


def _has_closed(store: Store, event: Event) -> bool:
    wait = store.waits.get(object_of(event.data, "the history").get("id", ""))
    return wait is None or wait.closed_at is not None


def _without_stale_checkpoints(events: Sequence[Event], copied: list[Event]) -> list[Event]:
    """Return the events that the fork takes over without the checkpoints whose states it does not
    share: they know a child, a wait or a gate that is open, and belongs to the original run.

    A fork of a replayed run keeps none, because it does not take over the voided events, which the
    idempotency keys at the checkpoint count.
    """
    seqs = {event.seq for event in copied}
    is_replayed = any(event.kind == EventKind.RUN_REPLAYED for event in events)
    missing = [event.seq for event in events if is_replayed or event.seq not in seqs]
    first = min(missing, default=None)
    if first is None:
        return copied
    return run_history.without_checkpoints_after(copied, first)


def _without_open_gates(events: list[Event]) -> list[Event]:
    """Return the events without open gates: they belong to the original run, so the fork opens its
    own gates."""
    closed = {event.step for event in events if event.kind == EventKind.GATE_CLOSED}
    return [event for event in events if event.kind not in _OF_OPEN_GATES or event.step in closed]
