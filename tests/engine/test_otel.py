"""Spans of runs for OpenTelemetry, across waits, children and processes."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from holdfast import Engine, step, wait_signal, wf, workflow
from holdfast.core import trace_context
from holdfast.core.trace_context import TraceHooks
from holdfast.engine.maintenance.webhook_delivery import Delivery, _request
from tests.server.clients import ApiClient

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast.otel import instrument
from holdfast.server import app

TRIES: list[int] = []
PROVIDER = TracerProvider()
EXPORTER = InMemorySpanExporter()
PROVIDER.add_span_processor(SimpleSpanProcessor(EXPORTER))
TRACER = PROVIDER.get_tracer("shop")


@step(retries=1)
async def traced_step(number: int) -> int:
    with TRACER.start_as_current_span("inside"):
        TRIES.append(number)
    if len(TRIES) == 1:
        raise ValueError("the first try fails")
    return number


@workflow
async def traced_child() -> int:
    return 1


@workflow
async def traced_run() -> int:
    await traced_child()
    return await traced_step(1)


@workflow
async def traced_wait() -> int:
    await traced_step(1)
    await wait_signal("go")
    return await traced_step(2)


@pytest.fixture(autouse=True)
def hooks(monkeypatch):
    monkeypatch.setattr(trace_context, "hooks", TraceHooks())
    EXPORTER.clear()
    TRIES.clear()


@pytest.fixture
def traced(database):
    """Return an engine with traces. A span follows the commit that records it, so a caller may have
    the result first: tests close the engine before they look at spans and numbers."""
    reader = InMemoryMetricReader()
    with Engine(database, shutdown_timeout=1) as engine:
        instrument(engine, tracer_provider=PROVIDER, meter_provider=MeterProvider([reader]))
        engine.reader = reader
        yield engine


def spans():
    """Return the finished spans by name, oldest first."""
    found: dict[str, list] = {}
    for span in EXPORTER.get_finished_spans():
        found.setdefault(span.name, []).append(span)
    return found


def id_of(span):
    return span.context.span_id


def test_attempts_executions_and_runs_are_spans_of_one_trace(traced):
    run = traced.start(traced_run)
    run.result(timeout="30s")
    traced.close()

    found = spans()
    failed, completed = found["step traced_step"]
    (execution,) = found["execute traced_run"]
    (whole,) = found["run traced_run"]
    assert failed.status.status_code.name == "ERROR" and completed.status.is_ok is not False
    assert {failed.parent.span_id, completed.parent.span_id} == {id_of(execution)}
    assert execution.parent.span_id == id_of(whole)
    assert whole.parent is None
    assert [link.context.span_id for link in completed.links] == [id_of(failed)]
    assert whole.attributes["workflow.name"] == "traced_run"
    assert whole.attributes["holdfast.run.id"] == run.id
    assert whole.start_time <= failed.start_time <= completed.end_time <= whole.end_time


def test_spans_of_user_code_are_inside_the_attempt(traced):
    traced.start(traced_run).result(timeout="30s")
    traced.close()

    found = spans()
    assert [span.parent.span_id for span in found["inside"]] == [
        id_of(span) for span in found["step traced_step"]
    ]


TEXT = """workflow traced-text {
  call look
  call see
  script say { run = "echo $TRACEPARENT" }
  foreach each { over = things max_parallel = 1 do { call see } }
}
"""


def test_calls_scripts_and_providers_of_a_text_are_inside_their_attempts(tmp_path):
    library = wf.Library(root=tmp_path)
    library.add(TEXT, path="traced-text.wf")

    def note(call):
        with TRACER.start_as_current_span("inside"):
            pass

    async def note_async(call):
        note(call)

    library.executor("look")(note)
    library.executor("see")(note_async)
    library.provider("things")(note)
    with Engine(tmp_path / "x.db", workflows=[library], shutdown_timeout=1) as engine:
        instrument(engine, tracer_provider=PROVIDER, meter_provider=MeterProvider())
        run = engine.start(library["traced-text"], {}, cwd=str(tmp_path))
        run.result(timeout="30s")
        said = next(step.context for step in run.steps() if step.step == "say")

    found = spans()
    steps = [found["step look"][0], found["step see"][0], found["step items"][0]]
    assert [span.parent.span_id for span in found["inside"]] == [id_of(span) for span in steps]
    (script,) = found["step say"]
    assert said.split("-")[1:3] == [f"{script.context.trace_id:032x}", f"{id_of(script):016x}"]


def test_a_run_belongs_to_the_trace_that_started_it_and_so_do_its_children(traced):
    with TRACER.start_as_current_span("request") as request:
        run = traced.start(traced_run)
    run.result(timeout="30s")
    traced.close()

    found = spans()
    (whole,) = found["run traced_run"]
    (child,) = found["run traced_child"]
    assert whole.parent.span_id == request.get_span_context().span_id
    assert child.parent.span_id == id_of(whole)
    assert {whole.context.trace_id, child.context.trace_id} == {request.get_span_context().trace_id}


def test_executions_are_linked_across_a_wait_and_another_worker(database):
    with Engine(database, shutdown_timeout=1) as first:
        instrument(first, tracer_provider=PROVIDER)
        run = first.start(traced_wait, id="waits")
        run.wait_until("waiting", timeout="30s")
    with Engine(database, shutdown_timeout=1) as second:
        instrument(second, tracer_provider=PROVIDER)
        second.signal("waits", "go")
        second.run("waits").result(timeout="30s")

    before, after = spans()["execute traced_wait"]
    assert [link.context.span_id for link in after.links] == [id_of(before)]
    assert before.context.trace_id == after.context.trace_id
    assert after.attributes["holdfast.outcome"] == "completed"


def test_engines_of_a_process_are_traced_each_for_itself(database, tmp_path):
    with Engine(str(tmp_path / "other.db"), shutdown_timeout=1) as other:
        instrument(other, tracer_provider=PROVIDER)
        other.start(traced_run).result(timeout="30s")
    EXPORTER.clear()

    with Engine(database, shutdown_timeout=1) as untraced:
        untraced.start(traced_run).result(timeout="30s")

    assert set(spans()) == {"inside"}


def test_the_numbers_are_metrics_too(traced):
    traced.start(traced_run).result(timeout="30s")
    traced.close()

    data = traced.reader.get_metrics_data()
    names = {
        metric.name: sum(point.value for point in metric.data.data_points)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert names["holdfast.steps"] == 2 and names["holdfast.runs.ended"] == 2


def test_a_request_over_http_passes_its_trace_on(tmp_path):
    parent = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
    with Engine(tmp_path / "x.db", workflows=[traced_child], shutdown_timeout=1) as engine:
        instrument(engine, tracer_provider=PROVIDER)
        client = ApiClient.maker(engine, app(engine))("starter", "viewer")

        started = client(
            "POST", "/runs", {"workflow": "traced_child"}, headers={"traceparent": parent}
        )
        engine.run(started.json()["id"]).result(timeout="30s")

    (whole,) = spans()["run traced_child"]
    assert f"{whole.parent.span_id:016x}" == "2" * 16
    assert f"{whole.context.trace_id:032x}" == "1" * 32


def test_without_it_nothing_is_stored_with_a_run(database):
    with Engine(database, shutdown_timeout=1) as engine, TRACER.start_as_current_span("request"):
        assert engine.start(traced_child).record.tags == {}


def test_a_webhook_carries_the_span_of_its_run():
    delivery = Delivery("http://example.com/", "s" * 16, "hook", "r:1", 1, b"{}", 5, "00-1-2-01")

    assert b"Traceparent: 00-1-2-01\r\n" in _request(delivery)
    assert b"Traceparent" not in _request(msgspec.structs.replace(delivery, traceparent=None))


def test_the_library_is_loaded_only_by_programs_that_trace():
    code = "import sys, holdfast; holdfast.Engine; print('opentelemetry' in sys.modules)"

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout == "False\n"
