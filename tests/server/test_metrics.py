"""``/metrics``, and the collector for programs with a registry of their own."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from holdfast import Engine
from holdfast.server.metrics import EngineCollector
from tests.engine.waiting import until
from tests.server.clients import problem
from tests.server.conftest import WORKFLOWS


def samples(text):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_metrics_are_served_to_callers_that_may_read(connect, engine):
    engine.start("server.double", 4).result(timeout="20s")
    # A run is counted after its result can be read.
    until(lambda: engine._calls.open().writer.metrics.runs_ended)
    viewer = connect("viewer")
    viewer.json("GET", "/runs")

    answer = viewer("GET", "/metrics", raw=True)

    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    values = samples(answer.text)
    ours = ("namespace", "default")
    ended = (("outcome", "completed"), ("workflow", "server.double"))
    assert values["holdfast_runs_ended_total", ours, *ended] == 1
    assert values["holdfast_runs", ours, ("status", "waiting")] == 0
    assert values[("holdfast_workers", ("state", "alive"))] == 1
    assert values[("holdfast_up",)] == 1
    assert values[("holdfast_commit_seconds_count",)] > 0
    routes = {dict(key[1:]).get("route") for key in values if key[0] == "holdfast_http_seconds_sum"}
    assert "GET /runs" in routes


def test_strangers_and_other_roles_do_not_read_metrics(stranger, connect):
    assert problem(stranger("GET", "/metrics", raw=True)) == "NotAuthenticated"
    assert problem(connect("worker")("GET", "/metrics", raw=True)) == "RightMissing"


def test_a_collector_joins_the_registry_of_a_program(both):
    registry = CollectorRegistry()
    with Engine(both, workflows=WORKFLOWS) as engine:
        registry.register(EngineCollector(engine))
        engine.start("server.double", 4).result(timeout="20s")

        values = samples(generate_latest(registry).decode())

    assert values[("holdfast_start_to_first_step_seconds_count",)] == 0
    sizes = [value for key, value in values.items() if key[0] == "holdfast_commit_size_bucket"]
    assert max(sizes) == values[("holdfast_commit_size_count",)] > 0
    assert samples(generate_latest(registry).decode())[("holdfast_up",)] == 0


@pytest.mark.parametrize("name", ["holdfast_up", "holdfast_runs", "holdfast_steps"])
def test_every_metric_has_a_description(engine, name):
    registry = CollectorRegistry()
    registry.register(EngineCollector(engine))

    families = {
        family.name: family
        for family in text_string_to_metric_families(generate_latest(registry).decode())
    }

    assert families[name].documentation


def test_the_metrics_of_other_namespaces_stay_hidden(connect, tmp_path):
    bound = connect("viewer", namespace="acme")
    with Engine(tmp_path / "all.db", workflows=WORKFLOWS, work=False) as everything:
        everything.start("server.double", namespace="acme")
        everything.start("server.double", namespace="other")
        everything.budgets.set("team", {"tokens": 5})
    registry = CollectorRegistry()
    with Engine(tmp_path / "all.db", namespace="acme", work=False) as engine:
        registry.register(EngineCollector(engine))
        values = samples(generate_latest(registry).decode())

    assert problem(bound("GET", "/metrics", raw=True)) == "NamespaceBound"
    assert values["holdfast_runs", ("namespace", "acme"), ("status", "pending")] == 1
    assert not [key for key in values if ("namespace", "other") in key]
    assert not [key for key in values if key[0] == "holdfast_budget_used_ratio"]
