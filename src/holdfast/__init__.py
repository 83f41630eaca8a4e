"""Holdfast: durable workflows as ordinary Python functions. Work that was started gets finished, whatever crashes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast import errors as errors
    from holdfast import sync
    from holdfast.authoring.code.aio import (
        Handle,
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
    from holdfast.authoring.code.alchemy import sqlalchemy_connection
    from holdfast.authoring.code.budgets import reserve, spend, spent
    from holdfast.authoring.code.output import Stream, emit, null, progress, stream
    from holdfast.authoring.code.scheduling import schedule, scheduled_time
    from holdfast.authoring.code.step import connection, info, step
    from holdfast.authoring.code.task import task
    from holdfast.authoring.code.verbs import compensate, now, patched, random, uuid, version
    from holdfast.authoring.code.waits import Received, Wait, Waited, all_of, any_of, count, matching
    from holdfast.authoring.code.workflow import workflow
    from holdfast.connect.aio import AsyncEngine, AsyncRun
    from holdfast.connect.engine import Engine, Run
    from holdfast.core.gates.answer import Answer
    from holdfast.core.graphs.drawing import Graph
    from holdfast.engine.payloads.codecs import Compressed, Encrypted
    from holdfast.errors import Fail, HoldfastError, Retry

__version__ = "0.1.0"
__all__ = [
    "Answer", "AsyncEngine", "AsyncRun", "Compressed", "Encrypted", "Engine", "Fail", "Graph", "Handle", "HoldfastError",
    "Received", "Retry", "Run", "Stream", "Wait", "Waited", "all_of", "any_of", "compensate", "connection", "count",
    "create_wait", "emit", "first", "gate", "gather", "grow", "info", "map", "matching", "now", "null", "patched", "progress",
    "random", "reserve", "schedule", "scheduled_time", "sleep", "spend", "spent", "sqlalchemy_connection", "start", "step",
    "stream", "sync", "task", "timeout", "uuid", "version", "wait_for", "wait_signal", "workflow",
]  # fmt: skip
_HOMES = {
    "authoring.code.aio": "Handle create_wait first gate gather grow map sleep start timeout wait_for wait_signal",
    "authoring.code.alchemy": "sqlalchemy_connection",
    "authoring.code.budgets": "reserve spend spent",
    "authoring.code.output": "Stream emit null progress stream",
    "authoring.code.scheduling": "schedule scheduled_time",
    "authoring.code.step": "connection info step",
    "authoring.code.task": "task",
    "authoring.code.verbs": "compensate now patched random uuid version",
    "authoring.code.waits": "Received Wait Waited all_of any_of count matching",
    "authoring.code.workflow": "workflow",
    "connect.aio": "AsyncEngine AsyncRun",
    "connect.engine": "Engine Run",
    "core.gates.answer": "Answer",
    "core.graphs.drawing": "Graph",
    "engine.payloads.codecs": "Compressed Encrypted",
    "errors": "Fail HoldfastError Retry",
}
"""Where each name lives. What a program does not use is not loaded: a module of workflows needs no engine."""

_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in ("errors", "sync"):
        return import_module(f"holdfast.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"holdfast.{_HOME[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
