"""A bundle: a text and every text that it can call, as one content with its digest.

It is the definition that a run keeps. The name of the run's workflow is not part of the content, so
a run and its children share it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec

from holdfast.authoring.wf.document import Document
from holdfast.authoring.wf.interpreter.plan import Plan
from holdfast.authoring.wf.parser import parse
from holdfast.authoring.wf.schemas import OutputSchema, read_schema
from holdfast.core import typed_json
from holdfast.core.definitions import FrozenContent, freeze, short_version


class BundleContent(msgspec.Struct, frozen=True):
    """The content of a bundle, as stored."""

    texts: dict[str, str]
    """The texts by path, relative to the root of the library."""
    names: dict[str, str]
    """The path of each workflow by its declared name."""
    schemas: dict[str, Any] = {}
    """The schemas that the texts name, as ``WORKFLOW/NAME``."""


class Bundle:
    """Texts that can call each other, parsed once."""

    def __init__(self, content: BundleContent) -> None:
        self.content: BundleContent = content
        self._documents: dict[str, Document] = {}
        self._plans: dict[str, Plan] = {}
        self._schemas: dict[str, OutputSchema] = {}

    @classmethod
    def read(cls, data: bytes) -> Bundle:
        """Return the bundle of stored content."""
        return cls(typed_json.decode(data, BundleContent))

    @cached_property
    def frozen(self) -> FrozenContent:
        """The content as it is stored, with its digest."""
        return freeze(msgspec.json.encode(self.content, order="deterministic"))

    @property
    def version(self) -> str:
        """The version of the runs that keep this bundle."""
        return short_version(self.frozen.digest)

    def document(self, name: str, caller: Document | None = None) -> Document | None:
        """Return the workflow of this name: of a file that the caller uses, else of the library;
        None if the bundle has none."""
        for word in caller.uses if caller is not None else ():
            used = self.at(used_path(caller.path if caller is not None else "", word.text))
            if used is not None and used.name == name:
                return used
        path = self.content.names.get(name)
        if path is None:
            return None
        return self.at(path)

    def at(self, path: str) -> Document | None:
        """Return the document of a path; None if the bundle has none."""
        document = self._documents.get(path)
        if document is None and path in self.content.texts:
            document = parse(self.content.texts[path], path)
            self._documents[path] = document
        return document

    def plan(self, document: Document) -> Plan:
        """Return the plan of a text of the bundle."""
        plan = self._plans.get(document.path)
        if plan is None:
            plan = self._plans[document.path] = Plan(document)
        return plan

    def schema(self, workflow: str, name: str) -> OutputSchema | None:
        """Return the schema that a text names; None if it was not found when the run started."""
        key = f"{workflow}/{name}"
        schema = self._schemas.get(key)
        if schema is None and key in self.content.schemas:
            schema = read_schema(name, self.content.schemas[key])
            self._schemas[key] = schema
        return schema


def used_path(path: str, use: str) -> str:
    """Return the path of a used file, which is relative to the file that uses it."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), use))


def reachable(root: Document, find: Any) -> list[Document]:
    """Return a document and all documents that it can call; *find(name, caller)* returns the
    document of a name, or None."""
    documents: dict[str, Document] = {root.path: root}
    queue = [root]
    while queue:
        caller = queue.pop()
        for name in called_names(caller):
            document = find(name, caller)
            if document is not None and document.path not in documents:
                documents[document.path] = document
                queue.append(document)
    return list(documents.values())


def called_names(document: Document) -> list[str]:
    """Return the names of the workflows that a text calls, also by foreach."""
    uses: Mapping[str, Any] = document.summary()["uses"]
    return list(uses.get("workflows", ()))
