"""The registry of the definitions that this process knows, of every kind, by name.

A front end registers each definition together with its source. If two sources define workflows of
the same name, the worker of the process refuses to start: runs are stored by name, so it could
execute the one with the code of the other.

A front end whose source is data also registers its kind of definition: how a source becomes content
that is stored, and how stored content becomes a definition. It knows no store.

A test process is the exception, because pytest imports test modules that never run together. There
such a name is ambiguous: a lookup by name finds neither of them, but a caller that has the
definition itself can start it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from holdfast.core.definitions import CompiledDefinition, StoredDefinition
from holdfast.core.program import Definition
from holdfast.errors import WorkflowExists


class DefinitionSource(NamedTuple):
    """The place that defines a workflow."""

    file: str
    line: int
    name: str
    """Unique within the file; a local function has ``<locals>`` in it."""
    module: str = ""
    """The name of the module, as it was loaded."""

    @property
    def is_local(self) -> bool:
        """Whether it is a local function, which may be defined again and again."""
        return "<locals>" in self.name

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class LoadContext(NamedTuple):
    """What an engine provides when stored content becomes a definition."""

    handlers: Mapping[str, Any]
    """The functions that were passed to the engine, by name; they precede those of the process."""
    find: Callable[..., StoredDefinition | None]
    """Returns the deployed definition of a name and a version, of any kind or of the kind that is
    the third argument; without a version, the one that new runs use."""
    now: Callable[[], int] = lambda: 0
    """Returns the time of the store, in microseconds since 1970."""

    def time(self) -> datetime:
        """Return the time of the store."""
        return datetime.fromtimestamp(self.now() / 1_000_000, UTC)


class DefinitionKind(Protocol):
    """A kind of definition whose source is data: how it is read, stored and loaded.

    The module ``holdfast.authoring.KIND.kind`` registers it when it is imported.
    """

    kind: str

    def accepts(self, source: Any) -> bool:
        """Return whether this front end reads sources like this: by its suffix, its type or its
        first bytes."""

    def compile(
        self, sources: Sequence[Any], options: Mapping[str, Any], context: LoadContext
    ) -> list[CompiledDefinition]:
        """Return the definitions of sources that are deployed together. Raises ModelUnreadable, and
        ModelRefused with all problems of all sources."""

    def load(self, stored: StoredDefinition, context: LoadContext) -> Definition | None:
        """Return the definition that executes runs of *stored*; None if nothing is executed, as of
        a decision. Raises HoldfastError if this process cannot execute it."""

    def describe(self, stored: StoredDefinition) -> Mapping[str, Any]:
        """Return the facts about stored content that ``engine.models`` shows, such as ``xml`` and
        ``problems``."""


class _Registration(NamedTuple):
    definition: Definition
    source: DefinitionSource


PYTEST_PLUGIN = "holdfast.testing.plugin"
"""The module that pytest loads at its start, if Holdfast is installed."""

_registered: dict[str, list[_Registration]] = {}
"""All definitions by name. It is replaced, never changed, because other threads may be reading."""
_unambiguous: tuple[dict[str, list[_Registration]], dict[str, Definition]] = ({}, {})
"""A cache of ``unique_definitions``: the registrations it was made from, and the definitions."""


_kinds: dict[str, DefinitionKind] = {}
"""The kinds of definitions whose source is data, by name."""


def register_kind(kind: DefinitionKind) -> None:
    """Add a kind of definition, in place of another one of that name."""
    _kinds[kind.kind] = kind


def find_kind(name: str) -> DefinitionKind | None:
    """Return a kind of definition, or None."""
    return _kinds.get(name)


def kinds() -> list[DefinitionKind]:
    """Return the registered kinds of definitions."""
    return list(_kinds.values())


def register(definition: Definition, source: DefinitionSource) -> None:
    """Add a definition.

    A workflow that is defined again, such as a local function or a module that is loaded twice,
    replaces its predecessor. A local function is ignored if a module defines the same name.
    """
    global _registered
    registrations = _registered.get(definition.name, [])
    if source.is_local and not all(other.source.is_local for other in registrations):
        return
    kept = [other for other in registrations if not _is_replaced(other.source, source)]
    _registered = {**_registered, definition.name: [*kept, _Registration(definition, source)]}


def unique_definitions() -> Mapping[str, Definition]:
    """Return the definitions with unique names, by name.

    The result is cached, because it is needed for each run that a worker takes up.
    """
    global _unambiguous
    source, by_name = _unambiguous
    if source is not _registered:
        source = _registered
        by_name = {
            name: registrations[0].definition
            for name, registrations in source.items()
            if len(registrations) == 1
        }
        _unambiguous = (source, by_name)
    return by_name


def find(name: str) -> Definition | None:
    """Return the definition of that name, of whatever kind; None if there is none, or several."""
    return unique_definitions().get(name)


def check_name(name: str) -> None:
    """Raise WorkflowExists if several definitions have this name."""
    registrations = _registered.get(name, ())
    if len(registrations) > 1:
        first, second = registrations[:2]
        raise WorkflowExists(name=name, first=str(first.source), second=str(second.source))


def is_test_process() -> bool:
    """Return whether pytest runs this process, with modules that never run together elsewhere."""
    return PYTEST_PLUGIN in sys.modules


def require_unique(name: str | None = None) -> None:
    """Raise WorkflowExists if several definitions have this name, or any name if None is given;
    never in a test process."""
    if is_test_process():
        return
    for checked in ambiguous() if name is None else (name,):
        check_name(checked)


def place_of(definition: Definition) -> str:
    """Return the place that defines a workflow; its description if that is not registered."""
    for registration in _registered.get(definition.name, ()):
        if registration.definition is definition:
            return str(registration.source)
    return repr(definition)


def by_name(workflows: Iterable[Definition]) -> dict[str, Definition]:
    """Return workflows by name. Raises WorkflowExists if two of them have the same name."""
    by_name: dict[str, Definition] = {}
    for workflow in workflows:
        other = by_name.setdefault(workflow.name, workflow)
        if _without_options(other) is not _without_options(workflow):
            raise WorkflowExists(
                name=workflow.name,
                first=place_of(other),
                second=place_of(workflow),
            )
    return by_name


def _without_options(workflow: Definition) -> object:
    return getattr(workflow, "workflow", workflow)


def ambiguous() -> dict[str, list[str]]:
    """Return each name that several definitions have, with the places that define them."""
    return {
        name: [str(registration.source) for registration in registrations]
        for name, registrations in _registered.items()
        if len(registrations) > 1
    }


def _is_replaced(old: DefinitionSource, new: DefinitionSource) -> bool:
    """Return whether *new* is a later definition of *old*.

    A module may be loaded twice, as ``__main__`` and by its name, so file and name are compared;
    two functions of one module are different workflows. In a notebook each version of a cell has a
    file of its own, but all of them are ``__main__``.
    """
    if old.is_local:
        return True
    if old.name != new.name:
        return False
    if old.module == new.module == "__main__":
        return True
    return os.path.realpath(old.file) == os.path.realpath(new.file)
