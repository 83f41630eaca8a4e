"""The events and rows that the next commit of a run writes."""

from __future__ import annotations

from typing import Any

from holdfast.core.budgets.model import SpendEntry
from holdfast.core.commands import Finish
from holdfast.core.events import Event
from holdfast.core.runs import Fanout, NewRun
from holdfast.core.waits import WaitRecord
from holdfast.store.contract import AddMembers, GateMove

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
"""What a commit may have to say besides events, by the fields of an Advance."""


class CommitBuffer:
    """What the next commit has to say: mostly of an event, so that the other lists are made when
    somebody asks for one."""

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
        self.more = False
        """Whether it may have more to say than events and the end."""

    def __getattr__(self, name: str) -> Any:
        if name not in self.__slots__:
            raise AttributeError(name)
        self.more = True
        for one in LISTS:
            setattr(self, one, [])
        return getattr(self, name)

    def says_something(self) -> bool:
        if self.events or self.finish is not None:
            return True
        return self.more and any(getattr(self, name) for name in LISTS)
