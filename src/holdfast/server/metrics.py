"""Metrics for Prometheus: the numbers of an engine, and the state of its database.

``EngineCollector`` can be registered in the registry of a program; ``/metrics`` of the server has
one of its own. Labels never name a run. The state of the database is read at most once per second.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from holdfast.connect.async_engine import AsyncEngine
from holdfast.connect.blocking.engine import Engine
from holdfast.connect.components import Components
from holdfast.connect.gauges import gauges
from holdfast.engine.runtime.metrics import EngineMetrics, Histogram
from holdfast.errors import EngineClosed, HoldfastError
from holdfast.views.gauges import GaugesView

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

FRESH = 1.0
"""Seconds for which the state of the database is not read again."""

HTTP_SECONDS: dict[tuple[str, str], Histogram] = {}
"""The durations of the requests that this process has answered, by route and status."""


def observe_request(route: str, status: int, seconds: float) -> None:
    """Count an answered request. *route* is the pattern of its path, never the path."""
    key = (route, str(status))
    histogram = HTTP_SECONDS.get(key)
    if histogram is None:
        histogram = HTTP_SECONDS.setdefault(key, Histogram())
    histogram.observe(seconds)


class EngineCollector(Collector):
    """Collects the metrics of one engine, for the registry of a program."""

    def __init__(self, engine: Engine | AsyncEngine) -> None:
        self._engine: Engine | AsyncEngine = engine

    def describe(self) -> list[Metric]:
        """Return nothing: the metrics have no conflicting names, and the database need not be
        reachable when the collector is registered."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics; only ``holdfast_up`` 0 if the database cannot be opened."""
        try:
            parts = self._engine._calls.open()
        except HoldfastError:
            yield _gauge("up", "Whether the database can be read.", 0)
            return
        yield from families(parts)


class _PartsCollector(Collector):
    def __init__(self, parts: Components) -> None:
        self._parts: Components = parts

    def collect(self) -> Iterable[Metric]:
        return families(self._parts)


def page(parts: Components) -> bytes:
    """Return the metrics of an engine as Prometheus reads them. This blocks."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_PartsCollector(parts))
    return generate_latest(registry)


def families(parts: Components) -> Iterable[Metric]:
    """Yield the metrics of an engine. If the database cannot be read, only the numbers of this
    process, and ``holdfast_up`` 0."""
    yield from _work(parts.writer.metrics)
    try:
        state = _recent_gauges(parts)
    except HoldfastError:
        yield _gauge("up", "Whether the database can be read.", 0)
        return
    yield _gauge("up", "Whether the database can be read.", 1)
    yield from _state(state)


_read: WeakKeyDictionary[Components, tuple[float, GaugesView]] = WeakKeyDictionary()
"""The state of each database as it was read last, and when."""


def _recent_gauges(parts: Components) -> GaugesView:
    if parts.closed:
        raise EngineClosed
    at, state = _read.get(parts, (0.0, None))
    if state is None or time.monotonic() - at >= FRESH:
        state = gauges(parts)
        _read[parts] = (time.monotonic(), state)
    return state


def _work(numbers: EngineMetrics) -> Iterable[Metric]:
    yield _counter(
        "steps",
        "Attempts at steps that ended in this process.",
        ("namespace", "workflow", "step", "outcome"),
        numbers.steps,
    )
    yield _counter(
        "runs_ended",
        "Runs that ended or got stuck in this process.",
        ("namespace", "workflow", "outcome"),
        numbers.runs_ended,
    )
    yield _counter(
        "takeovers",
        "Runs that this process took over from lost workers.",
        (),
        {(): numbers.takeovers},
    )
    yield _histogram(
        "step_seconds",
        "Durations of attempts at steps.",
        ("namespace", "workflow", "step"),
        numbers.step_seconds,
    )
    yield _histogram(
        "start_to_first_step_seconds",
        "Time from the creation of a run to its first step.",
        (),
        {(): numbers.start_to_first_step},
    )
    yield _histogram("commit_seconds", "Durations of commits.", (), {(): numbers.commit_seconds})
    yield _histogram(
        "commit_size", "Operations that share a commit.", (), {(): numbers.commit_size}
    )
    yield _histogram("http_seconds", "Durations of requests.", ("route", "status"), HTTP_SECONDS)


def _state(state: GaugesView) -> Iterable[Metric]:
    yield _gauges_by("runs", "Live runs.", ("namespace", "status"), state.runs)
    yield _gauges_by(
        "ready_oldest_seconds",
        "How long the run that is claimed next has been ready.",
        ("namespace", "lane"),
        state.ready_oldest,
    )
    yield _gauges_of("workers", "Workers.", "state", state.workers)
    yield _gauges_by(
        "gates",
        "Gates that wait for a decision.",
        ("namespace", "state"),
        {(namespace, "open"): gates for namespace, gates in state.open_gates.items()},
    )
    used = {lane: pair[0] for lane, pair in state.lanes.items()}
    yield _gauges_of("lane_used", "Runs that a lane executes.", "lane", used)
    limits = {lane: pair[1] for lane, pair in state.lanes.items() if pair[1] is not None}
    yield _gauges_of("lane_limit", "How many runs a lane executes at most.", "lane", limits)
    yield _gauges_by(
        "budget_used_ratio",
        "The used share of a hard limit.",
        ("budget", "dimension"),
        {
            (name, dimension): share
            for name, lines in state.budgets.items()
            for dimension, share in lines.items()
        },
    )
    yield _gauges_by(
        "schedule_late_seconds",
        "How late a schedule is.",
        ("namespace", "schedule"),
        state.schedules_late,
    )
    yield _gauges_of(
        "webhook_lag_seconds",
        "The age of the first event that a webhook has not delivered.",
        "webhook",
        state.webhooks_lag,
    )
    yield _counter(
        "webhook_dead",
        "Events that a webhook could not deliver.",
        ("webhook",),
        {(name,): count for name, count in state.dead_letters.items()},
    )
    if state.database_size is not None:
        yield _gauge("database_bytes", "The size of the database.", state.database_size)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"holdfast_{name}", text, value=value)


def _gauges_of(name: str, text: str, label: str, values: Mapping[str, float | None]) -> Metric:
    known = {(key,): value for key, value in values.items() if value is not None}
    return _gauges_by(name, text, (label,), known)


def _gauges_by(
    name: str, text: str, labels: tuple[str, ...], values: Mapping[Any, float]
) -> Metric:
    family = GaugeMetricFamily(f"holdfast_{name}", text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _counter(name: str, text: str, labels: tuple[str, ...], values: Mapping[Any, float]) -> Metric:
    family = CounterMetricFamily(f"holdfast_{name}", text, labels=labels)
    for key, value in list(values.items()):
        family.add_metric(key, value)
    return family


def _histogram(
    name: str, text: str, labels: tuple[str, ...], values: Mapping[Any, Histogram]
) -> Metric:
    family = HistogramMetricFamily(f"holdfast_{name}", text, labels=labels)
    for key, histogram in list(values.items()):
        total = 0
        buckets = []
        for bound, count in zip((*histogram.bounds, "+Inf"), list(histogram.counts), strict=True):
            total += count
            buckets.append((str(bound), total))
        family.add_metric(key, buckets, histogram.total)
    return family
