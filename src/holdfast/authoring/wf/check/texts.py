"""The surroundings of texts that were sent, not read: no file of this machine is looked at, because
the answer would tell which files there are."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping, Sequence, Set

from holdfast.authoring.wf.check.surroundings import (
    CalledWorkflow,
    ScriptFault,
    UnknownRegistrations,
)
from holdfast.authoring.wf.document import Document


class TextSurroundings(UnknownRegistrations):
    """The documents that were sent together, by path, and the names of other workflows that exist.
    Executors, providers, gates, schemas and scripts are not known."""

    def __init__(self, files: Mapping[str, Document | None], known: Collection[str]) -> None:
        self._files: dict[str, Document | None] = {
            posixpath.normpath(path): document for path, document in files.items()
        }
        documents = [document for document in self._files.values() if document is not None]
        self._documents: dict[str, Document] = {each.name: each for each in documents}
        self._known: frozenset[str] = frozenset(known)

    def workflow(self, name: str, caller: Document) -> CalledWorkflow | None:
        document = caller if name == caller.name else self._documents.get(name)
        if document is not None:
            return CalledWorkflow(name=name, document=document)
        return CalledWorkflow(name=name) if name in self._known else None

    def workflow_names(self, caller: Document) -> Sequence[str]:
        return sorted({caller.name, *self._documents, *self._known})

    def used_file(self, path: str, caller: Document) -> str | None:
        full = posixpath.normpath(posixpath.join(posixpath.dirname(caller.path), path))
        if full not in self._files:
            return "the file was not sent"
        return None if self._files[full] is not None else "the file has errors"

    def script_fault(self, command: str, caller: Document) -> ScriptFault | None:
        return None

    def allowed_targets(self) -> Set[str] | None:
        return None
