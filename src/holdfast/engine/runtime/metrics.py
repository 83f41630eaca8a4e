"""Metrics: plain numbers that the engine always keeps, about the work of this process.

They count facts: a step or a run is counted after the commit that records it. Keeping them costs a
step one call and a few additions. A collector (``holdfast.server.metrics``) turns them into the
format of a monitoring system.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from holdfast.core.events import Event, EventKind
from holdfast.core.runs import RunRecord
from holdfast.core.trace_context import RunTracing

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""The upper bounds of the buckets of a histogram of seconds."""

SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
"""The upper bounds of the buckets of a histogram of numbers."""

MOST_WORKFLOWS = 200
"""The number of workflows of all namespaces that are counted by name; the others are counted
together."""

MOST_STEPS = 2000
"""The number of steps that are counted by name; the others are counted together."""

OTHER = "other"

_STEP_OUTCOMES = {
    EventKind.STEP_COMPLETED: "completed",
    EventKind.STEP_FAILED: "failed",
    EventKind.STEP_RETRIED: "retried",
}
_RUN_OUTCOMES = {
    EventKind.RUN_COMPLETED: "completed",
    EventKind.RUN_FAILED: "failed",
    EventKind.RUN_CANCELLED: "cancelled",
    EventKind.RUN_EXPIRED: "expired",
    EventKind.RUN_STUCK: "stuck",
}


class Histogram:
    """Counts of values by bucket. The last bucket has no bound."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self.bounds: Sequence[float] = bounds
        self.counts: list[int] = [0] * (len(bounds) + 1)
        self.total: float = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


CommitObserver = Callable[[RunRecord, Sequence[Event]], None]
"""Called with a run and the events of it that were just committed."""


class EngineMetrics:
    """The numbers of one engine. They only grow."""

    __slots__ = (
        "_known",
        "_workflows",
        "commit_seconds",
        "commit_size",
        "leaving",
        "observers",
        "runs_ended",
        "start_to_first_step",
        "step_seconds",
        "steps",
        "takeovers",
        "tracing",
    )

    def __init__(self) -> None:
        self.steps: dict[tuple[str, str, str, str], int] = {}
        """The number of attempts that ended, by namespace, workflow, step and outcome."""
        self.step_seconds: dict[tuple[str, str, str], Histogram] = {}
        """The durations of attempts, by namespace, workflow and step."""
        self.runs_ended: dict[tuple[str, str, str], int] = {}
        """The number of runs that ended or got stuck, by namespace, workflow and outcome."""
        self.start_to_first_step: Histogram = Histogram()
        self.commit_seconds: Histogram = Histogram()
        self.commit_size: Histogram = Histogram(SIZES)
        self.takeovers: int = 0
        """The number of runs that were taken over from lost workers."""
        self.observers: list[CommitObserver] = []
        """Called after each commit of a run."""
        self.leaving: list[Callable[[RunRecord], None]] = []
        """Called when a run leaves the memory of this process."""
        self.tracing: RunTracing | None = None
        """The tracing of the runs; None if nothing is traced."""
        self._known: set[tuple[str, str, str]] = set()
        self._workflows: set[tuple[str, str]] = set()

    def count_commit(self, seconds: float, size: int) -> None:
        """Count a commit of *size* operations. Each step in sequence pays for this."""
        histogram = self.commit_seconds
        histogram.counts[0 if seconds <= SECONDS[0] else bisect_left(SECONDS, seconds)] += 1
        histogram.total += seconds
        histogram = self.commit_size
        histogram.counts[0 if size == 1 else bisect_left(SIZES, size)] += 1
        histogram.total += size

    def committed(self, run: RunRecord, events: Sequence[Event]) -> None:
        """Count the events of a run that were committed."""
        for event in events:
            kind = event.kind
            if kind in _STEP_OUTCOMES:
                self.count_step(run, event, _STEP_OUTCOMES[kind])
            elif kind in _RUN_OUTCOMES:
                key = (*self._workflow(run), _RUN_OUTCOMES[kind])
                self.runs_ended[key] = self.runs_ended.get(key, 0) + 1
        if self.observers:
            self.report(run, events)

    def report(self, run: RunRecord, events: Sequence[Event]) -> None:
        """Report the events of a run that were committed to the observers."""
        for observer in self.observers:
            observer(run, events)

    def count_step(self, run: RunRecord, event: Event, outcome: str) -> None:
        """Count an attempt whose outcome was committed."""
        name = event.step or ""
        if "/" in name:
            name = name.rpartition("/")[2]
        if "#" in name:
            name = name.partition("#")[0]
        place = (run.namespace, run.workflow, name)
        if place not in self.step_seconds:
            # Names may be made up by programs without end, so only so many are kept apart.
            place = self._place(run, name)
            self.step_seconds.setdefault(place, Histogram())
        key = (*place, outcome)
        try:
            # The key is missing once; a lookup with a default would cost every step a call.
            self.steps[key] += 1
        except KeyError:
            self.steps[key] = 1
        if event.started_at is None:
            return
        seconds = (event.at - event.started_at) / 1_000_000
        histogram = self.step_seconds[place]
        # Written out, because every step is counted: most take less than the first bound.
        histogram.counts[0 if seconds <= SECONDS[0] else bisect_left(SECONDS, seconds)] += 1
        histogram.total += seconds
        if event.seq == 1:
            self.start_to_first_step.observe((event.started_at - run.created_at) / 1_000_000)

    def _place(self, run: RunRecord, step: str) -> tuple[str, str, str]:
        """Return the names under which a step is counted that is counted for the first time."""
        namespace, workflow = self._workflow(run)
        place = (namespace, workflow, step)
        if place not in self._known and len(self._known) >= MOST_STEPS:
            return namespace, workflow, OTHER
        self._known.add(place)
        return place

    def _workflow(self, run: RunRecord) -> tuple[str, str]:
        """Return the namespace and the workflow under which a run is counted."""
        names = (run.namespace, run.workflow)
        if names not in self._workflows and len(self._workflows) >= MOST_WORKFLOWS:
            return OTHER, OTHER
        self._workflows.add(names)
        return names
