"""Checks of the options of an engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.core.codec import Codec
from holdfast.core.program import is_definition
from holdfast.errors import BadOption, UnknownWorkflow
from holdfast.errors.base import safe_repr
from holdfast.store.clock import Clock


def checked_codec(codec: Any) -> Codec:
    """Return *codec*. Raises BadOption if it has not the attributes of a codec."""
    if isinstance(codec, type) or not all(
        hasattr(codec, name) for name in ("name", "encode", "decode")
    ):
        raise BadOption(
            option="codec",
            value=codec if isinstance(codec, str) else type(codec).__name__,
            why="a codec has the attributes name, encode and decode",
        )
    return codec  # type: ignore[no-any-return]


def checked_clock(clock: Any) -> Clock:
    """Return *clock*. Raises BadOption if it has not the attributes of a clock."""
    if isinstance(clock, type) or not all(
        hasattr(clock, name) for name in ("flows", "now", "not_before", "listen", "unlisten")
    ):
        raise BadOption(
            option="clock",
            value=type(clock).__name__,
            why="pass a clock such as holdfast.testing.VirtualClock()",
        )
    return clock  # type: ignore[no-any-return]


def checked_limit(limit: Any) -> int:
    """Return *limit*, the maximum number of signals of a run. Raises BadOption."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise BadOption(
            option="max_signals", value=limit, why="the limit must be an integer, 1 or more"
        )
    return limit


def is_library(item: Any) -> bool:
    """Return whether *item* is a library of workflows."""
    return callable(getattr(item, "definitions", None)) and hasattr(item, "find_executor")


def expanded(items: Iterable[Any]) -> list[Any]:
    """Return the workflows among *items*, and the workflows of the libraries among them."""
    workflows: list[Any] = []
    for item in items:
        workflows.extend(item.definitions() if is_library(item) else [item])
    return workflows


def checked_workflow(workflow: Any) -> Any:
    """Return *workflow*. Raises UnknownWorkflow if it is not a workflow."""
    if not is_definition(workflow):
        raise UnknownWorkflow(
            workflow=getattr(workflow, "__name__", safe_repr(workflow)),
            why="pass a function that is decorated with @workflow",
        )
    return workflow
