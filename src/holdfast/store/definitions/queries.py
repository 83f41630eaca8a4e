"""Queries about stored definitions."""

from __future__ import annotations

from typing import Any

from holdfast.core.definitions import DefinitionState, StoredDefinition, digest_of
from holdfast.store.reader import Reader


class DefinitionQueries:
    """Queries about stored definitions."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def of_route(self, namespace: str, name: str, version: str) -> list[StoredDefinition]:
        """Return the definitions that a run of this workflow and version may keep: one, unless
        kinds share the name."""
        return self._reader.all(
            definition_from, "definitions_of_route", namespace=namespace, name=name, version=version
        )

    def get(self, namespace: str, kind: str, name: str, version: str) -> StoredDefinition | None:
        """Return one version of a definition, or None."""
        return self._reader.first(
            definition_from,
            "definition",
            namespace=namespace,
            kind=kind,
            name=name,
            version=version,
        )

    def written_since(self, instant: int) -> list[tuple[str, str, str]]:
        """Return the namespaces, names and versions of the definitions that were written or used
        since then. Damaged rows are left out: they must not keep others from being found."""
        rows, _ = self._reader.sound_rows("definitions_since", instant=instant)
        return [(row["namespace"], row["name"], row["version"]) for row in rows]

    def active_names(self, namespace: str | None) -> list[tuple[str, str]]:
        """Return the names and kinds of the deployed definitions that new runs use, in one
        namespace or in all. Damaged rows are left out."""
        rows, _ = self._reader.sound_rows("active_names", namespace=namespace or "")
        return [(row["name"], row["kind"]) for row in rows]

    def current(self, namespace: str, name: str) -> list[StoredDefinition]:
        """Return the deployed definitions of that name that new runs use: one, unless kinds share
        the name."""
        return self._reader.all(
            definition_from, "current_definitions", namespace=namespace, name=name
        )

    def deployed(
        self, namespace: str, *, kind: str | None = None, name: str | None = None
    ) -> list[StoredDefinition]:
        """Return all versions of the deployed definitions, by name and version."""
        return self._reader.listed(
            definition_from, "listed_definitions", namespace=namespace, kind=kind, name=name
        )


def definition_from(row: Any) -> StoredDefinition:
    """Return the definition of a row. Raises ValueError if its content is not the one that was
    stored: no run may execute it."""
    content = bytes(row["content"])
    state = DefinitionState(row["state"])
    if digest_of(content) != row["digest"]:
        raise ValueError("the content does not have the digest of the definition")
    if state is not DefinitionState.FROZEN and not row["version"].isdecimal():
        raise ValueError("the version of a deployed definition is not a number")
    return StoredDefinition(
        namespace=row["namespace"],
        kind=row["kind"],
        name=row["name"],
        version=row["version"],
        digest=row["digest"],
        content=content,
        state=state,
        deployed_at=row["deployed_at"],
        by=row["deployed_by"],
    )
