"""Holdfast: durable workflows as ordinary Python functions. A run that was started is finished,
even if processes and machines crash."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast import errors as errors
    from holdfast import sync
    from holdfast.authoring.python.api_async import (
        create_wait,
        first,
        gate,
        gather,
        grow,
        map,
        sleep,
        start,
        timeout,
        wait_for,
        wait_signal,
    )
    from holdfast.authoring.python.budgets import reserve, spend, spent
    from holdfast.authoring.python.deterministic import (
        compensate,
        now,
        patched,
        random,
        uuid,
        version,
    )
    from holdfast.authoring.python.schedule import schedule, scheduled_time
    from holdfast.authoring.python.sqlalchemy import sqlalchemy_connection
    from holdfast.authoring.python.step import connection, info, step
    from holdfast.authoring.python.streams import Stream, emit, null, progress, stream
    from holdfast.authoring.python.task import task
    from holdfast.authoring.python.waits import (
        Received,
        Wait,
        Waited,
        all_of,
        any_of,
        count,
        matching,
    )
    from holdfast.authoring.python.workflow import workflow
    from holdfast.connect.async_engine import AsyncEngine, AsyncRun
    from holdfast.connect.engine import Engine, Run
    from holdfast.core.gates.answer import Answer
    from holdfast.core.graphs.builder import Graph
    from holdfast.errors import Fail, HoldfastError, Retry
    from holdfast.payloads.codecs import Compressed, Encrypted

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "AsyncEngine",
    "AsyncRun",
    "Compressed",
    "Encrypted",
    "Engine",
    "Fail",
    "Graph",
    "HoldfastError",
    "Received",
    "Retry",
    "Run",
    "Stream",
    "Wait",
    "Waited",
    "all_of",
    "any_of",
    "compensate",
    "connection",
    "count",
    "create_wait",
    "emit",
    "first",
    "gate",
    "gather",
    "grow",
    "info",
    "map",
    "matching",
    "now",
    "null",
    "patched",
    "progress",
    "random",
    "reserve",
    "schedule",
    "scheduled_time",
    "sleep",
    "spend",
    "spent",
    "sqlalchemy_connection",
    "start",
    "step",
    "stream",
    "sync",
    "task",
    "timeout",
    "uuid",
    "version",
    "wait_for",
    "wait_signal",
    "workflow",
]
_HOMES = {
    "authoring.python.api_async": (
        "create_wait first gate gather grow map sleep start timeout wait_for wait_signal"
    ),
    "authoring.python.sqlalchemy": "sqlalchemy_connection",
    "authoring.python.budgets": "reserve spend spent",
    "authoring.python.streams": "Stream emit null progress stream",
    "authoring.python.schedule": "schedule scheduled_time",
    "authoring.python.step": "connection info step",
    "authoring.python.task": "task",
    "authoring.python.deterministic": "compensate now patched random uuid version",
    "authoring.python.waits": "Received Wait Waited all_of any_of count matching",
    "authoring.python.workflow": "workflow",
    "connect.async_engine": "AsyncEngine AsyncRun",
    "connect.engine": "Engine Run",
    "core.gates.answer": "Answer",
    "core.graphs.builder": "Graph",
    "payloads.codecs": "Compressed Encrypted",
    "errors": "Fail HoldfastError Retry",
}
"""The public names by the module that defines them.

Modules are loaded when a name is first used, so a module that only defines workflows does not load
the engine.
"""

_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in ("errors", "sync"):
        return import_module(f"holdfast.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"holdfast.{_HOME[name]}"), name)
    globals()[name] = value  # saves this function at the next use
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
