"""The surroundings of files on disk: the workflows beside a file. Nothing else is known."""

from __future__ import annotations

import os
from collections.abc import Sequence, Set

from holdfast.authoring.wf.check.script_files import fault_of_script, folders_beside
from holdfast.authoring.wf.check.surroundings import (
    CalledWorkflow,
    ScriptFault,
    UnknownRegistrations,
)
from holdfast.authoring.wf.document import Document
from holdfast.authoring.wf.files import read_file


class FolderSurroundings(UnknownRegistrations):
    """The workflows in the folders of the checked files, by their declared names, and their scripts
    if *scripts* is set. Executors, providers, gates and schemas are not known."""

    def __init__(self, *, scripts: bool = False) -> None:
        self._checks_scripts: bool = scripts
        self._folders: dict[str, dict[str, CalledWorkflow]] = {}
        self._used: dict[str, Document | None] = {}

    def workflow(self, name: str, caller: Document) -> CalledWorkflow | None:
        for path in caller.uses:
            document = self._used_document(path.text, caller)
            if document is not None and document.name == name:
                return CalledWorkflow(name=name, document=document)
        if name == caller.name:
            return CalledWorkflow(name=name, document=caller)
        return self._beside(caller).get(name)

    def workflow_names(self, caller: Document) -> Sequence[str]:
        used = [self._used_document(path.text, caller) for path in caller.uses]
        names = {document.name for document in used if document is not None}
        return sorted({*names, *self._beside(caller), caller.name})

    def used_file(self, path: str, caller: Document) -> str | None:
        full = self.used_path(path, caller)
        if not os.path.isfile(full):
            return "there is no such file"
        return None if self._used_document(path, caller) else "the file has errors"

    def script_fault(self, command: str, caller: Document) -> ScriptFault | None:
        if not self._checks_scripts:
            return None
        return fault_of_script(command, folders_beside(caller.path))

    def allowed_targets(self) -> Set[str] | None:
        return None

    def file_of(self, name: str, caller: Document) -> str | None:
        """Return the path of the file that defines a workflow."""
        called = self.workflow(name, caller)
        if called is None or called.document is None:
            return None
        return called.document.path

    def _beside(self, caller: Document) -> dict[str, CalledWorkflow]:
        """Return the workflows in the folder of a document. A file that has errors counts by its
        declared name, or by its file name if it declares none."""
        folder = os.path.dirname(caller.path) or "."
        if folder not in self._folders:
            self._folders[folder] = _workflows_of(folder)
        return self._folders[folder]

    def _used_document(self, path: str, caller: Document) -> Document | None:
        full = self.used_path(path, caller)
        if full not in self._used:
            self._used[full] = read_file(full).document if os.path.isfile(full) else None
        return self._used[full]

    def used_path(self, path: str, caller: Document) -> str:
        """Return the path of a file that a document uses."""
        return os.path.normpath(os.path.join(os.path.dirname(caller.path), path))


def _workflows_of(folder: str) -> dict[str, CalledWorkflow]:
    workflows: dict[str, CalledWorkflow] = {}
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".wf"))
    except OSError:
        return workflows
    for name in names:
        document = read_file(os.path.join(folder, name)).document
        declared = document.name if document is not None else name.removesuffix(".wf")
        workflows[declared] = CalledWorkflow(name=declared, document=document)
    return workflows
