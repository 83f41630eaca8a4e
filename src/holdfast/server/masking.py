"""Hide the values of users from callers that may not see them.

Every field of a view that can hold a value of a user is listed in ``HIDDEN``; a test fails for a
field of any type that is in neither list.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.runs import ErrorInfo
from holdfast.core.status import FINAL
from holdfast.views.model_runs import IncidentView
from holdfast.views.timeline import TimelineAttemptView, TimelineRowView
from holdfast.views.why import WhyView

HIDDEN_TEXT = "hidden: this API key does not see values"

HIDDEN = frozenset(
    {
        "args",
        "arguments",
        "awaits",
        "body",
        "data",
        "document",
        "feedback",
        "form",
        "goal",
        "input",
        "kwargs",
        "message",
        "output",
        "payload",
        "result",
        "results",
        "summary",
        "traceback",
        "value",
        "variables",
        "wait",
        "waits",
    }
)
"""The fields that hold values of users, or texts of their programs."""

MASKED = HIDDEN | {"items", "state"}
"""The fields that may be hidden; the last two depend on what they hold."""


def masked(view: Any) -> Any:
    """Return plain data of a view in which values of users are replaced by a text."""
    return _masked(view)


def _masked(value: Any) -> Any:
    if isinstance(value, ErrorInfo):
        return {"type": value.type, "message": HIDDEN_TEXT}
    if isinstance(value, WhyView) and value.status in FINAL:
        return {**_fields(value), "reason": HIDDEN_TEXT}
    if isinstance(value, TimelineRowView | TimelineAttemptView):
        return {**_fields(value), **dict.fromkeys(("note", "error"), "")}
    if isinstance(value, IncidentView):
        return {**_fields(value), "error": {"message": HIDDEN_TEXT}}
    if isinstance(value, msgspec.Struct):
        return _fields(value)
    if isinstance(value, list | tuple):
        return [_masked(item) for item in value]
    if isinstance(value, dict):
        return {name: _masked(item) for name, item in value.items()}
    return value


def _fields(view: msgspec.Struct) -> dict[str, Any]:
    return {name: _field(name, getattr(view, name)) for name in type(view).__struct_fields__}


def _field(name: str, value: Any) -> Any:
    if name == "state" and isinstance(value, dict | list):
        return HIDDEN_TEXT  # the state of a managed flow; other states are words
    if name == "items" and isinstance(value, list) and any(isinstance(i, dict) for i in value):
        return HIDDEN_TEXT  # the items of a step; the items of a page are views
    if name in HIDDEN and value is not None and not isinstance(value, bool):
        return _hidden(value)
    return _masked(value)


def _hidden(value: Any) -> Any:
    """Return a text in place of a value; the waits of a run keep their kinds and steps, which are
    not values."""
    if isinstance(value, list) and all(isinstance(item, dict) and "kind" in item for item in value):
        return [
            {name: item for name, item in wait.items() if name in ("kind", "step", "at", "until")}
            for wait in value
        ]
    return HIDDEN_TEXT
