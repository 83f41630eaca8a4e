"""The workflows that this process has defined, by name."""

from __future__ import annotations

from typing import Any

from holdfast.errors import WorkflowExists

_known: dict[str, Any] = {}


def register(workflow: Any) -> None:
    """Remember a workflow. Two that are not the same function at heart may not share a name."""
    other = _known.get(workflow.name)
    if other is not None and not _may_replace(other.fn, workflow.fn):
        raise WorkflowExists(name=workflow.name, first=_place(other.fn), second=_place(workflow.fn))
    _known[workflow.name] = workflow


def known() -> dict[str, Any]:
    """Return all workflows defined so far."""
    return dict(_known)


def _may_replace(old: Any, new: Any) -> bool:
    """A module may be loaded twice (as __main__ and by name), or again; a local function is made anew each time."""
    same_file = old.__code__.co_filename == new.__code__.co_filename
    return same_file or "<locals>" in old.__qualname__ or "<locals>" in new.__qualname__


def _place(fn: Any) -> str:
    return f"{fn.__code__.co_filename}:{fn.__code__.co_firstlineno}"
