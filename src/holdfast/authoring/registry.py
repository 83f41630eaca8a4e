"""The registry of the workflows that this process has defined, by name.

Two modules may define workflows of the same name, as test modules do. Such a name is ambiguous:
a lookup by name finds neither of them, but a caller that has the function itself can start it.
"""

from __future__ import annotations

from typing import Any

from holdfast.errors import WorkflowExists

_registered: dict[str, list[Any]] = {}
"""All workflows by name. It is replaced, never changed, because other threads may be reading."""
_unambiguous: tuple[dict[str, list[Any]], dict[str, Any]] = ({}, {})
"""A cache of ``known``: the registrations it was made from, and the workflows with unique names."""


def register(workflow: Any) -> None:
    """Add a workflow.

    A workflow that is defined again, such as a local function or a module that is loaded twice,
    replaces its predecessor. A local function is ignored if a module defines the same name.
    """
    global _registered
    workflows = _registered.get(workflow.name, [])
    if _is_local(workflow) and not all(_is_local(other) for other in workflows):
        return
    kept = [other for other in workflows if not _is_replaced(other, workflow)]
    _registered = {**_registered, workflow.name: [*kept, workflow]}


def known() -> dict[str, Any]:
    """Return the workflows with unique names, by name. The caller must not change the dictionary.

    The result is cached, because it is needed for each run that a worker takes up.
    """
    global _unambiguous
    source, by_name = _unambiguous
    if source is not _registered:
        source = _registered
        by_name = {name: workflows[0] for name, workflows in source.items() if len(workflows) == 1}
        _unambiguous = (source, by_name)
    return by_name


def check_name(name: str) -> None:
    """Raise WorkflowExists if several workflows have this name."""
    workflows = _registered.get(name, ())
    if len(workflows) > 1:
        raise WorkflowExists(
            name=name, first=_place(workflows[0].origin), second=_place(workflows[1].origin)
        )


def ambiguous() -> dict[str, list[str]]:
    """Return each name that several workflows have, with the places that define them."""
    return {
        name: [_place(workflow.origin) for workflow in workflows]
        for name, workflows in _registered.items()
        if len(workflows) > 1
    }


def _is_local(workflow: Any) -> bool:
    return "<locals>" in workflow.origin.__qualname__


def _is_replaced(old: Any, new: Any) -> bool:
    """Return whether *new* is a later definition of *old*.

    A module may be loaded twice, as ``__main__`` and by its name, so file and qualified name are
    compared; two functions of one module are different workflows.
    """
    same_file = old.origin.__code__.co_filename == new.origin.__code__.co_filename
    return _is_local(old) or (same_file and old.origin.__qualname__ == new.origin.__qualname__)


def _place(fn: Any) -> str:
    return f"{fn.__code__.co_filename}:{fn.__code__.co_firstlineno}"
