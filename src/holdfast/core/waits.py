"""The stored records of signals and waits."""

from __future__ import annotations

from enum import StrEnum

import msgspec

MOST_SIGNALS = 10_000
"""The default limit of signals that a run may have had."""


class WaitKind(StrEnum):
    """The kinds of things that a parked run waits for; each wait in its row has one."""

    TIMER = "timer"
    RETRY = "retry"
    SIGNAL = "signal"
    CONDITION = "wait"
    GATE = "gate"
    CHILD = "child"
    CHILDREN = "children"
    CHILDREN_END = "children_end"
    BUDGET = "budget"
    MESSAGE = "message"
    BROADCAST = "broadcast"
    INCIDENT = "incident"
    OTHERS = "others"
    """Further waits of one kind that the row does not list."""


INCIDENT = "incident"
"""The name of the wait of an incident; its reason is the element."""


class Signal(msgspec.Struct):
    """A message to a run, or to one of its waits; ``number`` counts the signals of the run.

    A signal with a ``step`` is the release by an operator of the wait of that step. ``key``,
    ``taken`` and ``effect`` are set only where a signal moves with its run to another store."""

    id: int
    name: str
    payload: bytes
    at: int
    key: str | None = None
    taken: bool = False
    number: int = 0
    wait_id: str | None = None
    source: str | None = None
    step: str | None = None
    effect: str | None = None

    @property
    def is_release(self) -> bool:
        """Whether an operator releases a wait with it, whatever its name."""
        return self.step is not None


class WaitCursor(msgspec.Struct, frozen=True, array_like=True):
    """The place of a wait in a list: ``due`` is its timeout or, in a list of escalated waits, the
    instant of its escalation."""

    due: int
    opened_at: int
    run_id: str
    step: str


class WaitRecord(msgspec.Struct, kw_only=True):
    """A wait of a run. A wait with an ``id`` was issued: the bearer of its token may deliver
    signals to it until ``until``. A wait without an ``id`` is a condition on which the code of the
    run waits, in the step ``step``. A suspension may have a ``reason``, and ``asked_by``, the one
    who asked for it."""

    run_id: str
    step: str
    id: str | None
    name: str
    kid: str | None = None
    opened_at: int
    until: int | None = None
    escalated_at: int | None = None
    closed_at: int | None = None
    closed_by: str | None = None
    reason: str | None = None
    asked_by: str | None = None
