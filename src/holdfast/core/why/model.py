"""Why a run does not move: the exact blocker, its holder, since when, until when, and the command
that unblocks it. Pure.

Each status has its own function. What a run that nobody holds needs to be claimed is the same for
all of them: ``claiming``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.core import duration
from holdfast.core.events import Event
from holdfast.core.gates.model import Gate, GateEntry
from holdfast.core.runs import RunRecord
from holdfast.core.sessions import Lane
from holdfast.core.waits import Signal
from holdfast.core.why.workers import WorkerView


class Blocker(msgspec.Struct, kw_only=True):
    """One thing that a run waits for, in words and as data. Times are microseconds since 1970."""

    kind: str
    text: str
    holder: str | None = None
    since: int | None = None
    until: int | None = None
    remedy: str | None = None


class Why(msgspec.Struct, kw_only=True):
    """Where a run stands, what holds it up, and what would make it go on."""

    run: str
    workflow: str
    status: str
    reason: str
    since: int | None = None
    blockers: list[Blocker] = []
    remedy: str | None = None


class LanePlace(msgspec.Struct):
    """A run that takes a place in a lane, and who works on it."""

    run: str
    worker: str
    since: int | None = None
    share: str | None = None


class RunFacts(msgspec.Struct, kw_only=True):
    """All that an explanation is made of. ``children`` are the open children that a wait waits for,
    by its step."""

    now: int
    run: RunRecord
    history: Sequence[Event]
    workers: Sequence[WorkerView]
    waits: Sequence[Mapping[str, Any]] = ()
    lane: Lane | None = None
    share_free_at: int = 0
    """When the rate of its lane lets one more run of its share begin."""
    slots: Sequence[LanePlace] = ()
    signals: frozenset[str] = frozenset()
    heard: Sequence[Signal] = ()
    """All signals that no wait has taken."""
    leased: bool = False
    """Whether it is worked on by programs that lease it, as far as can be seen."""
    children: Mapping[str, Sequence[Why]] = {}
    gates: Mapping[str, tuple[Gate, Sequence[GateEntry]]] = {}
    """The gates that it waits for, by their ids, with what was done to them."""


def told(
    facts: RunFacts, blockers: list[Blocker], reason: str | None = None, since: int | None = None
) -> Why:
    """Return the explanation that these blockers make; the first one leads."""
    run = facts.run
    remedy = next((blocker.remedy for blocker in blockers if blocker.remedy is not None), None)
    reason = blockers[0].text if reason is None else reason
    return Why(
        run=run.id,
        workflow=run.workflow,
        status=run.status.value,
        reason=reason,
        since=since,
        blockers=blockers,
        remedy=remedy,
    )


def holder_of(facts: RunFacts) -> WorkerView | None:
    """Return the worker that holds the run."""
    return next((seen for seen in facts.workers if seen.session.id == facts.run.session_id), None)


def last_at(facts: RunFacts) -> int:
    """Return when something last happened to the run."""
    return facts.history[-1].at if facts.history else facts.run.started_at or facts.run.created_at


def moment(instant: int) -> str:
    """Write an instant for people."""
    whole = datetime.fromtimestamp(instant // 1_000_000, UTC)
    return f"{whole:%Y-%m-%d %H:%M:%S} UTC"


def until(instant: int, now: int) -> str:
    """Write an instant and how far away it is."""
    return f"{moment(instant)} ({away(instant, now)})"


def away(instant: int, now: int) -> str:
    """Write how far away an instant is, in the future or the past."""
    far = instant - now
    return f"in {brief(far)}" if far >= 0 else f"{brief(-far)} ago"


def brief(micros: int) -> str:
    """Write a duration for people who do not care for microseconds."""
    if micros >= 1_000_000:
        micros -= micros % (1_000_000 if micros >= 10_000_000 else 1000)
    elif micros >= 1000:
        micros -= micros % 1000
    return duration.show(micros) if micros >= 1000 or micros == 0 else "<1ms"
