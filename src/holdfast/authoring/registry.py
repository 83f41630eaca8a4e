"""The workflows that this process has defined, by name.

Two modules may define workflows of one name, as test modules do. Then the name alone says nothing,
and nobody who knows only the name gets either of them; whoever has the function itself can still
start it.
"""

from __future__ import annotations

from typing import Any

from holdfast.errors import WorkflowExists

_known: dict[str, list[Any]] = {}
_meant: tuple[dict[str, list[Any]], dict[str, Any]] = ({}, {})
"""What was known, and which workflows were meant then."""


def register(workflow: Any) -> None:
    """Remember a workflow. One that is made anew, such as a local function or a module loaded
    twice, takes its own place; a local function does not come before one that a module defines."""
    global _known
    found = _known.get(workflow.name, [])
    if _is_local(workflow) and not all(_is_local(other) for other in found):
        return
    kept = [other for other in found if not _is_replaced(other, workflow)]
    _known = {**_known, workflow.name: [*kept, workflow]}  # anew, for other threads may be reading


def known() -> dict[str, Any]:
    """Return the workflows whose name says which one is meant, not to be changed: it is asked for
    each run that is taken up."""
    global _meant
    seen, meant = _meant
    if seen is not _known:
        seen = _known
        meant = {name: found[0] for name, found in seen.items() if len(found) == 1}
        _meant = (seen, meant)
    return meant


def check_name(name: str) -> None:
    """Refuse a name that two workflows want. Raises WorkflowExists."""
    found = _known.get(name, ())
    if len(found) > 1:
        raise WorkflowExists(
            name=name, first=_place(found[0].origin), second=_place(found[1].origin)
        )


def ambiguous() -> dict[str, list[str]]:
    """Return the names that several workflows want, each with where those are defined."""
    return {
        name: [_place(one.origin) for one in found]
        for name, found in _known.items()
        if len(found) > 1
    }


def _is_local(workflow: Any) -> bool:
    return "<locals>" in workflow.origin.__qualname__


def _is_replaced(old: Any, new: Any) -> bool:
    """A module may be loaded twice, as __main__ and by its name; two functions of one module are
    two."""
    same_file = old.origin.__code__.co_filename == new.origin.__code__.co_filename
    return _is_local(old) or (same_file and old.origin.__qualname__ == new.origin.__qualname__)


def _place(fn: Any) -> str:
    return f"{fn.__code__.co_filename}:{fn.__code__.co_firstlineno}"
