"""``Library``: the workflows of folders and texts, and what executes them.

A later folder overrides an earlier one by the declared name of a workflow. A definition that cannot
be read is listed in ``problems`` and does not affect the others.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.authoring import registry
from holdfast.authoring.wf.bundle import Bundle, BundleContent, reachable, used_path
from holdfast.authoring.wf.check.documents import check_document
from holdfast.authoring.wf.checking import LibrarySurroundings
from holdfast.authoring.wf.document import Document
from holdfast.authoring.wf.files import read_file
from holdfast.authoring.wf.parser import parse
from holdfast.authoring.wf.registration_lookup import RegistrationLookup
from holdfast.authoring.wf.registrations import GLOBAL, Registrations
from holdfast.authoring.wf.schemas import OutputSchema, read_schema
from holdfast.authoring.wf.settings import apply_settings, find_settings
from holdfast.authoring.wf.workflow import TextWorkflow
from holdfast.authoring.wf.yaml_text import YamlProblem, read_yaml
from holdfast.core.problems import Problem, did_you_mean
from holdfast.errors import BadWorkflow, UnknownWorkflow
from holdfast.errors.wf_runs import BadRegistration

_LATER = frozenset({"missing-script", "not-executable"})

LARGEST_SCHEMA = 1_000_000
"""Bytes of the largest schema file."""


_live: list[weakref.ref[Library]] = []
"""The libraries of this process, the newest last."""


def live_libraries() -> list[Library]:
    """Return the libraries of this process, the newest first; an empty one if there is none. An
    engine that was given none executes stored texts with them."""
    _live[:] = [reference for reference in _live if reference() is not None]
    libraries = [library for reference in reversed(_live) if (library := reference()) is not None]
    return libraries or [Library()]


class Library:
    """The text workflows of folders, and their executors, providers, resolvers, environments and
    schemas. Indexing by name returns a workflow that an engine can start."""

    def __init__(
        self, *folders: str | os.PathLike[str], root: str | os.PathLike[str] = "."
    ) -> None:
        self.folders: list[Path] = [Path(folder) for folder in folders]
        self.root: str = os.path.abspath(os.fspath(root))
        self.problems: list[Problem] = []
        """The problems of definitions that could not be read."""
        self.own: Registrations = Registrations()
        self._documents: dict[str, Document] = {}
        self._texts: dict[str, Document] = {}
        """All documents by path, also the ones that only ``use`` names."""
        self._workflows: dict[str, TextWorkflow] = {}
        self._used: dict[str, Document | None] = {}
        self._raw_schemas: dict[str, Any] = {}
        self.executor = self.own.executor
        self.provider = self.own.provider
        self.resolver = self.own.resolver
        self.environment = self.own.environment
        self.allow_targets = self.own.allow_targets
        self.own.owner = self
        lookup = RegistrationLookup(self.own)
        self.find_executor = lookup.find_executor
        self.find_provider = lookup.find_provider
        self.find_resolver = lookup.find_resolver
        self.resolvers = lookup.resolvers
        self.environments = lookup.environments
        self.query: Any = None
        """Lists runs of the engine that uses this library; the engine sets it."""
        settings = find_settings(self.root)
        if settings is not None:
            apply_settings(self.own, settings, self.root)
        for folder in self.folders:
            self._load(folder)
        _live.append(weakref.ref(self))

    # Texts

    def _load(self, folder: Path) -> None:
        """Read every text of a folder; a folder that does not exist has none."""
        for path in sorted(folder.glob("*.wf")):
            outcome = read_file(path, self._shown(path))
            if outcome.document is None or outcome.has_errors:
                self.problems.extend(outcome.problems)
            else:
                self._add(outcome.document)

    def _shown(self, path: Path) -> str:
        """Return a path as it is stored: relative to the root, if it is below it."""
        absolute = Path(os.path.abspath(path))
        if absolute.is_relative_to(self.root):
            return absolute.relative_to(self.root).as_posix()
        return absolute.as_posix()

    def add(self, text: str, path: str = "<text>") -> None:
        """Add a definition without a file. Raises BadWorkflow, which lists its problems."""
        self._add(parse(text, path))

    def _add(self, document: Document) -> None:
        self._documents[document.name] = document
        self._texts[document.path] = document
        self._workflows.clear()

    @property
    def names(self) -> list[str]:
        """The names of the workflows, sorted."""
        return sorted(self._documents)

    def document(self, name: str) -> Document | None:
        """Return the document of a workflow; None if the library has none of that name."""
        return self._documents.get(name)

    def path_of(self, name: str) -> Path | None:
        """Return the file of a workflow; None if the library has none of that name."""
        document = self._documents.get(name)
        if document is None:
            return None
        return Path(self.root, document.path).resolve()

    def find_document(self, name: str, caller: Document | None = None) -> Document | None:
        """Return the document that a caller means by a name: of a file that it uses, else of the
        library."""
        for word in caller.uses if caller is not None else ():
            used = self.used_document(caller.path if caller is not None else "", word.text)
            if used is not None and used.name == name:
                return used
        return self._documents.get(name)

    def used_document(self, path: str, use: str) -> Document | None:
        """Return the document of a used file; None if it is missing, outside the root, or cannot
        be read."""
        relative = used_path(path, use)
        if relative not in self._used:
            self._used[relative] = self._texts.get(relative) or self._read_used(relative)
        return self._used[relative]

    def _read_used(self, relative: str) -> Document | None:
        full = Path(self.root, relative)
        try:
            if not full.resolve().is_relative_to(Path(self.root).resolve()):
                return None
        except OSError:
            return None
        outcome = read_file(full, relative)
        if outcome.has_errors:
            self.problems.extend(outcome.problems)
            return None
        return outcome.document

    # Workflows

    def __getitem__(self, name: str) -> TextWorkflow:
        """Return a workflow. Raises UnknownWorkflow, and BadWorkflow if it has errors."""
        document = self._documents.get(name)
        if document is None:
            self._refuse_unreadable(name)
            hint = did_you_mean(name, self._documents)
            raise UnknownWorkflow(workflow=name, why=hint or "the library has no such workflow")
        problems = self.faults(document)
        if problems:
            raise BadWorkflow(problems=problems)
        return self.workflow(name)

    def faults(self, document: Document) -> list[Problem]:
        """Return the errors of a document, and of all that it can call, that prevent a start. A
        script may be in the working folder of the run, so a missing one does not."""
        around = LibrarySurroundings(self)
        return [
            problem
            for each in reachable(document, self.find_document)
            for problem in check_document(each, around)
            if problem.is_error and problem.code not in _LATER
        ]

    def _refuse_unreadable(self, name: str) -> None:
        """Raise BadWorkflow if a file of this name could not be read."""
        problems = [problem for problem in self.problems if Path(problem.path).stem == name]
        if problems:
            raise BadWorkflow(problems=problems)

    def workflow(self, name: str) -> TextWorkflow:
        """Return a workflow without checking it."""
        workflow = self._workflows.get(name)
        if workflow is None:
            document = self._documents[name]
            workflow = TextWorkflow(self.bundle(document), document, self)
            self._workflows[name] = workflow
        return workflow

    def definitions(self) -> list[TextWorkflow]:
        """Return the workflows that can be executed: those without errors."""
        return [
            self.workflow(name) for name in self.names if not self.faults(self._documents[name])
        ]

    def __iter__(self) -> Iterator[TextWorkflow]:
        return iter(self.definitions())

    def __len__(self) -> int:
        return len(self._documents)

    def __contains__(self, name: object) -> bool:
        return name in self._documents

    def bundle(self, document: Document) -> Bundle:
        """Return a document and everything that it can call, as its runs keep it."""
        documents = reachable(document, self.find_document)
        texts = {self._stored_path(each): each.text for each in documents}
        names = {each.name: self._stored_path(each) for each in documents}
        schemas: dict[str, Any] = {}
        for each in documents:
            for name in each.summary()["uses"].get("schemas", ()):
                data = self.schema_data(each.name, name)
                if data is not None:
                    schemas[f"{each.name}/{name}"] = data
        return Bundle(BundleContent(texts, names, schemas))

    @staticmethod
    def _stored_path(document: Document) -> str:
        """Return the path of a document in a bundle; texts that were added have none."""
        if document.path == "<text>":
            return f"{document.name}.wf"
        return document.path

    def check(self, name: str | None = None) -> list[Problem]:
        """Return the problems of a workflow; without a name, of all workflows."""
        problems: list[Problem] = []
        around = LibrarySurroundings(self)
        for each in self.names if name is None else [name]:
            document = self._documents.get(each)
            if document is None:
                self._refuse_unreadable(each)
                raise UnknownWorkflow(workflow=each, why="the library has no such workflow")
            problems += check_document(document, around)
        return problems

    def find_definition(self, name: str) -> Any:
        """Return the workflow of another kind with this name; None if there is none."""
        return registry.find(name)

    def query_runs(self) -> Any:
        """Return the function that lists runs of the engine; None outside an engine."""
        return self.query

    # Schemas

    def schema(self, name: str, data: Any) -> None:
        """Register a schema of structured outputs. Raises BadRegistration."""
        self.own.schema(name, data)
        self._raw_schemas[name] = data
        self._workflows.clear()

    def find_schema(self, workflow: str, name: str) -> OutputSchema | None:
        """Return a schema: of a file beside the workflows, else a registered one. Raises
        BadRegistration if the file cannot be used."""
        data = self.schema_data(workflow, name)
        if data is None:
            return self.own.schemas.get(name) or GLOBAL.schemas.get(name)
        return read_schema(name, data)

    def schema_data(self, workflow: str, name: str) -> Any:
        """Return a schema as data; None if it is not a file, nor registered here."""
        path = self.schema_path(workflow, name)
        if path is None:
            return self._raw_schemas.get(name)
        try:
            if path.stat().st_size > LARGEST_SCHEMA:
                raise BadRegistration(schema=name, path=str(path), why="the file is too large")
            return read_yaml(path.read_text("utf-8-sig"))
        except (OSError, UnicodeDecodeError, YamlProblem) as error:
            raise BadRegistration(schema=name, path=str(path), why=str(error)) from None

    def schema_path(self, workflow: str, name: str) -> Path | None:
        """Return the file of a schema: of the workflow's own folder first, later folders before
        earlier ones."""
        stem = name if name.endswith((".yaml", ".yml")) else f"{name}.yaml"
        places: list[Path] = []
        for folder in reversed(self.folders):
            for base in (folder / workflow, folder, folder.parent / workflow, folder.parent):
                places.append(base / "schemas" / stem)
        if "/" in name:
            places.append(Path(self.root, stem))
        return next((path for path in places if path.is_file() and self._is_allowed(path)), None)

    def _is_allowed(self, path: Path) -> bool:
        """Return whether a file is under the root or one of the folders; a link out is not."""
        real = path.resolve()
        roots = [Path(self.root), *(folder.parent for folder in self.folders)]
        return any(real.is_relative_to(root.resolve()) for root in roots)
