"""Condition trees over signals, and the view of a signal that they are evaluated against.

The tags and fields are stored as JSON in the history of runs.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Protocol

import msgspec


class SignalNamed(msgspec.Struct, frozen=True, tag="signal", omit_defaults=True):
    """Wait for a signal to the run with this name and, if *payload* is given, with at least these
    fields in its payload."""

    name: str
    payload: dict[str, Any] | None = None


class SignalToWait(msgspec.Struct, frozen=True, tag="wait", omit_defaults=True):
    """Wait for a signal to an issued wait: one that was created and whose id was given to another
    program.

    ``step`` is the step that created the wait, ``until`` the instant at which the wait expires. A
    signal of any name counts, unless ``name`` is given.
    """

    wait: str
    step: str
    label: str
    until: int | None = None
    name: str | None = None
    payload: dict[str, Any] | None = None


class AnySignal(msgspec.Struct, frozen=True, tag="any_signal", omit_defaults=True):
    """Wait for a signal to the run, whatever its name; with *payload*, for one that has at least
    these fields. Signals to issued waits do not count."""

    payload: dict[str, Any] | None = None

    @property
    def name(self) -> None:
        """Any name."""
        return


class ReleaseOnly(msgspec.Struct, frozen=True, tag="release"):
    """Wait for an operator: no signal ends the wait."""

    @property
    def name(self) -> None:
        """No name."""
        return

    @property
    def payload(self) -> None:
        """No payload."""
        return


class AllOf(msgspec.Struct, frozen=True, tag="all_of"):
    """Wait until all members are met."""

    of: tuple[Condition, ...]


class AnyOf(msgspec.Struct, frozen=True, tag="any_of"):
    """Wait until one member is met."""

    of: tuple[Condition, ...]


class Count(msgspec.Struct, frozen=True, tag="count"):
    """Wait until *n* are reached, counted as ``distinct`` says: matching signals ("signals"),
    senders of matching signals ("sources"), or members that are met ("waits")."""

    n: int
    of: tuple[Condition, ...]
    distinct: str = "signals"


Leaf = SignalNamed | SignalToWait | AnySignal | ReleaseOnly


Condition = SignalNamed | SignalToWait | AnySignal | ReleaseOnly | AllOf | AnyOf | Count


class OnTimeout(StrEnum):
    """What happens when a wait has taken too long."""

    CONTINUE = "continue"
    FAIL = "fail"
    CANCEL = "cancel"
    EXPIRE = "expire"
    ESCALATE = "escalate"


ON_TIMEOUT = tuple(choice.value for choice in OnTimeout)
"""The words that users write for ``OnTimeout``."""


class SignalEffect(StrEnum):
    """The effect of a signal at its delivery."""

    SATISFIED = "satisfied"
    """The signal completes the condition that the run waits for."""
    KEPT = "kept"
    """The signal counts towards the condition, or is kept until a wait takes it."""
    DUPLICATE = "duplicate"
    """The signal matches, but its source, or the part that it would meet, is counted already."""
    IGNORED = "ignored"
    """The signal is addressed to the condition, but does not match it."""


class SignalView(Protocol):
    """The attributes of a signal that conditions read."""

    name: str
    wait_id: str | None
    source: str | None
