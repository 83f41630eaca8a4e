"""Queries for monitoring: numbers of live runs, and how runs ended lately. None counts all finished
runs, and damaged rows are left out."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.claiming import PRIORITY_STEP
from holdfast.core.events import EventKind
from holdfast.store.reader import Reader

MINUTE = 60_000_000
"""Microseconds of a minute."""

NEWEST = 10_000
"""The number of events in which outcomes are looked for."""

_OUTCOMES = {
    EventKind.RUN_COMPLETED: "completed",
    EventKind.RUN_FAILED: "failed",
    EventKind.RUN_CANCELLED: "cancelled",
    EventKind.RUN_EXPIRED: "expired",
}


class ReadyRun(NamedTuple):
    """The run that is claimed next of a lane in a namespace, and since when it is ready."""

    namespace: str
    lane: str
    run_id: str
    since: int


class RecentOutcomes(NamedTuple):
    """How runs ended lately: their number by minute and outcome. A minute is the number of minutes
    since 1970. All ends after ``since`` are counted."""

    since: int
    runs: dict[int, dict[str, int]]


class RunGauges:
    """Queries for monitoring."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def live(self) -> dict[tuple[str, str], int]:
        """Return the number of live runs, by namespace and status."""
        rows, _ = self._reader.sound_rows("live_counts")
        return {(row["namespace"], row["status"]): row["runs"] for row in rows}

    def oldest_ready(self) -> list[ReadyRun]:
        """Return the run that is claimed next of each lane and namespace, longest ready first. A
        lane without claimable runs is left out."""
        oldest: dict[tuple[str, str], ReadyRun] = {}
        for row in self._reader.sound_rows("oldest_ready", priority_step=PRIORITY_STEP)[0]:
            run = ReadyRun(**dict(row))
            place = (run.namespace, run.lane)
            if place not in oldest or run.since < oldest[place].since:
                oldest[place] = run
        return sorted(oldest.values(), key=lambda run: run.since)

    def oldest_by_lane(self) -> dict[str, int]:
        """Return, by lane, since when the run that is claimed next has been ready."""
        # The first one of a lane is the oldest; the last one written stays.
        return {run.lane: run.since for run in reversed(self.oldest_ready())}

    def outcomes(
        self, since: int, namespace: str | None = None, *, newest: int = NEWEST
    ) -> RecentOutcomes:
        """Return how runs ended since an instant, as far as the *newest* events tell."""
        before, _ = self._reader.sound_rows("event_before_newest", limit=newest)
        if before:
            since = max(since, before[0]["at"])
        rows, _ = self._reader.sound_rows(
            "recent_outcomes", since=since, namespace=namespace, limit=newest
        )
        runs: dict[int, dict[str, int]] = {}
        for row in rows:
            runs.setdefault(row["minute"], {})[_OUTCOMES[row["kind"]]] = row["runs"]
        return RecentOutcomes(since, runs)
