"""Check the filters of a list of runs, and the cursors with which its pages begin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.core.duration import LAST_INSTANT
from holdfast.core.status import LIVE, Status
from holdfast.core.text import is_one_of, is_storable, plain_text
from holdfast.core.validation import (
    checked_flag,
    checked_one_or_many,
    checked_tags,
)
from holdfast.errors import BadOption
from holdfast.service.instants import moment
from holdfast.store.runs.list_query import RunCursor, RunFilter

_TEXTS = (
    "share",
    "key",
    "id_prefix",
    "worker",
    "parent_id",
)


_LISTED = {"workflow": "workflows", "version": "versions", "lane": "lanes"}
"""The options that take one text or several, with the fields of the filter."""

MOST = 1000
"""The maximum number of values of one option: each is a parameter of the query."""


def known_statuses(status: Any) -> list[Any]:
    """Return one status, or several, as a list. Raises BadOption if one is unknown."""
    if status is None:
        return []
    statuses = checked_one_or_many("status", status)
    unknown = [item for item in statuses if not is_one_of(item, list(Status))]
    if unknown:
        raise BadOption(option="status", value=unknown[0], known=", ".join(Status))
    return statuses


def run_filter(filters: Mapping[str, Any], namespace: str | None, now: int) -> RunFilter:
    """Return the filter of the options that ``engine.runs`` takes; *namespace* is checked already.
    Raises BadOption."""
    checked: dict[str, Any] = {"namespace": namespace, "statuses": _statuses(filters)}
    for name in _TEXTS:
        checked[name] = checked_text_filter(name, filters.get(name))
    for name, field in _LISTED.items():
        checked[field] = _texts(name, filters.get(name))
    for name in ("since", "until"):
        if filters.get(name) is not None:
            checked[name] = moment(filters[name], now, sign=-1)
    if filters.get("roots") is not None:
        checked["roots"] = checked_flag("roots", filters["roots"])
    if filters.get("tags") is not None:
        checked["tags"] = checked_tags(filters["tags"])
    return RunFilter(**checked)


def _statuses(filters: Mapping[str, Any]) -> list[str]:
    status = filters.get("status")
    statuses = known_statuses(status)
    if status is not None and not statuses:
        # An empty list must not select all runs: a bulk verb would change every one of them.
        raise BadOption(option="status", value=status, why="name at least one status")
    live = filters.get("live")
    if live is None or not checked_flag("live", live):
        return statuses
    if statuses:
        why = "live names all statuses of unfinished runs: pass either live or status"
        raise BadOption(option="live", value=live, why=why)
    return sorted(LIVE)


def _texts(name: str, value: Any) -> list[str]:
    """Return one text, or several, as a list without repetitions. Raises BadOption."""
    if value is None:
        return []
    items = checked_one_or_many(name, value) if isinstance(value, Iterable) else [value]
    texts = [_text(name, item) for item in items]
    if not texts:
        # An empty list must not select all runs, as with the statuses.
        raise BadOption(option=name, value=value, why=f"name at least one {name}")
    if len(texts) > MOST:
        raise BadOption(option=name, why=f"name at most {MOST} values")
    return list(dict.fromkeys(texts))


def checked_text_filter(name: str, value: Any) -> str | None:
    """Return the text to compare with, or None. Raises BadOption."""
    return None if value is None else _text(name, value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise BadOption(option=name, value=value, why="the value must be a text")
    return plain_text(value)


def cursor_from(text: Any) -> RunCursor | None:
    """Return the cursor that a page has returned as text; None if *text* is no cursor, but perhaps
    the id of a run. Raises BadOption if it is no text."""
    if not isinstance(text, str) or not is_storable(text):
        raise BadOption(option="after", value=text, why="the value must be a text")
    instant, separator, run_id = plain_text(text).partition(":")
    is_number = instant.isascii() and instant.isdigit() and len(instant) <= len(str(LAST_INSTANT))
    if not separator or not is_number:
        return None
    return RunCursor(int(instant), run_id)
