"""The surroundings of a document in a library, for the static checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from holdfast.authoring.wf.check.script_files import fault_of_script
from holdfast.authoring.wf.check.surroundings import (
    CalledWorkflow,
    ProviderFacts,
    SchemaFault,
    ScriptFault,
)
from holdfast.authoring.wf.document import Document
from holdfast.authoring.wf.providers import SHIPPED
from holdfast.authoring.wf.registrations import GLOBAL, Registrations
from holdfast.authoring.wf.schemas import read_schema
from holdfast.authoring.wf.scripts import search_folders
from holdfast.errors.wf_runs import BadRegistration


class LibrarySurroundings:
    """The workflows, executors, providers, gates, schemas and scripts of a library. A library in
    which nothing is registered does not know them: it may only start runs."""

    def __init__(self, library: Any) -> None:
        self._library: Any = library
        self._all: tuple[Registrations, Registrations] = (library.own, GLOBAL)
        self._is_configured: bool = any(
            part.executors or part.fallback or part.providers or part.resolvers
            for part in self._all
        )

    def workflow(self, name: str, caller: Document) -> CalledWorkflow | None:
        document = self._library.find_document(name, caller)
        if document is not None:
            return CalledWorkflow(name=name, document=document)
        if self._library.find_definition(name) is not None:
            return CalledWorkflow(name=name)
        return None

    def workflow_names(self, caller: Document) -> Sequence[str]:
        names: list[str] = self._library.names
        return names

    def used_file(self, path: str, caller: Document) -> str | None:
        if self._library.used_document(caller.path, path) is not None:
            return None
        return f"the file is missing, has errors, or is outside {self._library.root}"

    def executors(self) -> Set[str] | None:
        if any(part.fallback is not None for part in self._all):
            return None
        names = {name for part in self._all for name in part.executors}
        return names or None

    def resolves_path(self, path: str) -> bool:
        return self._library.find_executor(path) is not None

    def providers(self) -> Mapping[str, ProviderFacts] | None:
        if not self._is_configured:
            return None
        known = {**SHIPPED, **GLOBAL.providers, **self._library.own.providers}
        return {
            name: ProviderFacts(ordered=provider.ordered, needs_filter=provider.needs_filter)
            for name, provider in known.items()
        }

    def provider_faults(
        self, name: str, scope: Mapping[str, str], filter: Mapping[str, str]
    ) -> Sequence[str]:
        provider = self._library.find_provider(name)
        if provider is None or provider.check is None:
            return ()
        return [str(fault) for fault in provider.check(scope, filter) or ()]

    def gate_types(self) -> Set[str] | None:
        if not self._is_configured:
            return None
        return set(self._library.resolvers())

    def schema_fault(self, name: str, caller: Document) -> SchemaFault | None:
        library = self._library
        try:
            data = library.schema_data(caller.name, name)
            if data is not None:
                read_schema(name, data)
                return None
        except BadRegistration as error:
            return SchemaFault(is_missing=False, why=str(error.facts.get("why", error)))
        if any(name in part.schemas for part in self._all):
            return None
        if not library.folders and not self.schema_names(caller):
            return None
        return SchemaFault(is_missing=True, why=f"there is no schema {name}")

    def schema_names(self, caller: Document) -> Sequence[str]:
        registered = {name for part in self._all for name in part.schemas}
        files = {
            path.stem
            for folder in self._library.folders
            for base in (folder, folder / caller.name, folder.parent)
            for path in Path(base, "schemas").glob("*.yaml")
        }
        return sorted(registered | files)

    def script_fault(self, command: str, caller: Document) -> ScriptFault | None:
        library = self._library
        if not library.folders:
            return None
        return fault_of_script(command, search_folders(library.root, library.root))

    def allowed_targets(self) -> Set[str] | None:
        names = {name for part in self._all for name in part.targets}
        return names or None
