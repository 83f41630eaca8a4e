"""Children that the holders of a leased run start, and the wait for them. Pure.

All children of a leased run belong to one step, whose count of open children the store keeps. The
wait is over when all of them have ended, when one has failed, or after its timeout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from holdfast.core.events import Event, EventKind
from holdfast.core.runs import ChildRecord
from holdfast.core.status import FINAL, Status
from holdfast.core.stored_json import decode_stored
from holdfast.core.waits import WaitKind

STEP = "children"
"""The step to which all children of a leased run belong."""


class ChildrenWait(msgspec.Struct):
    """A wait for the children of a leased run, as the data of its event. ``failed`` are the
    children that had failed before: they do not end the wait."""

    until: int | None = None
    failed: list[str] = []

    def as_wait(self, children: Sequence[ChildRecord]) -> dict[str, Any]:
        """Return the wait as it is stored with the parked run."""
        return {
            "kind": WaitKind.CHILDREN,
            "step": STEP,
            "open": len(open_children(children)),
            "of": len(children),
            "until": self.until,
        }

    def is_over(self, children: Sequence[ChildRecord], now: int) -> bool:
        """Return whether the next holder may have the lease."""
        if self.until is not None and self.until <= now:
            return True
        if not open_children(children):
            return True
        return not set(failed_children(children)) <= set(self.failed)


def open_children(children: Iterable[ChildRecord]) -> list[str]:
    """Return the ids of the children that have not ended."""
    return [child.id for child in children if child.status not in FINAL]


def failed_children(children: Iterable[ChildRecord]) -> list[str]:
    """Return the ids of the children that ended without completing."""
    return [
        child.id for child in children if child.status in FINAL and child.status != Status.COMPLETED
    ]


def has_children(events: Iterable[Event]) -> bool:
    """Return whether a holder has started children, by the history of the run."""
    return any(event.kind == EventKind.CHILD_STARTED for event in events)


def last_children_wait(events: Sequence[Event]) -> ChildrenWait | None:
    """Return the wait for children if that is the last wait of a run, else None. Raises
    BadData."""
    kinds = (EventKind.WAIT_OPENED, EventKind.CHILDREN_AWAITED)
    last = next((event for event in reversed(events) if event.kind in kinds), None)
    if last is None or last.kind != EventKind.CHILDREN_AWAITED:
        return None
    label = "the wait for children of the run"
    wait: ChildrenWait = decode_stored(last.data or b"{}", label, ChildrenWait)
    return wait
