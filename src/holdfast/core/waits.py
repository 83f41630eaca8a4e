"""Signals and waits, as they are stored."""

from __future__ import annotations

import msgspec


class Signal(msgspec.Struct):
    """A message to a run, or to one of its waits; ``number`` counts the signals of the run. One
    with a ``step`` is a person's: it lets the wait of that step go. ``key``, ``taken`` and
    ``effect`` are told only where a signal moves with its run."""

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


class WaitRecord(msgspec.Struct, kw_only=True):
    """Something that a run waits for, or will. One with an ``id`` was handed out: whoever has its
    token may deliver signals to it until ``until``. One without is what the run's code waits for,
    by the step that does."""

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
