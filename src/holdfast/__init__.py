"""Holdfast: durable workflows as ordinary Python functions. A run that was started is finished,
even if processes and machines crash."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast import agents as agents
    from holdfast import bpmn as bpmn
    from holdfast import budgets as budgets
    from holdfast import codecs as codecs
    from holdfast import deterministic as deterministic
    from holdfast import dmn as dmn
    from holdfast import errors as errors
    from holdfast import fencing as fencing
    from holdfast import gates as gates
    from holdfast import graphs as graphs
    from holdfast import logs as logs
    from holdfast import otel as otel
    from holdfast import remote as remote
    from holdfast import schedules as schedules
    from holdfast import server as server
    from holdfast import sql as sql
    from holdfast import streams as streams
    from holdfast import sync as sync
    from holdfast import testing as testing
    from holdfast import versions as versions
    from holdfast import waits as waits
    from holdfast import wf as wf
    from holdfast.authoring.python.api_async import *
    from holdfast.authoring.python.api_shared import *
    from holdfast.connect.async_engine import AsyncEngine as AsyncEngine
    from holdfast.connect.async_run import AsyncRun as AsyncRun
    from holdfast.connect.blocking.engine import Engine as Engine
    from holdfast.connect.blocking.run import Run as Run

__version__ = "0.1.0"

_HOMES = {
    "authoring.python.api_async": "first gate gather map sleep start timeout wait_signal",
    "authoring.python.deterministic": "compensate now",
    "authoring.python.schedule": "schedule",
    "authoring.python.step": "info step",
    "authoring.python.task": "task",
    "authoring.python.workflow": "workflow",
    "connect.async_engine": "AsyncEngine",
    "connect.async_run": "AsyncRun",
    "connect.blocking.engine": "Engine",
    "connect.blocking.run": "Run",
    "core.graphs.builder": "Graph",
    "errors.base": "HoldfastError",
    "errors.steps": "Fail Retry",
}
"""The public names by the module that offers them.

Modules are loaded when a name is first used, so a module that only defines workflows does not load
the engine.
"""

_NAMESPACES = {
    "agents": "",
    "bpmn": "BpmnError handler",
    "budgets": "record reserve spend spent",
    "codecs": "Compressed Encrypted generate_key",
    "deterministic": "random uuid",
    "dmn": "DecisionModel ExpressionLimits FeelRange YearMonthDuration feel load",
    "errors": "",
    "fencing": "",
    "gates": "Answer",
    "graphs": "extend grow",
    "logs": "JsonFormatter RunFields",
    "otel": "",
    "remote": "",
    "schedules": "scheduled_time",
    "server": "",
    "sql": "connection sqlalchemy_connection",
    "streams": "Stream emit null progress stream",
    "sync": "",
    "testing": "",
    "versions": "patched version",
    "waits": "Received Wait Waited all_of any_of any_signal count create_wait matching wait_for",
    "wf": "",
}
"""The namespaces, loaded when they are first used, with the names that a user may look for here."""

_RENAMED = {"grow": "extend", "spent": "record"}

_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = [*_HOME, "errors", "sync"]


if not TYPE_CHECKING:  # a type checker must refuse unknown names

    def __getattr__(name: str) -> Any:
        if name in _NAMESPACES:
            return import_module(f"holdfast.{name}")
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_hint(name)}")
        value = getattr(import_module(f"holdfast.{_HOME[name]}"), name)
        globals()[name] = value  # saves this function at the next use
        return value


def _hint(name: str) -> str:
    """Return where a name is that a user looks for in the wrong place."""
    for namespace, names in _NAMESPACES.items():
        if name in names.split():
            return f": it is holdfast.{namespace}.{_RENAMED.get(name, name)}"
    return ""


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_NAMESPACES})
