"""The shape of conditions, and how a condition sees signals."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Protocol

import msgspec


class SignalNamed(msgspec.Struct, frozen=True, tag="signal", omit_defaults=True):
    """A signal of that name to the run, with this in its payload."""

    name: str
    payload: dict[str, Any] | None = None


class SignalToWait(msgspec.Struct, frozen=True, tag="wait", omit_defaults=True):
    """A signal to a wait that was handed out, of any name unless one is given. ``step`` made it,
    ``until`` it is open."""

    wait: str
    step: str
    label: str
    until: int | None = None
    name: str | None = None
    payload: dict[str, Any] | None = None


class AllOf(msgspec.Struct, frozen=True, tag="all_of"):
    """All of these."""

    of: tuple[Condition, ...]


class AnyOf(msgspec.Struct, frozen=True, tag="any_of"):
    """One of these."""

    of: tuple[Condition, ...]


class Count(msgspec.Struct, frozen=True, tag="count"):
    """So many: of the signals that match, of those who sent them, or of the conditions that are
    met."""

    n: int
    of: tuple[Condition, ...]
    distinct: str = "signals"


Leaf = SignalNamed | SignalToWait


Condition = SignalNamed | SignalToWait | AllOf | AnyOf | Count


class SignalEffect(StrEnum):
    """What a signal came to when it was delivered."""

    SATISFIED = "satisfied"
    """What the run waited for is whole with it."""
    KEPT = "kept"
    """It counts, or lies there until something waits for it."""
    DUPLICATE = "duplicate"
    """It matches, but what it stands for has been counted already."""
    IGNORED = "ignored"
    """The run waits for something of the kind, but this does not match."""


class SignalView(Protocol):
    """A signal, as far as conditions care."""

    name: str
    wait_id: str | None
    source: str | None
