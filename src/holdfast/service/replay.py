"""Plan the replay of a run: find the events that it voids, the children that are replayed with the
run, and the children that the run starts again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.core import history as run_history
from holdfast.core import typed_json
from holdfast.core.event_table import OUTCOMES
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import CancelCause, ChildRecord
from holdfast.core.status import FINAL, Status
from holdfast.core.versions import first_version
from holdfast.errors import HistoryGone, StepNotFound
from holdfast.store.runs.operations import ReplayRun, ReplayRuns
from holdfast.store.store import Store

PORTION = 100
"""Runs that one transaction replays, at most: other writers wait meanwhile."""

TRIES = 5
"""How often a replay is planned again if a history has grown between reading and writing."""

_DECISIVE = OUTCOMES - {EventKind.CHILDREN_ENDED}
"""The kinds of events that decide how the code continues. CHILDREN_ENDED is not among them: the
code of a run that waits for the ends of its children has ended before."""

_STARTS = frozenset({EventKind.CHILD_STARTED, EventKind.MAP_STARTED})


class _Started(msgspec.Struct):
    run: str = ""
    chosen: bool = False


def whole_history(store: Store, run_id: str) -> list[Event]:
    """Return the events of a run, sealed. Raises HistoryGone if they were deleted: without them all
    work of the run would be repeated."""
    events = store.runs.history(run_id)
    if any(event.kind == EventKind.HISTORY_DELETED for event in events):
        raise HistoryGone(run=run_id)
    return events


def plan_replay(
    store: Store, run_id: str, from_step: str | None = None, by: str | None = None
) -> ReplayRun:
    """Return the plan to replay a finished run and its descendants that did not complete, for the
    person or program *by*. Raises StepNotFound, HistoryGone."""
    history = whole_history(store, run_id)
    void = run_history.voided_by_replay(history, from_step)
    if void is None:
        raise StepNotFound(run=run_id, step=from_step)
    events = run_history.live_events(history)
    replay = ReplayRun(run_id, void, seen=history[-1].seq if history else 0, by=by)
    if from_step is not None and not run_history.was_undone(events):
        replay.version = _version_before(events, set(void))
    if not any(event.kind in _STARTS for event in events):
        return replay
    plan = _ReplayPlan(events, set(void), store.children.all(run_id))
    replay.children = [plan_replay(store, child.id, by=by) for child in plan.replayed()]
    replay.detach = plan.detached()
    return replay


def _version_before(events: Sequence[Event], void: set[int]) -> str | None:
    """Return the version that the run had before the void events; None if none of them has changed
    it. The kept outcomes and the repeated step belong to that version. A run whose steps were all
    undone begins once more, in its current version."""
    return first_version([event for event in events if event.seq in void])


def in_parts(whole: ReplayRun) -> list[ReplayRun | ReplayRuns]:
    """Return the operations of a replay, each with at most PORTION runs.

    Descendants come before their ancestors, so that a run is replayed only after all its children.
    After a crash the same call replays the rest."""
    below = list(_below(whole))
    if len(below) <= PORTION:
        return [whole]
    parts = [ReplayRuns(below[first : first + PORTION]) for first in range(0, len(below), PORTION)]
    return [*parts, _alone(whole)]


def _below(whole: ReplayRun) -> Iterator[ReplayRun]:
    """Yield the replays of all descendants, each without its own children, which come before it."""
    for child in whole.children:
        yield from _below(child)
        yield _alone(child)


def _alone(replay: ReplayRun) -> ReplayRun:
    return msgspec.structs.replace(
        replay, children=(), replayed=[child.run_id for child in replay.children]
    )


class _ReplayPlan:
    """Selects the children of a run that are replayed with it, or started again by it."""

    def __init__(
        self, events: Sequence[Event], void: set[int], children: Sequence[ChildRecord]
    ) -> None:
        self._standing = [event for event in events if event.seq not in void]
        self._voided = [event for event in events if event.seq in void]
        self._by_id = {child.id: child for child in children}
        self._by_step: dict[str | None, list[ChildRecord]] = {}
        for child in children:
            self._by_step.setdefault(child.parent_step, []).append(child)
        self._repeats_from = next(
            (event.at for event in self._voided if event.kind in _DECISIVE), None
        )
        """The time of the first outcome that the replay repeats; None if it repeats none."""

    def replayed(self) -> list[ChildRecord]:
        """Return the children that are replayed: children that did not complete, and whose start
        event is kept, or is void but has a chosen id, by which the run finds them again."""
        cancelled = {
            _started(event).run for event in self._standing if event.kind == EventKind.CANCEL_SENT
        }
        superseded = run_history.superseded(self._standing)
        children = [
            child
            for event in self._standing
            if event.step not in superseded
            for child in self._started_by(event)
            if not self._is_left(child, event)
        ]
        children += [
            child
            for event in self._voided
            if _has_chosen_id(event)
            for child in self._started_by(event)
        ]
        ended = [
            child
            for child in children
            if child.status in FINAL or child.status is Status.CANCELLING
        ]
        return [
            child
            for child in ended
            if child.status is not Status.COMPLETED and child.id not in cancelled
        ]

    def detached(self) -> list[str]:
        """Return the steps of the void starts, at which the run starts other children. A child with
        a chosen id is not among them: the run finds it again."""
        return [
            event.step or ""
            for event in self._voided
            if event.kind in _STARTS and not _has_chosen_id(event)
        ]

    def _started_by(self, event: Event) -> list[ChildRecord]:
        if event.kind == EventKind.MAP_STARTED:
            return self._by_step.get(event.step, [])
        if event.kind != EventKind.CHILD_STARTED:
            return []
        child = self._by_id.get(_started(event).run)
        if child is None:
            return []
        return [child]

    def _is_left(self, child: ChildRecord, start: Event) -> bool:
        """Return whether a child stays as it is: the run never awaited it, or dropped it before the
        first outcome that the replay repeats."""
        if (
            child.on_parent_end == "leave"
            and start.kind == EventKind.CHILD_STARTED
            and not self._was_awaited(start)
        ):
            return True
        if child.cancel_cause != CancelCause.UNAWAITED:
            return False
        asked_at = child.cancelled_at or child.finished_at or 0
        return self._repeats_from is None or asked_at < self._repeats_from

    def _was_awaited(self, start: Event) -> bool:
        end = f"{_name(start)} end"
        ends = [
            event
            for event in [*self._standing, *self._voided]
            if event.kind == EventKind.CHILD_ENDED
        ]
        return any(_name(event) == end or _name(event).startswith(f"{end}#") for event in ends)


def _has_chosen_id(event: Event) -> bool:
    return event.kind == EventKind.CHILD_STARTED and _started(event).chosen


def _started(event: Event) -> _Started:
    return typed_json.decode(event.data or b"{}", _Started)


def _name(event: Event) -> str:
    return (event.step or "").rsplit("/", 1)[-1]
