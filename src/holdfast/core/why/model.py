"""The explanation of a run that does not progress: each blocker with its holder, since when, until
when, and the command that unblocks it. Pure.

Each status has its own function in ``explain``. The needs of a run without a holder are the same
for all of them: they are in ``claim``.
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
from holdfast.core.why.workers import WorkerFacts


class Blocker(msgspec.Struct, kw_only=True):
    """One cause of waiting, as a text and as data. Times are microseconds since 1970."""

    kind: str
    text: str
    holder: str | None = None
    since: int | None = None
    until: int | None = None
    remedy: str | None = None


class Why(msgspec.Struct, kw_only=True):
    """Where a run stands, its blockers, and the command (``remedy``) that lets it continue."""

    run: str
    workflow: str
    status: str
    reason: str
    since: int | None = None
    blockers: list[Blocker] = []
    remedy: str | None = None


class LanePlace(msgspec.Struct):
    """A run that takes a place in a lane, and the worker that holds it."""

    run: str
    worker: str
    since: int | None = None
    share: str | None = None


class RunFacts(msgspec.Struct, kw_only=True):
    """The input of an explanation. ``children`` are the open children of each wait, by its
    step."""

    now: int
    run: RunRecord
    history: Sequence[Event]
    workers: Sequence[WorkerFacts]
    waits: Sequence[Mapping[str, Any]] = ()
    lane: Lane | None = None
    share_free_at: int = 0
    """The time from which the rate of its lane admits another run of its share."""
    slots: Sequence[LanePlace] = ()
    signals: frozenset[str] = frozenset()
    received: Sequence[Signal] = ()
    """All signals that no wait has consumed."""
    leased: bool = False
    """Whether remote workers lease runs like this one, as far as the store can tell."""
    handlers: Sequence[str] | None = None
    """The tasks for which a worker of the run's model needs handlers; None if it has no model."""
    external: frozenset[str] = frozenset()
    """The children that are external tasks of a model, by id."""
    children: Mapping[str, Sequence[Why]] = {}
    gates: Mapping[str, tuple[Gate, Sequence[GateEntry]]] = {}
    """The gates that the run waits for, by id, each with its entries."""


def explanation(
    facts: RunFacts, blockers: list[Blocker], reason: str | None = None, since: int | None = None
) -> Why:
    """Return the explanation with these blockers. The first blocker gives the reason, unless
    *reason* is given; the first remedy of a blocker is the remedy."""
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


def holder_of(facts: RunFacts) -> WorkerFacts | None:
    """Return the worker that holds the run; None if its session does not exist."""
    return next(
        (worker for worker in facts.workers if worker.session.id == facts.run.session_id), None
    )


def last_at(facts: RunFacts) -> int:
    """Return the time of the last event of the run, or of its start."""
    if facts.history:
        return facts.history[-1].at
    return facts.run.started_at or facts.run.created_at


def moment(instant: int) -> str:
    """Format an instant for people, in UTC, to the second."""
    to_the_second = datetime.fromtimestamp(instant // 1_000_000, UTC)
    return f"{to_the_second:%Y-%m-%d %H:%M:%S} UTC"


def until(instant: int, now: int) -> str:
    """Format an instant and its distance from *now*."""
    return f"{moment(instant)} ({away(instant, now)})"


def away(instant: int, now: int) -> str:
    """Format the distance of an instant from *now*, as in ``in 5s`` or ``5s ago``."""
    distance = instant - now
    if distance >= 0:
        return f"in {brief(distance)}"
    return f"{brief(-distance)} ago"


def brief(micros: int) -> str:
    """Format a duration for people, rounded down to milliseconds, from ten seconds on to
    seconds."""
    if micros >= 1_000_000:
        micros -= micros % (1_000_000 if micros >= 10_000_000 else 1000)
    elif micros >= 1000:
        micros -= micros % 1000
    if micros >= 1000 or micros == 0:
        return duration.show(micros)
    return "<1ms"
