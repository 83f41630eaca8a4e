"""Traces and metrics for OpenTelemetry (`holdfast[otel]`).

Spans are exported after the commits that record them: an attempt at a step, an execution of a run
(from its lease until it leaves memory), and the run itself when it has ended. Their ids are derived
from the run, so that a span can have a parent that is exported later, in another process. While a
run waits there is no open span: an execution is linked to the one before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from holdfast.connect.async_engine import AsyncEngine
from holdfast.connect.blocking.engine import Engine
from holdfast.connect.components import Components
from holdfast.core import trace_context
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import RunRecord
from holdfast.core.step_info import StepInfo
from holdfast.engine.runtime.metrics import EngineMetrics

WORKFLOW = "workflow.name"
RUN = "holdfast.run.id"
STEP = "holdfast.step"
ATTEMPT = "holdfast.attempt"
GENERATION = "holdfast.generation"
OUTCOME = "holdfast.outcome"
NAMESPACE = "holdfast.namespace"

_ATTEMPTS = {
    EventKind.STEP_COMPLETED: "completed",
    EventKind.STEP_FAILED: "failed",
    EventKind.STEP_RETRIED: "retried",
}
_ENDS = {
    EventKind.RUN_COMPLETED: "completed",
    EventKind.RUN_FAILED: "failed",
    EventKind.RUN_CANCELLED: "cancelled",
    EventKind.RUN_EXPIRED: "expired",
}
_PROPAGATOR = TraceContextTextMapPropagator()
_next_ids: ContextVar[tuple[int, int] | None] = ContextVar("holdfast_span_ids", default=None)


def instrument(
    engine: Engine | AsyncEngine, *, tracer_provider: Any = None, meter_provider: Any = None
) -> None:
    """Export the runs of an engine as spans, and its numbers as metrics. Without providers, those
    of the process are used. ``traceparent`` is taken over from the span that starts a run, from
    HTTP requests and by children, and is the current span inside steps."""
    provider = tracer_provider or trace.get_tracer_provider()
    tracer = provider.get_tracer("holdfast")
    if hasattr(
        tracer, "id_generator"
    ):  # the tracer of the SDK; without the SDK nothing is exported
        tracer.id_generator = _DerivedIds(tracer.id_generator)
    parts = engine._calls.open()
    spans = _RunSpans(tracer, parts)
    parts.writer.metrics.observers.append(spans.committed)
    parts.writer.metrics.leaving.append(spans.left)
    parts.writer.metrics.tracing = spans
    trace_context.hooks.here = _here
    trace_context.hooks.incoming = _incoming
    _export_metrics(parts.writer.metrics, meter_provider or metrics.get_meter_provider())


# Identities


def _digest(*words: object) -> bytes:
    return hashlib.sha256("\n".join(str(word) for word in words).encode()).digest()


def _trace_id(run_id: str, parent: SpanContext | None) -> int:
    """Return the id of the trace of a run: that of the span that started it, or a derived one."""
    if parent is not None:
        return parent.trace_id
    return int.from_bytes(_digest("trace", run_id)[:16], "big")


def _span_id(*words: object) -> int:
    return int.from_bytes(_digest(*words)[:8], "big") or 1


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(1))


def _parsed(traceparent: str | None) -> SpanContext | None:
    if traceparent is None:
        return None
    extracted = _PROPAGATOR.extract({"traceparent": traceparent})
    parent = trace.get_current_span(extracted).get_span_context()
    if not parent.is_valid:
        return None
    return parent


def _written(context: SpanContext) -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _here() -> str | None:
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return _written(context)


@contextmanager
def _incoming(traceparent: str) -> Iterator[None]:
    token = otel_context.attach(_PROPAGATOR.extract({"traceparent": traceparent}))
    try:
        yield
    finally:
        otel_context.detach(token)


class _DerivedIds:
    """Gives the spans of Holdfast the ids that are derived for them, and others random ids."""

    def __init__(self, others: Any) -> None:
        self._others: Any = others

    def generate_span_id(self) -> int:
        ids = _next_ids.get()
        return int(self._others.generate_span_id()) if ids is None else ids[1]

    def generate_trace_id(self) -> int:
        ids = _next_ids.get()
        return int(self._others.generate_trace_id()) if ids is None else ids[0]

    def is_trace_id_random(self) -> bool:
        return False


# Spans


class _Execution:
    """An execution of a run in this process."""

    def __init__(self, run: RunRecord, trace_id: int, parent: SpanContext | None) -> None:
        self.run: RunRecord = run
        self.trace_id: int = trace_id
        self.parent: SpanContext | None = parent
        self.start: int | None = None
        self.end: int = 0
        self.outcome: str = "left"

    def span_id(self, generation: int) -> int:
        return _span_id("execution", self.run.id, generation)


class _RunSpans:
    """Exports the spans of one engine."""

    def __init__(self, tracer: Any, parts: Components) -> None:
        self._tracer: Any = tracer
        self._parts: Components = parts
        self._executions: dict[str, _Execution] = {}

    def committed(self, run: RunRecord, events: Sequence[Event]) -> None:
        """Export the attempts and the end that a commit records."""
        execution = self._execution(run)
        for event in events:
            start = event.at if event.started_at is None else event.started_at
            if execution.start is None:
                execution.start = start
            execution.end = max(execution.end, event.at)
            if event.kind in _ATTEMPTS:
                self._export_attempt(execution, event, start)
            elif event.kind in _ENDS:
                execution.outcome = _ENDS[event.kind]
                self._export_run(execution, event)

    def left(self, run: RunRecord) -> None:
        """Export an execution whose run leaves the memory of this process."""
        execution = self._executions.pop(run.id, None)
        if execution is None or execution.start is None:
            return
        links = []
        if run.generation > 1:
            before = execution.span_id(run.generation - 1)
            links.append(Link(_context(execution.trace_id, before)))
        self._export(
            f"execute {run.workflow}",
            execution,
            span_id=execution.span_id(run.generation),
            parent_id=_span_id("run", run.id),
            times=(execution.start, execution.end),
            attributes={GENERATION: run.generation, OUTCOME: execution.outcome},
            links=links,
        )

    def _execution(self, run: RunRecord) -> _Execution:
        execution = self._executions.get(run.id)
        if execution is None:
            tags = self._parts.store.runs.tags(run.id)
            parent = _parsed(tags.get(trace_context.TAG))
            execution = _Execution(run, _trace_id(run.id, parent), parent)
            self._executions[run.id] = execution
        return execution

    def _export_attempt(self, execution: _Execution, event: Event, start: int) -> None:
        run = execution.run
        name = (event.step or "").rpartition("/")[2].partition("#")[0]
        links = []
        if event.attempt > 1:
            before = _span_id("attempt", run.id, event.step, event.attempt - 1, run.generation)
            links.append(Link(_context(execution.trace_id, before)))
        self._export(
            f"step {name}",
            execution,
            span_id=_span_id("attempt", run.id, event.step, event.attempt, run.generation),
            parent_id=execution.span_id(run.generation),
            times=(start, event.at),
            attributes={
                STEP: event.step or "",
                ATTEMPT: event.attempt,
                OUTCOME: _ATTEMPTS[event.kind],
            },
            links=links,
            is_error=event.kind != EventKind.STEP_COMPLETED,
        )

    def _export_run(self, execution: _Execution, event: Event) -> None:
        run = execution.run
        parent_id = None
        if execution.parent is not None:
            parent_id = execution.parent.span_id
        self._export(
            f"run {run.workflow}",
            execution,
            span_id=_span_id("run", run.id),
            parent_id=parent_id,
            times=(run.created_at, event.at),
            attributes={OUTCOME: _ENDS[event.kind]},
            is_error=event.kind != EventKind.RUN_COMPLETED,
        )

    def _export(
        self,
        name: str,
        execution: _Execution,
        *,
        span_id: int,
        parent_id: int | None,
        times: tuple[int, int],
        attributes: dict[str, Any],
        links: Sequence[Link] = (),
        is_error: bool = False,
    ) -> None:
        context = otel_context.Context()
        if parent_id is not None:
            parent = NonRecordingSpan(_context(execution.trace_id, parent_id))
            context = trace.set_span_in_context(parent, context)
        run = execution.run
        token = _next_ids.set((execution.trace_id, span_id))
        try:
            span = self._tracer.start_span(
                name,
                context,
                SpanKind.INTERNAL,
                {WORKFLOW: run.workflow, RUN: run.id, **attributes},
                links,
                start_time=times[0] * 1000,
            )
        finally:
            _next_ids.reset(token)
        if is_error:
            span.set_status(Status(StatusCode.ERROR))
        span.end(end_time=times[1] * 1000)

    def traceparent(self, run_id: str) -> str:
        """Return the ``traceparent`` of the span of a run."""
        return _written(_context(self._trace_id(run_id), _span_id("run", run_id)))

    def _trace_id(self, run_id: str) -> int:
        execution = self._executions.get(run_id)
        if execution is not None:
            return execution.trace_id
        tags = self._parts.store.runs.tags(run_id)
        return _trace_id(run_id, _parsed(tags.get(trace_context.TAG)))

    @contextmanager
    def attempt(self, info: StepInfo) -> Iterator[None]:
        """Let the code of an attempt run in the span that will be exported for it."""
        trace_id = self._trace_id(info.run_id)
        span_id = _span_id("attempt", info.run_id, info.step, info.attempt, info.generation)
        span = NonRecordingSpan(_context(trace_id, span_id))
        token = otel_context.attach(trace.set_span_in_context(span))
        try:
            yield
        finally:
            otel_context.detach(token)


# Metrics


def _export_metrics(numbers: EngineMetrics, provider: Any) -> None:
    meter = provider.get_meter("holdfast")

    def steps(options: Any) -> Iterable[metrics.Observation]:
        for key, count in list(numbers.steps.items()):
            names = zip((NAMESPACE, WORKFLOW, STEP, OUTCOME), key, strict=True)
            yield metrics.Observation(count, dict(names))

    def runs(options: Any) -> Iterable[metrics.Observation]:
        for key, count in list(numbers.runs_ended.items()):
            names = zip((NAMESPACE, WORKFLOW, OUTCOME), key, strict=True)
            yield metrics.Observation(count, dict(names))

    def takeovers(options: Any) -> Iterable[metrics.Observation]:
        yield metrics.Observation(numbers.takeovers)

    def commits(options: Any) -> Iterable[metrics.Observation]:
        yield metrics.Observation(sum(numbers.commit_seconds.counts))

    meter.create_observable_counter("holdfast.steps", [steps], "{attempt}")
    meter.create_observable_counter("holdfast.runs.ended", [runs], "{run}")
    meter.create_observable_counter("holdfast.takeovers", [takeovers], "{run}")
    meter.create_observable_counter("holdfast.commits", [commits], "{commit}")
