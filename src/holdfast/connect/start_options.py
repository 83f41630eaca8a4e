"""The options of ``engine.start``, kept apart from the arguments of the workflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.core.unset import UNSET
from holdfast.errors import BadOption

START_OPTIONS = (
    "id",
    "key",
    "lane",
    "priority",
    "delay",
    "deadline",
    "tags",
    "capabilities",
    "namespace",
    "version",
    "policy",
    "budget",
    "share",
    "debounce",
    "max_wait",
    "batch",
    "within",
)


def split_options(
    workflow: Any, options: Mapping[str, Any], kwargs: dict[str, Any]
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return the workflow, the options of its start, and the keyword arguments of the workflow.

    ``workflow.options(...)`` has the options apart: then every keyword of the call is an argument
    of the workflow. Otherwise an option must not have the name of a parameter. Raises BadOption.
    """
    named = {name: value for name, value in options.items() if value is not UNSET}
    apart = getattr(workflow, "start_options", None)
    if apart is not None:
        own = dict(apart)
        if "connection" in named and "connection" not in workflow.signature.names:
            own["connection"] = named.pop("connection")  # ``options`` has no connection
        return workflow.workflow, own, {**named, **kwargs}
    if named:
        _refuse_clash(workflow, named)
    return workflow, named, kwargs


def _refuse_clash(workflow: Any, options: Mapping[str, Any]) -> None:
    """Raise BadOption if an option has the name of a parameter of the workflow."""
    signature = getattr(workflow, "signature", None)
    if signature is None:
        return
    for name in signature.names:
        if name in options:
            raise BadOption(
                option=name,
                why=f"{workflow.name}() has a parameter of this name: pass the argument by"
                f" position, or start {workflow.name}.options({name}=...), which has the options"
                " apart from the arguments",
            )
