"""Options of a start as users write them, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.core.texts import is_storable
from holdfast.errors import BadOption


def checked_tags(tags: Mapping[str, Any]) -> dict[str, str]:
    """Return tags as text; refuse what is none."""
    if not isinstance(tags, Mapping):
        raise BadOption(option="tags", value=tags, why='give names and values, such as {"customer": "7"}')
    for name, value in tags.items():
        if not isinstance(name, str) or not name or not isinstance(value, str | int) or not is_storable(f"{name}{value}"):
            raise BadOption(option="tags", value={name: value}, why="a tag has a name and a text")
    return {name: str(value) for name, value in tags.items()}


def checked_text(option: str, value: Any) -> str | None:
    """Return a text of one line, or None; refuse anything else."""
    if value is None:
        return None
    if not isinstance(value, str) or not value or len(value) > 200 or "\n" in value or not is_storable(value):
        raise BadOption(option=option, value=value, why="it must be a text of one line, 1 to 200 characters")
    return value


def checked_words(option: str, given: str | Iterable[str] | None) -> list[str] | None:
    """Return names, of which one alone may be given as it is; refuse anything else."""
    if given is None:
        return None
    names = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]
    return [checked_text(option, name) or "" for name in names]


def checked_count(option: str, value: Any, *, least: int = 0) -> int:
    """Return a number of things; refuse what is none."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadOption(option=option, value=value, why=f"it is a whole number, from {least} on")
    return min(value, 2**62)


def priority_of(value: Any) -> int:
    """Return a priority; refuse what is none."""
    if isinstance(value, bool) or not isinstance(value, int) or not -1000 <= value <= 1000:
        raise BadOption(option="priority", value=value, why="it is a whole number from -1000 to 1000")
    return value


MOST_CAPABILITIES, LONGEST_CAPABILITIES = 256, 4096


def checked_capabilities(capabilities: str | Iterable[str]) -> tuple[str, ...]:
    """Return them sorted, each once; refuse what could not be stored, and more than anybody needs."""
    if not isinstance(capabilities, Iterable):
        raise BadOption(option="capabilities", value=capabilities, why="they are words without commas")
    found = [capabilities] if isinstance(capabilities, str) else list(capabilities)
    for one in found:
        if not isinstance(one, str) or not one or "," in one or not is_storable(one) or any(x <= " " or x == "\x7f" for x in one):
            raise BadOption(option="capabilities", value=one, why="a capability is a word without commas")
    found = sorted(set(found))
    if len(found) > MOST_CAPABILITIES or len(",".join(found).encode()) > LONGEST_CAPABILITIES:
        why = f"there may be {MOST_CAPABILITIES} of them, and {LONGEST_CAPABILITIES} bytes in all"
        raise BadOption(option="capabilities", value=f"{len(found)} capabilities", why=why)
    return tuple(found)
