"""An engine refuses values of odd types by name."""

from __future__ import annotations

import inspect
from contextlib import closing
from typing import Any

import pytest

from holdfast import Engine
from tests.engine.wrong_types.calls import calls_of, graph_of
from tests.engine.wrong_types.probing import Call, async_engine, blocking_engine, faults
from tests.engine.wrong_types.values import plain


@pytest.mark.parametrize("opened", [blocking_engine, async_engine])
def test_an_engine_refuses_odd_values_by_name(database, opened):
    with opened(database) as engine:
        engine.start(plain, id="run")
        engine.flows.create("c", "g", owner="o", id="flow")
        engine.graphs.start(graph_of(), id="graph")
        engine.budgets.set("b", {"money": 1})

        assert faults(calls_of(engine)) == []
        assert engine.database.check() == []


NO_OPTIONS = {
    "budgets.list",
    "close",
    "database.check",
    "events.subscriptions",
    "flows.finish",
    "flows.request_cancel",
    "flows.wake",
    "flows.why",
    "graphs.export",
    "graphs.extend",
    "graphs.open",
    "graphs.status",
    "keys.list",
    "lanes.drain",
    "lanes.list",
    "lanes.pause",
    "lanes.resume",
    "retention.list",
    "retention.preview",
    "schedules.list",
    "streams.list",
    "streams.progress",
    "webhooks.list",
    "work",
    "workers.list",
    "workers.unserved",
}
"""Calls of an engine that take no options, or the options of another one, or an id only."""


def test_every_call_of_an_engine_is_walked(tmp_path):
    with closing(Engine(tmp_path / "odd.db")) as engine:
        walked = {call.name.split()[0] for call in calls_of(engine)}
        named = public_methods(engine) | {
            f"{name}.{verb}"
            for name, namespace in vars(engine).items()
            if not name.startswith("_")
            for verb in public_methods(namespace)
        }

    assert named - walked - NO_OPTIONS == set()


def public_methods(handle: Any) -> set[str]:
    return {
        name
        for name, value in inspect.getmembers(type(handle))
        if callable(value) and not name.startswith("_")
    }


ENGINE = (
    "workflows",
    "namespace",
    "codec",
    "max_signals",
    "inline_limit",
    "concurrency",
    "threads",
    "lanes",
    "capabilities",
    "name",
    "session_ttl",
    "shutdown_timeout",
    "poll",
    "retention_interval",
    "crash_limit",
    "idle_timeout",
    "stream_window",
    "poll_interval",
    "idle_poll_interval",
    "schedules",
    "capture",
    "webhook_hosts",
    "clock",
    "driver",
)


def opened(path: Any, **given: Any) -> None:
    engine = Engine(path, **given)
    try:
        engine.work()
    finally:
        engine.close(shutdown_timeout=0)


def test_an_engine_is_not_opened_with_odd_values(tmp_path):
    call = Call("Engine", opened, {"path": str(tmp_path / "odd.db")}, ENGINE)

    assert faults([Call(call.name, call.function, call.sound, ENGINE)]) == []
