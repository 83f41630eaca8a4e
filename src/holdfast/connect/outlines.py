"""Keep the outlines of the histories that were drawn last, and read only their new events.

A page that follows a run asks for its timeline and its diagram after every change. A history only
grows, so that an outline is continued from its last event. That event is read again: if it is gone
or another one, the history was deleted, and is read from its beginning.

Invariants:
- An outline contains no values of the program, and is bounded by MOST_EVENTS in total.
- The readers of one run take turns: a page asks for the timeline and the diagram at the same time,
  and the second one continues the outline of the first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import msgspec

from holdfast.core.diagrams import Diagram
from holdfast.core.events import Event
from holdfast.core.runs import RunRecord
from holdfast.store.store import Store

MOST_EVENTS = 100_000
"""The events of all outlines that are kept, about 25 MB."""

TURNS = 32
"""The locks for the readers of a run; runs whose ids share a lock take turns as well."""


class _Outline(msgspec.Struct, frozen=True):
    """The outline of the history of one run, which another run of the same id does not have."""

    created_at: int
    events: list[Event]


class _Drawn(msgspec.Struct, frozen=True):
    """The diagram of a run, made from an outline and a state of the run."""

    events: Sequence[Event]
    state: tuple[object, ...]
    diagram: bytes
    """Encoded: callers give the nodes their places."""


class HistoryOutlines:
    """The outlines of the histories of runs. Threads may share it."""

    def __init__(self, store: Store) -> None:
        self._store: Store = store
        self._lock: threading.Lock = threading.Lock()
        self._turns: list[threading.Lock] = [threading.Lock() for _ in range(TURNS)]
        self._kept: dict[str, _Outline] = {}
        """By run; the outline that was used last is at the end."""
        self._drawn: dict[str, _Drawn] = {}
        """The last diagram of each run with a kept outline."""

    def of(self, run: RunRecord) -> Sequence[Event]:
        """Return the outline of the history of a run, as it is now."""
        with self._turns[hash(run.id) % TURNS]:
            with self._lock:
                kept = self._kept.get(run.id)
            events = self._continued(run, kept)
            with self._lock:
                self._kept.pop(run.id, None)
                self._kept[run.id] = _Outline(run.created_at, events)
                self._shrink()
        return events

    def diagram(self, run: RunRecord, draw: Callable[[Sequence[Event]], Diagram]) -> Diagram:
        """Return the diagram that *draw* makes of the outline of a run; the one of the last call if
        neither the outline nor the run has changed."""
        events = self.of(run)
        state = (run.status, run.revision, run.waits)
        with self._lock:
            drawn = self._drawn.get(run.id)
        if drawn is not None and drawn.events is events and drawn.state == state:
            return msgspec.msgpack.decode(drawn.diagram, type=Diagram)
        diagram = draw(events)
        with self._lock:
            if run.id in self._kept:
                self._drawn[run.id] = _Drawn(events, state, msgspec.msgpack.encode(diagram))
        return diagram

    def _continued(self, run: RunRecord, kept: _Outline | None) -> list[Event]:
        if kept is None or kept.created_at != run.created_at or not kept.events:
            return self._store.runs.outline(run.id)
        last = kept.events[-1]
        later = self._store.runs.outline(run.id, last.seq)
        if not later or later[0] != last:
            return self._store.runs.outline(run.id)
        if len(later) == 1:
            return kept.events
        # A new list: another thread may be drawing the old list.
        return kept.events + later[1:]

    def _shrink(self) -> None:
        """Forget the outlines that were not used for the longest time."""
        total = sum(len(outline.events) for outline in self._kept.values())
        while total > MOST_EVENTS:
            oldest = next(iter(self._kept))
            total -= len(self._kept.pop(oldest).events)
            self._drawn.pop(oldest, None)
