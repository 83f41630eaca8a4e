"""DMN files as a kind of definition: how decisions are read, stored and found.

A decision is deployed under its name, and under its id if that is not a generated one: models refer
to decisions by both. All decisions of a file share one content.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from holdfast.authoring import registry
from holdfast.authoring.dmn.decisions import DecisionModel, load_contents, load_model
from holdfast.authoring.registry import LoadContext
from holdfast.core import typed_json
from holdfast.core.definitions import CompiledDefinition, StoredDefinition
from holdfast.core.problems import Problem
from holdfast.errors import ModelRefused

KIND = "dmn"
_ENDING = ".dmn"
_GENERATED = "_"
"""Tools begin generated ids with it."""


class DecisionContent(msgspec.Struct):
    """A file and the files that it imports, as they are stored."""

    files: list[bytes]


class DmnKind:
    """The kind ``dmn``: each decision of a file is a definition of its own."""

    kind: str = KIND

    def accepts(self, source: Any) -> bool:
        if isinstance(source, bytes | bytearray):
            return b"/DMN/" in bytes(source[:100_000])
        if isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith("<"):
            return "/DMN/" in source[:100_000]
        if isinstance(source, str | os.PathLike):
            return str(source).endswith(_ENDING)
        name = getattr(source, "name", None)
        return hasattr(source, "read") and isinstance(name, str) and name.endswith(_ENDING)

    def compile(
        self, sources: Sequence[Any], options: Mapping[str, Any], context: LoadContext
    ) -> list[CompiledDefinition]:
        texts = [_content(source) for source in sources]
        models = [load_model(text, imports=_others(texts, text)) for text in texts]
        problems: list[Problem] = []
        for model in models:
            problems += model.problems
        if any(problem.is_error for problem in problems):
            raise ModelRefused(problems)
        return [compiled for model in models for compiled in _compiled(model)]

    def load(self, stored: StoredDefinition, context: LoadContext) -> None:
        """Return None: a decision has no runs."""

    def describe(self, stored: StoredDefinition) -> Mapping[str, Any]:
        content = typed_json.decode(stored.content, DecisionContent)
        xml = content.files[0].decode("utf-8", "replace")
        return {"xml": xml, "problems": model_of(stored).problems}


def _content(source: Any) -> Any:
    """Return a source that can be read several times: its path or its bytes."""
    if isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith("<"):
        return source.encode()
    if isinstance(source, bytearray):
        return bytes(source)
    if hasattr(source, "read"):
        data = source.read()
        return data.encode() if isinstance(data, str) else data
    return source


def _others(sources: list[Any], source: Any) -> list[Any]:
    return [other for other in sources if other is not source]


def _compiled(model: DecisionModel) -> Iterator[CompiledDefinition]:
    content = msgspec.json.encode(DecisionContent(list(model.contents)))
    names = dict.fromkeys(model.decisions)
    names |= dict.fromkeys(each for each in model.ids if not each.startswith(_GENERATED))
    for name in names:
        yield CompiledDefinition(kind=KIND, name=name, content=content)


def model_of(stored: StoredDefinition) -> DecisionModel:
    """Return the decisions of stored content. Reading is cached by the digest of the content."""
    return _read(stored.digest, stored.content)


@lru_cache(maxsize=64)
def _read(digest: str, content: bytes) -> DecisionModel:
    return load_contents(typed_json.decode(content, DecisionContent).files)


registry.register_kind(DmnKind())
