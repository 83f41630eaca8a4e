"""Messages between runs: the offer of a sender, and its outcome. Times are microseconds."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import StrEnum

import msgspec

DELIVERY = "message"
"""The name of the signal by which a message or a broadcast reaches the step that waits for it."""

INSTRUCTION = "(instruction)"
"""The step to which instructions of operators are addressed; no command has this identity."""

REMEMBERED = 30 * 86_400_000_000
"""How long the id of a message is remembered, at least, to recognise its repetition."""

RETURNED = 86_400_000_000
"""How long a message is kept whose receiver was dropped before it took the message."""


class MessageKind(StrEnum):
    """Who gets it: one receiver, or all that wait."""

    MESSAGE = "message"
    SIGNAL = "signal"


class MessageEffect(StrEnum):
    """The outcome of a message."""

    RECEIVED = "received"
    STARTED = "started"
    KEPT = "kept"
    DUPLICATE = "duplicate"
    LOST = "lost"


class Delivered(msgspec.Struct):
    """The outcome of a message; ``run_id`` and ``element`` are those of the receiver."""

    effect: MessageEffect
    run_id: str | None = None
    element: str | None = None


class MessageSubscription(msgspec.Struct, kw_only=True):
    """A step of a run that waits for a message or a broadcast."""

    run_id: str
    step: str
    namespace: str
    kind: str
    name: str
    key: str | None = None
    element: str = ""
    since: int = 0


class StartSubscription(msgspec.Struct, kw_only=True):
    """A start event of the version of a definition that new runs use."""

    namespace: str
    process: str
    version: str
    kind: str
    name: str
    element: str


def element_of(step: str) -> str:
    """Return the element of a model that a step belongs to: its activations are numbered."""
    for mark in "#:!":
        step = step.partition(mark)[0]
    return step


def lock_names(namespace: str, name: str, key: str | None, *, sends: bool) -> Sequence[str]:
    """Return the names that a sender or receiver locks first, so that the two never miss each
    other. A message with a key may go to a receiver without one."""
    names = [f"{namespace}\n{name}\n{key or ''}"]
    if sends and key is not None:
        names.append(f"{namespace}\n{name}\n")
    return names


def lock_number(name: str) -> int:
    """Return the number of an advisory lock for a name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
