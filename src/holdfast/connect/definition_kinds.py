"""The kinds of definitions whose source is data: found by name, and by what they read.

A front end registers its kind with the registry when its module is imported. It is imported when it
is needed first, so that an engine without texts and models loads none of it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.authoring import registry
from holdfast.authoring.registry import DefinitionKind, LoadContext
from holdfast.core.definitions import StoredDefinition
from holdfast.core.program import Definition
from holdfast.core.runs import RunRecord
from holdfast.core.schedules.model import ScheduleDeclaration
from holdfast.errors import HoldfastError
from holdfast.store.store import View

MODULES = {
    "bpmn": "holdfast.authoring.bpmn.kind",
    "dmn": "holdfast.authoring.dmn.kind",
    "wf": "holdfast.authoring.wf.kind",
}
"""The modules that register the kinds that are part of Holdfast."""


class DefinitionKinds:
    """The kinds of definitions, as one engine uses them."""

    def __init__(self, store: View, handlers: Mapping[str, Callable[..., Any]]) -> None:
        self._store: View = store
        self._handlers: Mapping[str, Callable[..., Any]] = handlers

    def find(self, name: str) -> DefinitionKind | None:
        """Return a kind by its name, or None."""
        kind = registry.find_kind(name)
        if kind is None and name in MODULES:
            _load_module(MODULES[name])
            kind = registry.find_kind(name)
        return kind

    def reading(self, source: Any) -> DefinitionKind | None:
        """Return the kind that reads a source, or None."""
        for name in MODULES:
            self.find(name)
        return next((kind for kind in registry.kinds() if kind.accepts(source)), None)

    def load(self, stored: StoredDefinition) -> Definition | None:
        """Return the definition that executes runs of *stored*; None if its kind is not known, or
        not executed. Raises HoldfastError if this process cannot execute it."""
        kind = self.find(stored.kind)
        if kind is None:
            return None
        return kind.load(stored, self.context(stored.namespace))

    def inspectable(self, namespace: str, name: str, version: str) -> Any:
        """Return the definition of a stored model, whether or not its handlers are known here: to
        see its runs, not to execute them; None if there is none."""
        for stored in self._store.definitions.of_route(namespace, name, version):
            kind = self.find(stored.kind)
            view = getattr(kind, "view", None)
            if view is not None:
                return view(stored, self.context(namespace))
        return None

    def startable(self, stored: StoredDefinition) -> Definition | None:
        """Return a deployed definition whose content its runs keep, whether or not it can be
        executed here; None if its runs name the version of the deployment."""
        kind = self.find(stored.kind)
        if not getattr(kind, "freezes", False):
            return None
        definition: Definition | None = getattr(kind, "view")(  # noqa: B009 - not in the protocol
            stored, self.context(stored.namespace)
        )
        return definition

    def schedules_of(self, stored: StoredDefinition) -> Sequence[ScheduleDeclaration]:
        """Return the schedules that start runs of a deployed definition."""
        schedules = getattr(self.find(stored.kind), "schedules", None)
        declared: Sequence[ScheduleDeclaration] = () if schedules is None else schedules(stored)
        return declared

    def handlers_of(self, run: RunRecord) -> Sequence[str] | None:
        """Return the tasks of a run's model that need handlers; None for a run without a model, or
        with a model that cannot be read here."""
        try:
            definition = self.inspectable(run.namespace, run.workflow, run.version)
        except HoldfastError:
            return None
        handlers: Sequence[str] | None = None
        if hasattr(definition, "needed_handlers"):
            handlers = definition.needed_handlers()
        return handlers

    def context(self, namespace: str) -> LoadContext:
        """Return what front ends may use when they read and load definitions."""

        def find(name: str, version: str | None, kind: str = "") -> StoredDefinition | None:
            if version is None:
                stored = self._store.definitions.current(namespace, name)
            else:
                stored = self._store.definitions.of_route(namespace, name, version)
            return next((each for each in stored if kind in ("", each.kind)), None)

        return LoadContext(self._handlers, find, self._store.now)


def _load_module(name: str) -> None:
    """Import the module of a kind; a front end that is not part of this installation has none."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
