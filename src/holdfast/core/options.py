"""Options of a start as users write them, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.errors import BadOption


def checked_tags(tags: Mapping[str, Any]) -> dict[str, str]:
    """Return tags as text; refuse what is none."""
    if not isinstance(tags, Mapping):
        raise BadOption(option="tags", value=tags, why='give names and values, such as {"customer": "7"}')
    for name, value in tags.items():
        if not isinstance(name, str) or not name or not isinstance(value, str | int):
            raise BadOption(option="tags", value={name: value}, why="a tag has a name and a text")
    return {name: str(value) for name, value in tags.items()}


def checked_text(option: str, value: Any) -> str | None:
    """Return a text of one line, or None; refuse anything else."""
    if value is None:
        return None
    if not isinstance(value, str) or not value or len(value) > 200 or "\n" in value:
        raise BadOption(option=option, value=value, why="it must be a text of one line, 1 to 200 characters")
    return value


def priority_of(value: Any) -> int:
    """Return a priority; refuse what is none."""
    if isinstance(value, bool) or not isinstance(value, int) or not -1000 <= value <= 1000:
        raise BadOption(option="priority", value=value, why="it is a whole number from -1000 to 1000")
    return value


MOST_CAPABILITIES, LONGEST_CAPABILITIES = 256, 4096


def checked_capabilities(capabilities: str | Iterable[str]) -> tuple[str, ...]:
    """Return them sorted, each once; refuse what could not be stored, and more than anybody needs."""
    found = {capabilities} if isinstance(capabilities, str) else set(capabilities)
    for one in found:
        if not isinstance(one, str) or not one or "," in one or any(letter <= " " or letter == "\x7f" for letter in one):
            raise BadOption(option="capabilities", value=one, why="a capability is a word without commas")
    if len(found) > MOST_CAPABILITIES or len(",".join(found).encode()) > LONGEST_CAPABILITIES:
        why = f"there may be {MOST_CAPABILITIES} of them, and {LONGEST_CAPABILITIES} bytes in all"
        raise BadOption(option="capabilities", value=f"{len(found)} capabilities", why=why)
    return tuple(sorted(found))
