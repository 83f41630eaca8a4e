"""Check files with definitions: one checker per ending of a file name.

Another kind of definition is one row of ``CHECKERS``; its checker is imported on first use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

import msgspec

from holdfast.core.program import Definition


class CheckedFile(msgspec.Struct, kw_only=True):
    """The outcome of checking one file. *summary* describes the definition, if it could be read."""

    path: str
    problems: Sequence[Any]
    """Each is a ``Problem``, or has its ``is_error`` and its text."""
    summary: dict[str, Any] = {}

    @property
    def ok(self) -> bool:
        return not any(problem.is_error for problem in self.problems)

    def as_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "ok": self.ok,
            "problems": [msgspec.to_builtins(problem) for problem in self.problems],
            **self.summary,
        }

    def lines(self) -> list[str]:
        """Return the outcome for people."""
        if not self.problems:
            return [f"{self.path}: ok"]
        return [str(problem) for problem in self.problems]


FileChecker = Callable[[Sequence[str], bool], list[CheckedFile]]
"""Check files. The second argument is whether ``--using`` has registered executors."""

CHECKERS: dict[str, str] = {
    ".dmn": "holdfast.cli.dmn_files:check_files",
    ".bpmn": "holdfast.cli.bpmn_files:check_files",
    ".wf": "holdfast.cli.wf_files:check_files",
    ".wft": "holdfast.cli.wf_files:check_files",
}
"""The checker of each ending, as MODULE:NAME."""


LOADERS: dict[str, str] = {
    ".bpmn": "holdfast.cli.bpmn_files:load_definitions",
    ".wf": "holdfast.cli.wf_files:load_definitions",
}
"""The function that returns the definitions of files with an ending, as MODULE:NAME."""


def is_definition_path(path: str) -> bool:
    """Return whether a path is a folder, or a file that a checker knows by its ending."""
    return os.path.splitext(path)[1] in CHECKERS or os.path.isdir(path)


def without_files(paths: Iterable[str]) -> list[str]:
    """Return the folders that have nothing to check: their names may be mistyped."""
    return [path for path in paths if not files_of(path, CHECKERS)]


def check_definitions(paths: Iterable[str], *, using: bool) -> list[CheckedFile]:
    """Check files and the files in folders, in the order of the paths."""
    files = [file for path in paths for file in files_of(path, CHECKERS)]
    by_checker: dict[str, list[str]] = {}
    for file in files:
        by_checker.setdefault(CHECKERS[os.path.splitext(file)[1]], []).append(file)
    checked: dict[str, CheckedFile] = {}
    for checker, group in by_checker.items():
        check: FileChecker = _imported(checker)
        checked.update((outcome.path, outcome) for outcome in check(group, using))
    return [checked[file] for file in dict.fromkeys(files)]


def load_definitions(paths: Iterable[str]) -> dict[str, Definition]:
    """Return the definitions of files without errors, by name, to judge runs of any version."""
    definitions: dict[str, Definition] = {}
    for file in (file for path in paths for file in files_of(path, LOADERS)):
        loader = LOADERS.get(os.path.splitext(file)[1])
        if loader is not None:
            definitions.update(_imported(loader)(file))
    return definitions


def _imported(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def files_of(path: str, endings: Iterable[str]) -> list[str]:
    """Return a file, or all files of a folder with some endings; hidden folders are included,
    because real projects keep workflows in them."""
    if not os.path.isdir(path):
        return [path]
    wanted = frozenset(endings)
    return sorted(
        os.path.join(folder, name)
        for folder, _, names in os.walk(path)
        for name in names
        if os.path.splitext(name)[1] in wanted and not _is_ignored(folder, path)
    )


def _is_ignored(folder: str, root: str) -> bool:
    parts = os.path.relpath(folder, root).split(os.sep)
    return any(part in (".git", ".venv", "node_modules", "__pycache__") for part in parts)
