"""The public API for ``def`` workflows: the names of ``holdfast``, called without await."""

from holdfast.authoring.python.api_sync import (
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
from holdfast.authoring.python.deterministic import compensate, now, patched, random, uuid, version
from holdfast.authoring.python.schedule import schedule, scheduled_time
from holdfast.authoring.python.step import connection, info, step
from holdfast.authoring.python.streams import Stream, emit, null, progress, stream
from holdfast.authoring.python.task import task
from holdfast.authoring.python.waits import Received, Wait, Waited, all_of, any_of, count, matching
from holdfast.authoring.python.workflow import workflow
from holdfast.connect.engine import Engine, Run
from holdfast.core.gates.answer import Answer
from holdfast.core.graphs.builder import Graph
from holdfast.errors import Fail, HoldfastError, Retry

__all__ = [
    "Answer",
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
    "start",
    "step",
    "stream",
    "task",
    "timeout",
    "uuid",
    "version",
    "wait_for",
    "wait_signal",
    "workflow",
]
