"""The trace of an instance: how often each element was entered and left, and the flows taken."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core.commands import Command, RecordElements
from holdfast.core.events import Event, EventKind


class ElementTrace(msgspec.Struct):
    """What has happened at one element."""

    entered: int = 0
    completed: int = 0
    cancelled: int = 0
    active: int = 0
    incidents: int = 0


class TraceLog:
    """Collects the trace while a history is replayed. A running instance keeps none."""

    def __init__(self) -> None:
        self.elements: dict[str, ElementTrace] = {}
        self.flows: list[str] = []

    def of(self, element: str) -> ElementTrace:
        return self.elements.setdefault(element, ElementTrace())

    def entered(self, element: str) -> None:
        entry = self.of(element)
        entry.entered += 1
        entry.active += 1

    def completed(self, element: str) -> None:
        entry = self.of(element)
        entry.completed += 1
        entry.active -= 1

    def cancelled(self, element: str) -> None:
        entry = self.of(element)
        entry.cancelled += 1
        entry.active -= 1

    def moved(self, element: str, target: str) -> None:
        """Move the visit of an active token to the element of another version."""
        if element == target:
            return
        for name, count in ((element, -1), (target, 1)):
            entry = self.of(name)
            entry.entered += count
            entry.active += count
        if self.elements[element] == ElementTrace():
            del self.elements[element]


class ElementLog(TraceLog):
    """Collects what happens at elements until it is recorded, and keeps no counts."""

    def __init__(self) -> None:
        super().__init__()
        self._visits: list[tuple[str, str]] = []

    def take(self) -> list[tuple[str, str]]:
        """Return the visits since the last time, and forget them."""
        visits = self._visits
        self._visits = []
        self.flows.clear()
        return visits

    def commands(self) -> list[Command]:
        """Return the command that records the visits since the last time; none if there are
        none."""
        visits = self.take()
        return [RecordElements(visits)] if visits else []

    def forget_recorded(self, history: Sequence[Event], state: bytes | None) -> None:
        """Forget the visits that a history, or one before a checkpoint, has recorded: each is in
        the commit of the outcome that led there."""
        if state is not None or any(event.kind == EventKind.ELEMENT_ENTERED for event in history):
            self.take()

    def of(self, element: str) -> ElementTrace:
        return ElementTrace()

    def entered(self, element: str) -> None:
        self._visits.append((EventKind.ELEMENT_ENTERED, element))

    def completed(self, element: str) -> None:
        self._visits.append((EventKind.ELEMENT_COMPLETED, element))

    def cancelled(self, element: str) -> None:
        self._visits.append((EventKind.ELEMENT_CANCELLED, element))

    def moved(self, element: str, target: str) -> None:
        """A migration is an event of its own."""
