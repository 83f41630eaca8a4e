"""Convert exceptions to stored data, and stored errors to the exceptions that callers see."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.core.runs import ErrorInfo, RunRecord
from holdfast.core.status import Status
from holdfast.core.stored_json import object_of
from holdfast.core.text import readable
from holdfast.errors import (
    ChildFailed,
    Fail,
    HoldfastError,
    Retry,
    RunCancelled,
    RunExpired,
    RunFailed,
    RunStuck,
    StepFailed,
    TooManyFailures,
)
from holdfast.errors.base import raised_of, safe_repr, text_of

LONGEST = 8000
"""Characters of a traceback that are kept, from its end."""

DEEPEST = 100
"""Exceptions of a chain that are looked at: user code may have tied one into a circle."""

_RAISED: Mapping[Status, type[RunFailed]] = {
    Status.CANCELLED: RunCancelled,
    Status.EXPIRED: RunExpired,
    Status.STUCK: RunStuck,
}


def error_data(error: BaseException, **facts: object) -> bytes:
    """Return an exception as JSON: its type, message, traceback and facts.

    The error of a step or of a child passes on an exception of user code: then its type and message
    are stored, and the facts say where it was raised.
    """
    kept = {**(error.facts if isinstance(error, HoldfastError) else {}), **facts}
    kind = type(error).__name__
    message = _message(error)
    if isinstance(error, StepFailed | ChildFailed) and "type" in kept:
        kind = str(kept.pop("type"))
        message = str(kept.pop("message", ""))
        kept.pop("cause", None)
    if isinstance(error, ChildFailed):
        child = kept.pop("run", None)
        kept.setdefault("origin", child)
        kept.pop("workflow", None)
    info = ErrorInfo(
        kind,
        message,
        _traceback(error),
        {name: _plain(value) for name, value in kept.items()},
        _cause(error),
    )
    try:
        return msgspec.json.encode(info)
    except UnicodeEncodeError:  # surrogates, for example from the name of a file
        return msgspec.json.encode(_legible(msgspec.to_builtins(info)))


def _traceback(error: BaseException) -> str:
    """Return the traceback of an exception. The error of a step or of a child has the traceback of
    the code that raised the exception: ours would only show where it was passed on."""
    if isinstance(error, StepFailed | ChildFailed) and error.traceback:
        return error.traceback
    return "".join(traceback.format_exception(error))[-LONGEST:]


def _cause(error: BaseException) -> str | None:
    """Return the exception at the bottom of a chain of ``raise ... from``, as its type and its
    message; None if that is *error* itself.

    The chain ends at an error that Holdfast raises to explain another one, such as BadOption."""
    bottom = error
    for _ in range(DEEPEST):
        below = _below(bottom)
        if below is None:
            break
        bottom = below
    facts: Mapping[str, object] = {}
    if isinstance(bottom, StepFailed | ChildFailed):
        facts = bottom.facts
    cause = text_of(facts, "cause")
    if bottom is error:
        return cause or None
    return (
        cause
        or raised_of(facts)
        or raised_of({"type": type(bottom).__name__, "message": _message(bottom)})
    )


def _below(error: BaseException) -> BaseException | None:
    if isinstance(error, HoldfastError) and not isinstance(error, Fail | Retry | TooManyFailures):
        return None
    if isinstance(error, BaseExceptionGroup):  # an asyncio.TaskGroup raises one
        return error.exceptions[0]
    return error.__cause__


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as error_of_str:
        return f"str() of the exception raised {type(error_of_str).__name__}"


def _legible(value: Any) -> Any:
    """Return plain data with all texts made storable."""
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, dict):
        return {_legible(name): _legible(item) for name, item in value.items()}
    if not isinstance(value, list):
        return value
    return [_legible(item) for item in value]


def _plain(value: object) -> object:
    """Return a fact as plain data or, if it cannot be stored, as text: it must not hide the
    error."""
    try:
        plain: object = msgspec.to_builtins(value)
        msgspec.json.encode(plain)
    except UnicodeEncodeError:
        return plain  # `_legible` handles it together with the other texts
    except Exception:
        return safe_repr(value)
    return plain


def _place(facts: Any) -> dict[str, Any]:
    """Return the facts of a stored error that say where its exception was raised."""
    if not isinstance(facts, dict):
        return {}
    return {name: facts[name] for name in ("step", "origin") if name in facts}


def error_from_data(run: RunRecord) -> RunFailed:
    """Return the exception that ``result()`` raises for a run that did not complete."""
    facts: dict[str, Any] = {"run": run.id, "workflow": run.workflow}
    if run.error is not None:
        info = object_of(run.error, f"the error of run {run.id}")
        facts |= {"type": info.get("type"), "message": info.get("message")}
        facts |= _place(info.get("facts"))
        if info.get("cause") is not None:
            facts["cause"] = info["cause"]
        raised = _RAISED.get(run.status, RunFailed)(**facts)
        raised.facts["error"] = info
        return raised
    return _RAISED.get(run.status, RunFailed)(**facts)
