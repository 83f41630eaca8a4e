"""Options of a start as users write them, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from holdfast.core import duration
from holdfast.core.runs import MEMBER_MARK
from holdfast.core.text import is_storable, plain_text
from holdfast.errors import BadOption


def checked_call(option: str, value: Any) -> Any:
    """Return something that can be called, or None; refuse anything else before anything is
    done."""
    if value is not None and not callable(value):
        raise BadOption(option=option, value=value, why="it is a function")
    return value


def checked_tags(tags: Mapping[str, Any] | None) -> dict[str, str]:
    """Return tags as text; refuse what is none."""
    if tags is None:
        return {}
    if not isinstance(tags, Mapping):
        raise BadOption(
            option="tags", value=tags, why='give names and values, such as {"customer": "7"}'
        )
    texts: dict[str, str] = {}
    for name, value in tags.items():
        text = _written(value)
        if (
            not isinstance(name, str)
            or not name
            or text is None
            or not is_storable(f"{name}{text}")
        ):
            raise BadOption(option="tags", value={name: value}, why="a tag has a name and a text")
        texts[plain_text(name)] = text
    return texts


def _written(value: Any) -> str | None:
    """Return a text or a whole number as text; None for anything else, and for a number of
    thousands of digits."""
    if isinstance(value, str):
        return plain_text(value)
    if not isinstance(value, int):
        return None
    try:
        return str(value)
    except ValueError:
        return None


def checked_text(option: str, value: Any) -> str | None:
    """Return a text of one line, or None; refuse anything else."""
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
    """Return the id that a caller chooses for a run, or None; refuse an id that belongs to a member
    of a graph."""
    run_id = checked_text("id", value)
    if (
        run_id is not None and MEMBER_MARK in run_id
    ):  # a run with the id of a member that waits would make that member fail
        raise BadOption(
            option="id", value=value, why=f"ids with {MEMBER_MARK} belong to the members of graphs"
        )
    return run_id


def checked_string(option: str, value: Any) -> Any:
    """Return a text of any length that a database can store, or None; refuse anything else."""
    if value is None:
        return None
    if not isinstance(value, str) or not is_storable(value):
        raise BadOption(option=option, value=value, why="it must be a text, without NUL characters")
    return plain_text(value)


def checked_name(option: str, value: Any) -> str:
    """Return a text of one line that must be there; refuse anything else."""
    name = checked_text(option, value)
    if name is None or not name.strip():
        raise BadOption(
            option=option, value=value, why="it must be a text of one line, 1 to 200 characters"
        )
    return name


def checked_signal(name: Any) -> str:
    """Return the name of a signal; refuse what is none."""
    if not isinstance(name, str) or not name.strip() or not is_storable(name):
        raise BadOption(option="name", value=name, why="a signal has a name")
    return plain_text(name)


def checked_reason(reason: Any) -> Any:
    """Return why a run is asked to stop, or None; refuse what is no text."""
    if reason is None:
        return None
    if not isinstance(reason, str) or not is_storable(reason):
        raise BadOption(option="reason", value=reason, why="it must be a text")
    return plain_text(reason)


def checked_start(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those options of a start that are given, checked; durations in microseconds. Options
    of other names stay as they are: whoever starts something knows which there may be."""
    return {
        name: _START[name](value) if name in _START else value
        for name, value in options.items()
        if value is not None
    }


def checked_many(option: str, values: Any) -> list[Any]:
    """Return several things as a list; refuse what holds none."""
    if not isinstance(values, Iterable):
        raise BadOption(option=option, value=values, why="give several, such as a list")
    return list(values)


def checked_flag(option: str, value: Any) -> bool:
    """Return whether something is wanted; refuse what says neither."""
    if not isinstance(value, bool):
        raise BadOption(option=option, value=value, why="it is True or False")
    return value


def checked_versions(version: Any, serves: Any) -> tuple[str, frozenset[str] | None]:
    """Return the version of a workflow, and all versions that it serves, None for any."""
    own = checked_version("version", version)
    if serves is None:
        return own, None
    return own, frozenset(
        {own, *(checked_version("serves", one) for one in checked_many("serves", serves))}
    )


def checked_version(option: str, value: Any) -> str:
    """Return a version as text; refuse what is none."""
    version = None if isinstance(value, bool) else _written(value)
    if not version or not is_storable(version):
        raise BadOption(option=option, value=value, why="a version is a text or a whole number")
    return version


def checked_words(option: str, given: str | Iterable[str] | None) -> list[str] | None:
    """Return names, of which one alone may be given as it is; refuse anything else."""
    if given is None:
        return None
    names = (
        [given]
        if isinstance(given, str)
        else list(given)
        if isinstance(given, Iterable)
        else [given]
    )
    return [checked_text(option, name) or "" for name in names]


def checked_count(option: str, value: Any, *, least: int = 0) -> int:
    """Return a number of things; refuse what is none."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadOption(option=option, value=value, why=f"it is a whole number, from {least} on")
    return min(int(value), 2**62)


def priority_of(value: Any) -> int:
    """Return a priority; refuse what is none."""
    if isinstance(value, bool) or not isinstance(value, int) or not -1000 <= value <= 1000:
        raise BadOption(
            option="priority", value=value, why="it is a whole number from -1000 to 1000"
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
"""How each option of a start is checked."""

MOST_CAPABILITIES, LONGEST_CAPABILITIES = 256, 4096


def checked_capabilities(capabilities: str | Iterable[str]) -> tuple[str, ...]:
    """Return them sorted, each once; refuse what could not be stored, and more than anybody
    needs."""
    if not isinstance(capabilities, Iterable):
        raise BadOption(
            option="capabilities", value=capabilities, why="they are words without commas"
        )
    found = [capabilities] if isinstance(capabilities, str) else list(capabilities)
    for one in found:
        if (
            not isinstance(one, str)
            or not one
            or "," in one
            or not is_storable(one)
            or any(x <= " " or x == "\x7f" for x in one)
        ):
            raise BadOption(
                option="capabilities", value=one, why="a capability is a word without commas"
            )
    found = sorted({plain_text(one) for one in found})
    if len(found) > MOST_CAPABILITIES or len(",".join(found).encode()) > LONGEST_CAPABILITIES:
        why = f"there may be {MOST_CAPABILITIES} of them, and {LONGEST_CAPABILITIES} bytes in all"
        raise BadOption(option="capabilities", value=f"{len(found)} capabilities", why=why)
    return tuple(found)
