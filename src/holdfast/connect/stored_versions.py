"""The texts and models that the live runs of a database keep, for their judgement without files."""

from __future__ import annotations

from typing import Any

from holdfast.connect.components import Components
from holdfast.core.program import Definition
from holdfast.core.runs import RunRecord
from holdfast.errors import HoldfastError


class StoredVersions:
    """All stored versions of one text or model, as one definition: a run is replayed with the
    version that it keeps. Everything but ``program`` is that of one version."""

    def __init__(self, any_version: Any) -> None:
        self.accepts_versions: frozenset[str] | None = None
        self._any_version: Any = any_version
        self._versions: dict[tuple[str, str], Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._any_version, name)

    def add(self, namespace: str, version: str, definition: Any) -> None:
        self._versions[namespace, version] = definition

    def program(self, run: RunRecord, context: Any) -> Any:
        """Return the program of a run. Raises KeyError if its definition is not stored."""
        return self._versions[run.namespace, run.version].program(run, context)


def stored_versions(parts: Components) -> dict[str, Definition]:
    """Return the texts and models that runs of the database keep, by name. A definition that
    cannot be read here is left out."""
    definitions: dict[str, Any] = {}
    for route in parts.store.runs.routes().values():
        try:
            stored = parts.kinds.inspectable(route.namespace, route.workflow, route.version)
        except HoldfastError:
            continue
        if stored is not None:
            versions = definitions.setdefault(route.workflow, StoredVersions(stored))
            versions.add(route.namespace, route.version, stored)
    return definitions
