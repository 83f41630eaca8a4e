"""Validate and normalize the options that users pass, such as those of a start.

Each function returns the value in its stored form, or raises BadOption before anything is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from holdfast.core import duration
from holdfast.core.runs import MEMBER_MARK
from holdfast.core.text import is_storable, plain_text
from holdfast.errors import BadOption


def checked_call(option: str, value: Any) -> Any:
    """Return a callable or None. Raises BadOption."""
    if value is not None and not callable(value):
        raise BadOption(option=option, value=value, why="it must be a function")
    return value


def checked_tags(tags: Mapping[str, Any] | None) -> dict[str, str]:
    """Return tags with their values as text. Raises BadOption."""
    if tags is None:
        return {}
    if not isinstance(tags, Mapping):
        raise BadOption(
            option="tags", value=tags, why='give names and values, such as {"customer": "7"}'
        )
    texts: dict[str, str] = {}
    for name, value in tags.items():
        text = _as_text(value)
        if (
            not isinstance(name, str)
            or not name
            or text is None
            or not is_storable(f"{name}{text}")
        ):
            raise BadOption(
                option="tags", value={name: value}, why="a tag must have a name and a text"
            )
        texts[plain_text(name)] = text
    return texts


def _as_text(value: Any) -> str | None:
    """Return a text or a whole number as text; None for another type, and for a number with more
    digits than Python converts."""
    if isinstance(value, str):
        return plain_text(value)
    if not isinstance(value, int):
        return None
    try:
        return str(value)
    except ValueError:
        return None


def checked_text(option: str, value: Any) -> str | None:
    """Return a single line of text, 1 to 200 characters, or None. Raises BadOption."""
    if value is None:
        return None
    if (
        not isinstance(value, str)
        or not value
        or len(value) > 200
        or "\n" in value
        or not is_storable(value)
    ):
        raise BadOption(
            option=option, value=value, why="it must be a text of one line, 1 to 200 characters"
        )
    return plain_text(value)


def checked_run_id(value: Any) -> str | None:
    """Return the id that a caller chooses for a run, or None. Raises BadOption, also for an id in
    the form of a member of a graph."""
    run_id = checked_text("id", value)
    if run_id is not None and MEMBER_MARK in run_id:
        # a run with the id of a waiting member would make that member fail when it is started
        raise BadOption(
            option="id", value=value, why=f"ids with {MEMBER_MARK} belong to the members of graphs"
        )
    return run_id


def checked_string(option: str, value: Any) -> Any:
    """Return a storable text of any length, or None. Raises BadOption."""
    if value is None:
        return None
    if not isinstance(value, str) or not is_storable(value):
        raise BadOption(option=option, value=value, why="it must be a text, without NUL characters")
    return plain_text(value)


def checked_name(option: str, value: Any) -> str:
    """Return a single line of text, 1 to 200 characters and not blank. Raises BadOption."""
    name = checked_text(option, value)
    if name is None or not name.strip():
        raise BadOption(
            option=option, value=value, why="it must be a text of one line, 1 to 200 characters"
        )
    return name


def checked_signal(name: Any) -> str:
    """Return the name of a signal. Raises BadOption."""
    if not isinstance(name, str) or not name.strip() or not is_storable(name):
        raise BadOption(option="name", value=name, why="a signal must have a name")
    return plain_text(name)


def checked_reason(reason: Any) -> Any:
    """Return the reason of a cancellation, or None. Raises BadOption."""
    if reason is None:
        return None
    if not isinstance(reason, str) or not is_storable(reason):
        raise BadOption(option="reason", value=reason, why="it must be a text")
    return plain_text(reason)


def checked_start(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a start that are not None, checked, with durations in microseconds.

    Options with other names are returned unchanged: the caller knows which ones are allowed."""
    return {
        name: _START.get(name, _unchanged)(value)
        for name, value in options.items()
        if value is not None
    }


def _unchanged(value: Any) -> Any:
    return value


