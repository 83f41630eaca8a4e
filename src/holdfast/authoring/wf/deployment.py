"""The sources of a deployment: files, texts, workflows of a library, and bundles as plain data.

A file is deployed with everything that it can call, looked up beside it; texts that are deployed
together can call each other. Executors may be on other workers, so a missing one is no problem.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.authoring.wf.bundle import Bundle, BundleContent
from holdfast.authoring.wf.document import Document
from holdfast.authoring.wf.files import read_file
from holdfast.authoring.wf.library import Library
from holdfast.authoring.wf.parser import read
from holdfast.authoring.wf.workflow import TextWorkflow
from holdfast.core import typed_json
from holdfast.core.definitions import CompiledDefinition
from holdfast.core.problems import Problem
from holdfast.errors import BadWorkflow, ModelRefused, ModelUnreadable

KIND = "wf"
_ENDING = ".wf"
_ELSEWHERE = frozenset({"unknown-executor", "unknown-provider", "unknown-schema"})
"""The problems of a process that lacks something which the workers may have."""
_BEGIN = re.compile(r"(?:\s|//[^\n]*\n)*workflow\s")


class DeployedBundle(msgspec.Struct):
    """A bundle as plain data: for a caller whose server does not have the files."""

    workflow: str
    texts: dict[str, str]
    names: dict[str, str]
    schemas: dict[str, Any] = {}


def is_text_source(source: Any) -> bool:
    """Return whether a source is a text workflow: by its type, its ending or its beginning."""
    if isinstance(source, TextWorkflow):
        return True
    if isinstance(source, Mapping):
        return "texts" in source and "workflow" in source
    if isinstance(source, os.PathLike):
        return str(source).endswith(_ENDING)
    if isinstance(source, bytes | bytearray):
        return _BEGIN.match(bytes(source[:100_000]).decode("utf-8-sig", "replace")) is not None
    if isinstance(source, str):
        return _is_path(source) or _BEGIN.match(source.lstrip("\ufeff")) is not None
    name = getattr(source, "name", None)
    return hasattr(source, "read") and isinstance(name, str) and name.endswith(_ENDING)


def _is_path(source: str) -> bool:
    return source.endswith(_ENDING) and "\n" not in source


def bundle_of_file(path: str) -> DeployedBundle:
    """Return the bundle of a file as plain data. Raises ModelRefused, ModelUnreadable."""
    (workflow,) = _Deployment([path]).workflows()
    content = workflow.bundle.content
    return DeployedBundle(
        workflow.name, dict(content.texts), dict(content.names), dict(content.schemas)
    )


def compile_texts(sources: Sequence[Any]) -> list[CompiledDefinition]:
    """Return the definitions of sources that are deployed together. Raises ModelRefused with all
    problems, ModelUnreadable."""
    return [
        CompiledDefinition(kind=KIND, name=workflow.name, content=workflow.frozen.content)
        for workflow in _Deployment(sources).workflows()
    ]


class _Deployment:
    """Sources that are deployed together, and their problems."""

    def __init__(self, sources: Sequence[Any]) -> None:
        self._sources: Sequence[Any] = sources
        self._texts: Library = FilelessLibrary()
        """The texts without files."""
        self._problems: list[Problem] = []

    def workflows(self) -> list[TextWorkflow]:
        """Return the workflows of all sources. Raises ModelRefused, ModelUnreadable."""
        loaded = [self._load(source) for source in self._sources]
        sound = [each for each in loaded if each is not None]
        for library, document in sound:
            self._problems += [
                problem for problem in library.faults(document) if problem.code not in _ELSEWHERE
            ]
        if self._problems:
            raise ModelRefused(list(dict.fromkeys(self._problems)))
        return [
            TextWorkflow(library.bundle(document), document, library) for library, document in sound
        ]

    def _load(self, source: Any) -> tuple[Library, Document] | None:
        """Return the library and the document of a source; None if it has syntax errors."""
        if isinstance(source, TextWorkflow):
            return _stored_library(source.bundle.content, source.name)
        if isinstance(source, Mapping):
            return _stored_library(*_plain_bundle(source))
        if isinstance(source, os.PathLike) or (isinstance(source, str) and _is_path(source)):
            return self._load_file(Path(source))
        return self._load_text(source)

    def _load_file(self, path: Path) -> tuple[Library, Document] | None:
        outcome = read_file(path)
        document = outcome.document
        if document is None or outcome.has_errors:
            self._problems += [problem for problem in outcome.problems if problem.is_error]
            return None
        library = Library(path.parent, root=os.getcwd())
        shown = library.document(document.name)
        if shown is None or library.path_of(document.name) != path.resolve():
            library.add(document.text, path=os.path.relpath(path))
            shown = library.document(document.name)
        assert shown is not None, "it has just been added"
        return library, shown

    def _load_text(self, source: Any) -> tuple[Library, Document] | None:
        text = source.read() if hasattr(source, "read") else source
        if isinstance(text, bytes | bytearray):
            try:
                text = bytes(text).decode("utf-8-sig")
            except UnicodeDecodeError:
                raise ModelUnreadable(why="a text workflow is UTF-8") from None
        outcome = read(text)
        document = outcome.document
        if document is None or outcome.has_errors:
            self._problems += [problem for problem in outcome.problems if problem.is_error]
            return None
        path = f"{document.name}{_ENDING}"
        self._texts.add(text, path=path)
        added = self._texts.document(document.name)
        assert added is not None, "it has just been added"
        return self._texts, added


def _plain_bundle(source: Mapping[str, Any]) -> tuple[BundleContent, str]:
    try:
        plain = typed_json.convert(dict(source), DeployedBundle)
    except msgspec.ValidationError as error:
        raise ModelUnreadable(why=f"this is not a bundle of texts: {error}") from None
    return BundleContent(plain.texts, plain.names, plain.schemas), plain.workflow


def _stored_library(content: BundleContent, name: str) -> tuple[Library, Document]:
    """Return a library with the texts of a bundle, which is checked as a whole. Raises
    ModelUnreadable, ModelRefused."""
    bundle = Bundle(content)
    library = FilelessLibrary(bundle)
    try:
        for path, text in content.texts.items():
            library.add(text, path=path)
        document = bundle.document(name)
    except BadWorkflow as error:
        raise ModelRefused(error.problems) from None
    if document is None:
        raise ModelUnreadable(workflow=name, why="the bundle has no workflow of this name")
    return library, document


class FilelessLibrary(Library):
    """Texts that come without files, such as over HTTP: nothing is read from the disk of this
    process. If they are a bundle, that stays as it is."""

    def __init__(self, bundled: Bundle | None = None) -> None:
        super().__init__()
        self.bundled: Bundle | None = bundled

    def _read_used(self, relative: str) -> Document | None:
        return None

    def schema_path(self, workflow: str, name: str) -> Path | None:
        """Return None: a schema is part of the bundle, or registered."""
        return None

    def schema_data(self, workflow: str, name: str) -> Any:
        """Return a schema as data; None if it is not part of the bundle."""
        if self.bundled is None:
            return super().schema_data(workflow, name)
        return self.bundled.content.schemas.get(f"{workflow}/{name}")

    def bundle(self, document: Document) -> Bundle:
        """Return the texts that a document can call."""
        return self.bundled or super().bundle(document)
