"""Check ``.wf`` and ``.wft`` files for ``holdfast check``, and load them to judge their runs."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.authoring.wf.check.documents import check_document
from holdfast.authoring.wf.check.folder import FolderSurroundings
from holdfast.authoring.wf.check.surroundings import Surroundings
from holdfast.authoring.wf.checking import LibrarySurroundings
from holdfast.authoring.wf.files import read_file
from holdfast.authoring.wf.library import Library
from holdfast.cli.definition_files import CheckedFile
from holdfast.core.program import Definition


def check_files(paths: Sequence[str], using: bool) -> list[CheckedFile]:
    """Check files. Sub-workflows are looked up beside each file; with *using*, executors and
    everything else that is registered are known, too."""
    around: dict[str, Surroundings] = {}
    checked = []
    for path in paths:
        folder = os.path.dirname(path) or "."
        if folder not in around:
            around[folder] = _surroundings(folder) if using else FolderSurroundings(scripts=True)
        checked.append(_check_file(path, around[folder]))
    return checked


def _surroundings(folder: str) -> Surroundings:
    return LibrarySurroundings(Library(folder, root="."))


def _check_file(path: str, around: Surroundings) -> CheckedFile:
    outcome = read_file(path)
    document = outcome.document
    if document is None:
        return CheckedFile(path=path, problems=outcome.problems)
    problems = list(outcome.problems)
    if outcome.is_complete:
        problems += check_document(document, around)
        problems = list(dict.fromkeys(problems))
        problems.sort(key=lambda problem: (problem.line, problem.column))
    return CheckedFile(path=path, problems=problems, summary=document.summary())


def load_definitions(path: str) -> Mapping[str, Definition]:
    """Return the workflow of a file, for the judgement of runs of any version of it. It executes
    nothing: a fallback stands for executors that are not registered here."""
    document = read_file(path).document
    library = Library(os.path.dirname(path) or ".", root=".")
    if document is None or document.name not in library:
        return {}
    if library.find_executor("") is None:
        library.executor()(_never_called)
    workflow = copy.copy(library.workflow(document.name))
    workflow.accepts_versions = None
    return {document.name: workflow}


def _never_called(call: Any) -> None:
    raise AssertionError("a dry replay executes nothing")
