"""Refuse names that a workflow of the process and a deployed definition share.

Runs are stored by name. If both had one name, the workflow of the process would execute the runs of
the deployed definition, which would never be executed itself. A process notices that when it
deploys, when its worker starts, and when it first starts a run by the name.

A test process has workflows of modules that never run together. There only the workflows that were
passed to the engine count, as in ``registry.require_unique``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from holdfast.authoring import registry
from holdfast.core.definitions import CompiledDefinition, StoredDefinition
from holdfast.core.program import Definition
from holdfast.errors import WorkflowExists
from holdfast.service.runs import WITHOUT_RUNS
from holdfast.store.store import Store


class SharedNames:
    """Checks the names of one engine."""

    def __init__(self, store: Store, known: Callable[[], Mapping[str, Definition]]) -> None:
        self._store: Store = store
        self._known: Callable[[], Mapping[str, Definition]] = known
        self._checked: set[tuple[str, str]] = set()
        """The namespaces and names that were checked when a run was started by them."""

    def check_deployment(self, compiled: Iterable[CompiledDefinition | StoredDefinition]) -> None:
        """Raise WorkflowExists if a workflow of this process has the name of a definition that is
        about to be deployed or activated."""
        for definition in compiled:
            if definition.kind not in WITHOUT_RUNS:
                self._check(definition.name, definition.kind)

    def check_all(self, namespace: str | None) -> None:
        """Raise WorkflowExists if a deployed definition that new runs use has the name of a
        workflow of this process. One query."""
        known = self._known()
        if not any(map(_is_code, known.values())):
            return
        for name, kind in self._store.definitions.active_names(namespace):
            if kind not in WITHOUT_RUNS:
                self._check(name, kind)

    def check_start(self, namespace: str, name: str) -> None:
        """Raise WorkflowExists if a run is to be started by a name that a workflow of this process
        shares with a deployed definition. One query for each name."""
        if (namespace, name) in self._checked or not _is_code(self._known().get(name)):
            return
        for definition in self._store.definitions.current(namespace, name):
            if definition.kind not in WITHOUT_RUNS:
                self._check(name, definition.kind)
        self._checked.add((namespace, name))

    def _check(self, name: str, kind: str) -> None:
        workflow = self._known().get(name)
        if workflow is not None and _is_code(workflow):
            raise WorkflowExists(
                name=name,
                first=registry.place_of(workflow),
                second=f"a deployed definition of kind {kind}",
                why="a deployed definition can be deprecated, so that the workflow replaces it",
            )


def _is_code(definition: Definition | None) -> bool:
    """Return whether a definition is code of this process, not a text or model that it has read."""
    return definition is not None and definition.kind == "python"
