"""The model of a DMN file: its decisions, inputs, knowledge models, services and types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.core.expressions.scope import Scope
from holdfast.core.problems import Problem

Box = Callable[[Scope], Any]
"""A boxed expression, as a function of the scope."""


class ElementKind:
    """The kinds of elements that requirements name."""

    INPUT = "input"
    DECISION = "decision"
    KNOWLEDGE = "knowledge"
    SERVICE = "service"


class DrgElement(msgspec.Struct, kw_only=True):
    """An input, decision, knowledge model or service."""

    kind: str
    id: str
    name: str
    variable: str
    """The name under which other elements see it."""
    type: str = ""
    line: int = 0
    requires: tuple[str, ...] = ()
    """References to required elements: ``#id``, or ``namespace#id`` in another file."""
    box: Box | None = None
    """The logic of a decision, or the body of a knowledge model."""
    depth: int = 0
    parameters: tuple[tuple[str, str], ...] = ()
    """Names and types of the parameters of a knowledge model."""
    outputs: tuple[str, ...] = ()
    """The names of the outputs of a decision table; for a service, references to its decisions."""
    inputs: tuple[str, ...] = ()
    """References to the input decisions and inputs of a service."""


class ItemType(msgspec.Struct, kw_only=True):
    """A declared type."""

    name: str
    base: str = ""
    is_collection: bool = False
    components: tuple[tuple[str, ItemType], ...] = ()
    allowed: Box | None = None
    """The test of the allowed values, over the variable ``?``."""
    allowed_for_list: bool = False
    """Whether the test is for the whole collection."""
    is_function: bool = False


class DmnImport(msgspec.Struct, kw_only=True):
    """An import of another file, under a name."""

    name: str
    namespace: str
    location: str
    line: int


class DmnFile(msgspec.Struct, kw_only=True):
    """The content of one file."""

    name: str
    namespace: str
    elements: dict[str, DrgElement]
    """By id."""
    types: dict[str, ItemType]
    imports: list[DmnImport]
    problems: list[Problem]