def checked_many(option: str, values: Any) -> list[Any]:
    """Return the items of an iterable as a list. Raises BadOption."""
    if not isinstance(values, Iterable):
        raise BadOption(option=option, value=values, why="it must be a collection, such as a list")
    return list(values)


def checked_one_or_many(option: str, value: Any) -> list[Any]:
    """Return one text, or the items of an iterable, as a list. Raises BadOption."""
    if isinstance(value, str):
        return [value]
    return checked_many(option, value)


def checked_flag(option: str, value: Any) -> bool:
    """Return a boolean. Raises BadOption."""
    if not isinstance(value, bool):
        raise BadOption(option=option, value=value, why="it must be True or False")
    return value


def checked_versions(version: Any, serves: Any) -> tuple[str, frozenset[str] | None]:
    """Return the version of a workflow and the set of versions that it serves, None for all.

    Raises BadOption."""
    own = checked_version("version", version)
    if serves is None:
        return own, None
    served = [checked_version("serves", item) for item in checked_many("serves", serves)]
    return own, frozenset({own, *served})


def checked_version(option: str, value: Any) -> str:
    """Return a version as text. Raises BadOption."""
    version = _as_text(value)
    if isinstance(value, bool) or not version or not is_storable(version):
        raise BadOption(option=option, value=value, why="a version is a text or a whole number")
    return version


def checked_words(option: str, words: str | Iterable[str] | None) -> list[str] | None:
    """Return one name or several names as a list, or None. Raises BadOption."""
    if words is None:
        return None
    names: list[Any] = [words]
    if isinstance(words, Iterable) and not isinstance(words, str):
        names = list(words)
    return [checked_text(option, name) or "" for name in names]


def checked_count(option: str, value: Any, *, least: int = 0) -> int:
    """Return a whole number of at least *least*. Raises BadOption."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadOption(
            option=option, value=value, why=f"it must be a whole number of at least {least}"
        )
    return min(int(value), 2**62)


def priority_of(value: Any) -> int:
    """Return a priority from -1000 to 1000. Raises BadOption."""
    if isinstance(value, bool) or not isinstance(value, int) or not -1000 <= value <= 1000:
        raise BadOption(
            option="priority", value=value, why="it must be a whole number from -1000 to 1000"
        )
    return int(value)


_START: dict[str, Callable[[Any], Any]] = {
    "id": checked_run_id,
    "lane": partial(checked_text, "lane"),
    "share": partial(checked_text, "share"),
    "priority": priority_of,
    "tags": checked_tags,
    "capabilities": lambda value: checked_capabilities(value),
    "delay": duration.parse,
    "deadline": duration.parse,
}
"""The check of each option of a start, by name."""

MOST_CAPABILITIES = 256
LONGEST_CAPABILITIES = 4096
"""The maximum length of all capabilities together, in bytes."""


def checked_capabilities(capabilities: str | Iterable[str]) -> tuple[str, ...]:
    """Return one capability or several, sorted and without duplicates. Raises BadOption."""
    if not isinstance(capabilities, Iterable):
        raise BadOption(
            option="capabilities", value=capabilities, why="capabilities are words without commas"
        )
    listed = checked_one_or_many("capabilities", capabilities)
    for capability in listed:
        if (
            not isinstance(capability, str)
            or not capability
            or "," in capability
            or not is_storable(capability)
            or any(character <= " " or character == "\x7f" for character in capability)
        ):
            raise BadOption(
                option="capabilities",
                value=capability,
                why="a capability is a word without commas",
            )
    unique = sorted({plain_text(capability) for capability in listed})
    if len(unique) > MOST_CAPABILITIES or len(",".join(unique).encode()) > LONGEST_CAPABILITIES:
        why = f"there may be {MOST_CAPABILITIES} of them, and {LONGEST_CAPABILITIES} bytes in all"
        raise BadOption(option="capabilities", value=f"{len(unique)} capabilities", why=why)
    return tuple(unique)
