"""The identity of a definition: how a command names the workflow that it starts."""

from __future__ import annotations

from typing import Any

import msgspec


class DefinitionRef(msgspec.Struct, frozen=True):
    """The workflow that a command starts, of whatever kind.

    A caller may know no more than its name: any worker that serves the route of the new run can
    execute it.
    """

    name: str
    version: str
    kind: str = ""
    """The front end of the definition; empty if the caller does not know it."""
    definition: Any = None
    """The definition itself, if the caller has it. The worker of the caller learns it, so that it
    can execute a workflow that is not registered, or whose name is ambiguous."""


def ref_to(definition: Any) -> DefinitionRef:
    """Return the reference to a definition that the caller has."""
    return DefinitionRef(definition.name, definition.version, definition.kind, definition)
