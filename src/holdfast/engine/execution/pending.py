"""What a held run waits for, command by command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from holdfast.core.budgets import rules as budget_rules
from holdfast.core.budgets.model import Breach
from holdfast.core.commands import (
    AwaitChild,
    AwaitCondition,
    AwaitSignal,
    EndChildren,
    OpenGate,
    Reserve,
    RunStep,
    SetTimer,
    Spend,
    StartMap,
)
from holdfast.core.conditions.evaluation import next_expiry
from holdfast.core.events import Event, EventKind
from holdfast.core.gates.model import OPEN, Gate
from holdfast.core.gates.rules import next_at
from holdfast.core.runs import CHILDREN_END, ChildRecord
from holdfast.core.status import FINAL, Status


class Cancellable(Protocol):
    """An attempt at a step that can be told to stop."""

    def cancel(self) -> object:
        """Ask it to stop."""


Opened = Callable[[Iterable[ChildRecord]], list[ChildRecord]]
"""What opens the values of children."""


class PendingStep:
    """A step that is running, or waits for its next attempt, or for room in a budget."""

    __slots__ = (
        "again_at",
        "attempt",
        "blocked",
        "command",
        "demand",
        "noted",
        "purse",
        "released",
        "started_at",
        "task",
    )

    def __init__(self, command: RunStep, attempt: int, again_at: int | None) -> None:
        self.command, self.attempt, self.again_at = command, attempt, again_at
        self.started_at: int | None = None
        self.task: Cancellable | None = None
        self.noted = False
        self.released: Sequence[int] = ()
        """The signals by which a person let it try again at once: they are taken with what comes of
        it."""
        self.blocked: Breach | None = None
        self.demand: dict[str, int] = {}
        self.purse: Any = None

    @property
    def running(self) -> bool:
        return self.again_at is None and self.blocked is None

    def wait(self) -> dict[str, Any] | None:
        if self.blocked is not None:
            return budget_rules.as_wait(self.blocked, self.command.id)
        if self.again_at is None:
            return None
        return {
            "kind": "retry",
            "step": self.command.id,
            "until": self.again_at,
            "attempt": self.attempt,
        }


class PendingTimer:
    """A timer that has not fired."""

    __slots__ = ("command", "until")

    def __init__(self, command: SetTimer, until: int) -> None:
        self.command, self.until = command, until

    def wait(self) -> dict[str, Any]:
        return {"kind": "timer", "step": self.command.id, "until": self.until}


class PendingSignal:
    """A wait for a signal."""

    __slots__ = ("command", "until")

    def __init__(self, command: AwaitSignal, until: int | None) -> None:
        self.command, self.until = command, until

    def wait(self) -> dict[str, Any]:
        return {
            "kind": "signal",
            "step": self.command.id,
            "name": self.command.name,
            "until": self.until,
        }


class PendingGate:
    """A wait for people to decide. ``gate`` is what is known of it here; people may have changed it
    since. Time does nothing about a gate that is not ``stored`` yet."""

    __slots__ = ("command", "gate", "stored")

    def __init__(self, command: OpenGate, gate: Gate, *, stored: bool) -> None:
        self.command, self.gate, self.stored = command, gate, stored

    @property
    def until(self) -> int | None:
        """When time has something to do about it."""
        return next_at(self.gate) if self.gate.status == OPEN else None

    def wait(self) -> dict[str, Any]:
        gate = self.gate
        return {
            "kind": "gate",
            "step": self.command.id,
            "name": gate.prompt,
            "gate": gate.id,
            "until": self.until,
            "deadline": gate.deadline,
        }


class PendingCondition:
    """A wait for a condition. ``until`` is when it gives up; ``due`` when it is worth while to
    look, for a wait that it needs may have expired by then."""

    __slots__ = ("command", "due", "escalated_at", "sealed", "until")

    def __init__(
        self, command: AwaitCondition, until: int | None, escalated_at: int | None, *, sealed: bool
    ) -> None:
        self.command, self.until, self.escalated_at, self.sealed = (
            command,
            until,
            escalated_at,
            sealed,
        )
        self.due: int | None = None
        self.set_due(0)  # a wait that it needs may have expired already

    def set_due(self, after: int) -> None:
        """Find out when to look next, if nothing comes. One that has been put to a person waits for
        that person."""
        instants = [
            self.until,
            None if self.escalated_at is not None else next_expiry(self.command.condition, after),
        ]
        self.due = min((instant for instant in instants if instant is not None), default=None)

    def wait(self) -> dict[str, Any]:
        return {
            "kind": "wait",
            "step": self.command.id,
            "until": self.due,
            "gives_up": self.until,
            "condition": msgspec.to_builtins(self.command.condition),
            "on_timeout": self.command.on_timeout,
            "escalated_at": self.escalated_at,
            "sealed": self.sealed,
        }


class PendingChild:
    """A wait for one child."""

    __slots__ = ("command",)

    def __init__(self, command: AwaitChild) -> None:
        self.command = command

    def wait(self) -> dict[str, Any]:
        return {"kind": "child", "step": self.command.id, "run": self.command.run_id}

    def outcome(self, child: ChildRecord, opened: Opened) -> Event:
        """Return what the end of the child is to its parent."""
        (child,) = opened([child])
        return Event(EventKind.CHILD_ENDED, self.command.id, data=child.result, error=_error(child))


class PendingChildren:
    """A wait for the ends of all children that were cancelled because the run stops."""

    __slots__ = ("command",)

    def __init__(self, command: EndChildren) -> None:
        self.command = command

    def wait(self) -> dict[str, Any]:
        return {"kind": CHILDREN_END, "step": self.command.id}

    def outcome(self, *, released: bool) -> Event:
        """Return the end of the wait; *released* says that an operator ended it."""
        return Event(
            EventKind.CHILDREN_ENDED, self.command.id, msgspec.json.encode({"released": released})
        )


class PendingSpend:
    """Something that the code wants from its budgets."""

    __slots__ = ("blocked", "command", "demand")

    def __init__(self, command: Spend | Reserve) -> None:
        self.command = command
        self.blocked: Breach | None = None
        self.demand: dict[str, int] = {}

    def wait(self) -> dict[str, Any] | None:
        return None if self.blocked is None else budget_rules.as_wait(self.blocked, self.command.id)


PORTION = 2000
"""How many children of a map one commit starts at most: while it is written, no one else can
write."""


class PendingMap:
    """A wait for all children of a map."""

    __slots__ = ("command", "ended", "started")

    def __init__(self, command: StartMap, started: int) -> None:
        self.command, self.started = command, started
        self.ended = 0

    def wait(self) -> dict[str, Any]:
        left = len(self.command.inputs) - self.ended
        return {
            "kind": "children",
            "step": self.command.id,
            "open": left,
            "of": len(self.command.inputs),
        }

    def room(self, children: list[ChildRecord]) -> int:
        """Say how many more children may be started with the next commit."""
        self.ended = sum(child.status in FINAL for child in children)
        return self.startable()

    def startable(self) -> int:
        """Return how many more children may be started with the next commit, by what is known of
        those that ended."""
        left = min(len(self.command.inputs) - self.started, PORTION)
        limit = self.command.max_parallel
        return left if limit is None else max(min(left, limit - (self.started - self.ended)), 0)

    def instant(self, children: list[ChildRecord]) -> int | None:
        """Return when the outcome was certain; None while it is not."""
        failed = self._failed(children)
        if failed and self.command.fail_fast:
            return min(map(ended_at, failed))
        ended = [child for child in children if child.status in FINAL]
        return max(map(ended_at, ended)) if len(ended) == len(self.command.inputs) else None

    def _failed(self, children: list[ChildRecord]) -> list[ChildRecord]:
        return [
            child
            for child in children
            if child.status in FINAL and child.status is not Status.COMPLETED
        ]

    def outcome(self, children: list[ChildRecord], opened: Opened) -> Event:
        """Return what the children came to, now that this is certain."""
        self.ended = sum(child.status in FINAL for child in children)
        failed = self._failed(children)
        if failed and self.command.fail_fast:
            ends = [_end(child) for child in opened([min(failed, key=ended_at)])]
        else:
            ends = [
                _end(child)
                for child in opened(sorted(children, key=lambda child: child.parent_index or 0))
            ]
        error = next((bytes(failure) for _, _, failure in ends if failure is not None), None)
        return Event(
            EventKind.MAP_ENDED, self.command.id, data=msgspec.json.encode(ends), error=error
        )


def ended_at(child: ChildRecord) -> int:
    """Return when a child ended."""
    return child.finished_at or 0


def _end(child: ChildRecord) -> tuple[str, msgspec.Raw | None, msgspec.Raw | None]:
    error = _error(child)
    return (
        child.id,
        None if child.result is None else msgspec.Raw(child.result),
        None if error is None else msgspec.Raw(error),
    )


def _error(child: ChildRecord) -> bytes | None:
    if child.status is Status.COMPLETED:
        return None
    return child.error or msgspec.json.encode(
        {"type": child.status.value, "message": f"the run is {child.status.value}"}
    )


Pending = (
    PendingStep
    | PendingTimer
    | PendingSignal
    | PendingCondition
    | PendingGate
    | PendingChild
    | PendingMap
    | PendingChildren
    | PendingSpend
)


def until(want: Pending) -> int | None:
    """Return when this is over, or tried again, by the mere passing of time."""
    if isinstance(want, PendingCondition):
        return want.due
    if isinstance(want, PendingTimer | PendingSignal | PendingGate):
        return want.until
    return want.again_at if isinstance(want, PendingStep) else None
