"""The events and rows that the next commit of a run writes."""

from __future__ import annotations

from typing import Any

from holdfast.core.budgets.model import SpendEntry
from holdfast.core.commands import Finish
from holdfast.core.events import Event
from holdfast.core.runs import Fanout, NewRun
from holdfast.core.waits import WaitRecord
from holdfast.store.gates.operations import GateMove
from holdfast.store.graphs.operations import AddMembers

LISTS = (
    "children",
    "fanouts",
    "taken",
    "signals",
    "cancels",
    "child_cancels",
    "gates",
    "opened",
    "reopened",
    "escalated",
    "closed",
    "spends",
    "settles",
    "grows",
)
"""The rows that a commit may have besides events: fields of an Advance."""


class CommitBuffer:
    """The events and rows of the next commit of one run.

    Most commits have one event and nothing else, so the lists of other rows are created when one of
    them is first used.
    """

    __slots__ = (*LISTS, "events", "finish", "more")

    children: list[NewRun]
    fanouts: list[Fanout]
    taken: list[int]
    signals: list[tuple[str, str, bytes, str]]
    cancels: list[tuple[str, str]]
    child_cancels: list[str]
    gates: list[GateMove]
    opened: list[WaitRecord]
    reopened: list[str]
    escalated: list[str]
    closed: list[tuple[str, str]]
    spends: list[SpendEntry]
    settles: list[str]
    grows: list[AddMembers]

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.finish: Finish | None = None
        self.more: bool = False
        """Whether the lists exist: whether the commit may have more than events and the end."""

    def __getattr__(self, name: str) -> Any:
        # Called only for a slot that is not set yet: this saves fourteen lists per step.
        if name not in self.__slots__:
            raise AttributeError(name)
        self.more = True
        for field in LISTS:
            setattr(self, field, [])
        return getattr(self, name)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        if self.events or self.finish is not None:
            return False
        return not self.more or not any(getattr(self, name) for name in LISTS)

    def has_only(self, *names: str) -> bool:
        """Return whether no list but these has rows."""
        return not self.more or not any(getattr(self, name) for name in LISTS if name not in names)

    def taken_ids(self) -> set[int]:
        """Return the ids of the signals that this commit takes."""
        return set(self.taken) if self.more else set()
