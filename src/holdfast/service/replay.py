"""Planning a replay: which events of a run are void, which of its children are replayed with it,
and which it starts again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.core import history as run_history
from holdfast.core.event_table import OUTCOMES
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import ChildRecord
from holdfast.core.status import FINAL, Status
from holdfast.errors import HistoryGone, StepNotFound
from holdfast.store.contract import ReplayRun, ReplayRuns, Store

PORTION = 100
"""How many runs one transaction replays at most: other writers wait meanwhile."""

TRIES = 5
"""How often a replay is planned again when a history has grown between the reading and the
writing."""

_DECISIVE = OUTCOMES - {EventKind.CHILDREN_ENDED}
"""The kinds that decide how the code goes on; a run that waits for the ends of its children has
been stopped before."""

_STARTS = frozenset({EventKind.CHILD_STARTED, EventKind.MAP_STARTED})


class _Started(msgspec.Struct):
    run: str = ""
    chosen: bool = False


def whole_history(store: Store, run_id: str) -> list[Event]:
    """Return the events of a run, sealed. Raises HistoryGone: without them all of its work would be
    repeated."""
    events = store.history(run_id)
    if any(event.kind == EventKind.HISTORY_DELETED for event in events):
        raise HistoryGone(run=run_id)
    return events


def plan_replay(store: Store, run_id: str, from_step: str | None = None) -> ReplayRun:
    """Plan the replay of a finished run and of the children below it that did not complete. Raises
    StepNotFound, HistoryGone."""
    history = whole_history(store, run_id)
    void = run_history.voided_by_replay(history, from_step)
    if void is None:
        raise StepNotFound(run=run_id, step=from_step)
    seen = history[-1].seq if history else 0
    events = run_history.live_events(history)
    if not any(event.kind in _STARTS for event in events):
        return ReplayRun(run_id, void, seen=seen)
    family = _ReplayPlan(events, set(void), store.children(run_id))
    children = [plan_replay(store, child.id) for child in family.replayed()]
    return ReplayRun(run_id, void, seen=seen, children=children, detach=family.detached())


def in_parts(whole: ReplayRun) -> list[ReplayRun | ReplayRuns]:
    """Divide a replay so that no transaction puts more than a portion of its runs back to work:
    those below come before the ones above them, so that a run begins when all its children have.
    After a crash the same call replays what is left."""
    below = list(_below(whole))
    if len(below) <= PORTION:
        return [whole]
    parts = [ReplayRuns(below[first : first + PORTION]) for first in range(0, len(below), PORTION)]
    return [*parts, _alone(whole)]


def _below(whole: ReplayRun) -> Iterator[ReplayRun]:
    """Yield the replays below one, each without those below it, which come before it."""
    for child in whole.children:
        yield from _below(child)
        yield _alone(child)


def _alone(replay: ReplayRun) -> ReplayRun:
    return msgspec.structs.replace(
        replay, children=(), replayed=[child.run_id for child in replay.children]
    )


class _ReplayPlan:
    """The children of a run that is to be replayed."""

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
        """When the first outcome was recorded that is done again; None if none is."""

    def replayed(self) -> list[ChildRecord]:
        """Return the children that are replayed: those that did not complete, and whose start
        stands or finds them again."""
        cancelled = {
            _started(event).run for event in self._standing if event.kind == EventKind.CANCEL_SENT
        }
        found = [
            child
            for event in self._standing
            for child in self._started_by(event)
            if not self._is_left(child, event)
        ]
        found += [
            child
            for event in self._voided
            if _has_chosen_id(event)
            for child in self._started_by(event)
        ]
        ended = [
            child for child in found if child.status in FINAL or child.status is Status.CANCELLING
        ]
        return [
            child
            for child in ended
            if child.status is not Status.COMPLETED and child.id not in cancelled
        ]

    def detached(self) -> list[str]:
        """Return the starts that are void: the run starts other children there. A child with a
        chosen id is found again."""
        return [
            event.step or ""
            for event in self._voided
            if event.kind in _STARTS and not _has_chosen_id(event)
        ]

    def _started_by(self, event: Event) -> list[ChildRecord]:
        if event.kind == EventKind.MAP_STARTED:
            return self._by_step.get(event.step, [])
        child = (
            self._by_id.get(_started(event).run) if event.kind == EventKind.CHILD_STARTED else None
        )
        return [] if child is None else [child]

    def _is_left(self, child: ChildRecord, start: Event) -> bool:
        """Return whether a child stays as it is, because the run did without it before anything
        that is done again."""
        if (
            child.on_parent_end == "leave"
            and start.kind == EventKind.CHILD_STARTED
            and not self._was_awaited(start)
        ):
            return True
        if child.cancel_reason != run_history.DROPPED:
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
    return msgspec.json.decode(event.data or b"{}", type=_Started)


def _name(event: Event) -> str:
    return (event.step or "").rsplit("/", 1)[-1]
