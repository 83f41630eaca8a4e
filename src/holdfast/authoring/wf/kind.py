"""The kind ``wf`` of stored definitions: a bundle of texts, loaded for the runs that keep it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from holdfast.authoring import registry
from holdfast.authoring.registry import LoadContext
from holdfast.authoring.wf.bundle import Bundle
from holdfast.authoring.wf.deployment import KIND, compile_texts, is_text_source
from holdfast.authoring.wf.library import live_libraries
from holdfast.authoring.wf.registrations import GLOBAL, Executor, ItemProvider
from holdfast.authoring.wf.schemas import OutputSchema
from holdfast.authoring.wf.workflow import TextWorkflow
from holdfast.core.definitions import CompiledDefinition, StoredDefinition
from holdfast.errors.wf_runs import MissingExecutor

LIBRARIES = "wf libraries"
"""The handler with the libraries that were passed to the engine."""


class TextKind:
    """Reads, stores and loads text workflows."""

    kind = KIND
    freezes = True
    """A run keeps the content of a text, also of a deployed one: its version is that of the
    content, not the number of the deployment."""

    def accepts(self, source: Any) -> bool:
        """Return whether *source* is a text workflow: a path, a text, a workflow of a library, or
        a bundle as plain data."""
        return is_text_source(source)

    def compile(
        self, sources: Sequence[Any], options: Mapping[str, Any], context: LoadContext
    ) -> list[CompiledDefinition]:
        """Return the bundles of sources that are deployed together. Raises ModelRefused,
        ModelUnreadable."""
        return compile_texts(sources)

    def load(self, stored: StoredDefinition, context: LoadContext) -> TextWorkflow | None:
        """Return the workflow of a stored bundle, executed by a library that has all executors of
        its texts. Raises MissingExecutor if this process has none."""
        bundle = _bundle(stored.content)
        document = bundle.document(stored.name)
        if document is None:
            return None
        libraries: Sequence[Any] = context.handlers.get(LIBRARIES) or live_libraries()
        missing: list[str] = []
        for library in libraries:
            missing = missing_executors(bundle, library)
            if not missing:
                return TextWorkflow(bundle, document, library)
        raise MissingExecutor(call=", ".join(missing), workflow=stored.name)

    def view(self, stored: StoredDefinition, context: LoadContext) -> TextWorkflow | None:
        """Return the workflow, whether or not its executors are known here: to start it and to see
        its runs."""
        try:
            return self.load(stored, context)
        except MissingExecutor:
            bundle = _bundle(stored.content)
            document = bundle.document(stored.name)
            assert document is not None, "it has just been loaded"
            return TextWorkflow(bundle, document, VIEWER)

    def describe(self, stored: StoredDefinition) -> Mapping[str, Any]:
        """Return the text of a stored workflow, and the texts that it can call."""
        bundle = _bundle(stored.content)
        document = bundle.document(stored.name)
        text = None if document is None else document.text
        return {"xml": text, "texts": dict(bundle.content.texts)}


@lru_cache(maxsize=64)
def _bundle(content: bytes) -> Bundle:
    """Return the bundle of stored content. Its texts are parsed once for all runs."""
    return Bundle.read(content)


class ViewerHost:
    """The surroundings of a text that is looked at, not executed here. Of a call it knows only
    whether its executor is registered for all libraries."""

    root: str = os.sep

    def find_executor(self, name: str) -> Executor | None:
        """Return the executor that is registered for all libraries, if there is one."""
        return GLOBAL.executors.get(name) or GLOBAL.fallback

    def find_provider(self, name: str) -> ItemProvider | None:
        """Return None: nothing is executed."""
        return None

    def find_schema(self, workflow: str, name: str) -> OutputSchema | None:
        """Return the schema that is registered for all libraries, if there is one."""
        return GLOBAL.schemas.get(name)

    def environments(self) -> list[Any]:
        """Return no environments: nothing is executed."""
        return []

    def query_runs(self) -> Any:
        """Return None: nothing is executed."""
        return None

    def find_definition(self, name: str) -> Any:
        """Return the workflow of another kind with this name; None if there is none."""
        return registry.find(name)


VIEWER = ViewerHost()


def missing_executors(bundle: Bundle, library: Any) -> list[str]:
    """Return the calls of the texts of a bundle for which a library has no executor."""
    missing: dict[str, None] = {}
    for path in bundle.content.texts:
        document = bundle.at(path)
        for name in document.summary()["uses"].get("executors", ()) if document else ():
            if library.find_executor(name) is None:
                missing[name] = None
    return list(missing)


registry.register_kind(TextKind())
