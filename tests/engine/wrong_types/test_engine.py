"""An engine refuses values of odd types by name."""

from __future__ import annotations

import inspect
from contextlib import closing
from typing import Any

from holdfast import Engine, bpmn, dmn
from holdfast.connect.blocking.namespaces import Namespaces
from holdfast.core.lazy_parts import part_names
from tests.engine.wrong_types.calls import calls_of, graph_of
from tests.engine.wrong_types.model_calls import CALLS_OF_FILES, populate_models
from tests.engine.wrong_types.probing import Call, async_engine, blocking_engine, faults
from tests.engine.wrong_types.test_decorators import DECORATORS
from tests.engine.wrong_types.values import plain


def refuse_odd_values(engine: Any) -> None:
    engine.start(plain, id="run")
    engine.flows.create("c", "g", owner="o", id="flow")
    engine.graphs.start(graph_of(), id="graph")
    engine.budgets.set("b", {"money": 1})

    assert faults(calls_of(engine)) == []
    assert engine.database.check() == []


def test_an_engine_refuses_odd_values_by_name(database):
    populate_models(database)
    with blocking_engine(database) as engine:
        refuse_odd_values(engine)


def test_an_asynchronous_engine_refuses_odd_values_by_name(tmp_path):
    """In a file only: the faces differ in how they wait, not in what they refuse."""
    populate_models(str(tmp_path / "odd.db"))
    with async_engine(str(tmp_path / "odd.db")) as engine:
        refuse_odd_values(engine)


def test_readers_of_files_refuse_odd_values_by_name():
    assert faults(CALLS_OF_FILES) == []


def test_every_function_of_the_readers_of_files_is_walked():
    functions = {
        f"{module.__name__.removeprefix('holdfast.')}.{name}"
        for module in (bpmn, dmn)
        for name, value in vars(module).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }

    assert functions == {call.name for call in CALLS_OF_FILES} | {"bpmn.handler"}
    assert "bpmn.handler" in {call.name for call in DECORATORS}


NO_OPTIONS = {
    "api_keys.list",
    "budgets.list",
    "close",
    "database.check",
    "database.info",
    "database.sizes",
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
    "models.list",
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
            for name in part_names(Namespaces)
            for verb in public_methods(getattr(engine, name))
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
