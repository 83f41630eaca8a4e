"""What the checks see of the surroundings of a document: the workflows, executors and providers
that exist.

``Library`` implements ``Surroundings``. A set of names that is None is not known, and nothing that
would be in it is reported as missing: ``holdfast check`` without ``--using`` knows no executors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Protocol

import msgspec

from holdfast.authoring.wf.document import Document


class CalledWorkflow(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow that a document may call. *document* is None if it is not a ``.wf`` text (a Python
    workflow, a model): then its inputs and steps are not known."""

    name: str
    document: Document | None = None


class ProviderFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The abilities of an item provider."""

    ordered: bool = False
    needs_filter: bool = False


class Surroundings(Protocol):
    """The names around a document, for the static checks."""

    def workflow(self, name: str, caller: Document) -> CalledWorkflow | None:
        """Return the workflow that *caller* means by *name*: the workflows of its ``use`` first,
        then those of the library, then the registry. None if there is none."""
        ...

    def workflow_names(self, caller: Document) -> Sequence[str]:
        """Return the names of the workflows that *caller* can call, for hints."""
        ...

    def used_file(self, path: str, caller: Document) -> str | None:
        """Return why the file of a ``use`` cannot be used; None if it can."""
        ...

    def executors(self) -> Set[str] | None:
        """Return the names of the executors; None if they are not known, or if there is a
        fallback, which answers every call."""
        ...

    def resolves_path(self, path: str) -> bool:
        """Return whether a call of a path (an agent file) can be answered. Called only if
        ``executors`` is known."""
        ...

    def providers(self) -> Mapping[str, ProviderFacts] | None:
        """Return the item providers by name; None if they are not known."""
        ...

    def provider_faults(
        self, name: str, scope: Mapping[str, str], filter: Mapping[str, str]
    ) -> Sequence[str]:
        """Return the faults that a provider finds in a scope and a filter, as messages."""
        ...

    def gate_types(self) -> Set[str] | None:
        """Return the types of gates that have a resolver; None if they are not known."""
        ...

    def schema_fault(self, name: str, caller: Document) -> SchemaFault | None:
        """Return why a schema cannot be used; None if it can, or if schemas are not known."""
        ...

    def schema_names(self, caller: Document) -> Sequence[str]:
        """Return the names of the schemas, for hints."""
        ...

    def script_fault(self, command: str, caller: Document) -> ScriptFault | None:
        """Return why the file of a command line cannot be executed; None if it can, if it is a
        program on PATH, or if the folder of the scripts is not known. Commands with a placeholder
        in their first word are not asked about."""
        ...

    def allowed_targets(self) -> Set[str] | None:
        """Return the targets that ``meta`` may name; None if every word is allowed."""
        ...


class SchemaFault(msgspec.Struct, frozen=True, kw_only=True):
    """A schema that is missing (*is_missing*) or cannot be read."""

    is_missing: bool
    why: str


class ScriptFault(msgspec.Struct, frozen=True, kw_only=True):
    """A script that is missing (*is_missing*) or not executable."""

    is_missing: bool
    why: str
    hint: str = ""


class UnknownRegistrations:
    """The answers of surroundings that know no executors, providers, gates and schemas: nothing
    that a text names is refused."""

    def executors(self) -> Set[str] | None:
        return None

    def resolves_path(self, path: str) -> bool:
        return True

    def providers(self) -> Mapping[str, ProviderFacts] | None:
        return None

    def provider_faults(
        self, name: str, scope: Mapping[str, str], filter: Mapping[str, str]
    ) -> Sequence[str]:
        return ()

    def gate_types(self) -> Set[str] | None:
        return None

    def schema_fault(self, name: str, caller: Document) -> SchemaFault | None:
        return None

    def schema_names(self, caller: Document) -> Sequence[str]:
        return ()
