"""The identity of a definition, in commands and in the store.

A command names the workflow that it starts by a ``DefinitionRef``. A definition whose source is
data (a text, a model) is stored, so that a worker without the source can continue its runs: the
version of a run names the stored definition, and the digest of the content identifies the content.

Invariants:
- The content of a stored definition never changes; other content is another version.
- The content is stored once per digest, however many definitions and runs refer to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

SHORT = 12
"""How many hexadecimal digits of its digest are the version of a definition that runs freeze."""


class DefinitionRef(msgspec.Struct, frozen=True):
    """The workflow that a command starts, of whatever kind.

    A caller may know no more than its name: any worker that serves the route of the new run can
    execute it.
    """

    name: str
    version: str
    kind: str = ""
    """The front end of the definition; empty if the caller does not know it."""
    definition: Any = None
    """The definition itself, if the caller has it. The worker of the caller learns it, so that it
    can execute a workflow that is not registered, or whose name is ambiguous."""


def ref_to(definition: Any) -> DefinitionRef:
    """Return the reference to a definition that the caller has."""
    return DefinitionRef(definition.name, definition.version, definition.kind, definition)


class DefinitionState(StrEnum):
    """What a stored definition is for."""

    FROZEN = "frozen"
    """Runs were started with it; it is deleted some time after the last of them."""
    ACTIVE = "active"
    """It was deployed: new runs may use it."""
    DEPRECATED = "deprecated"
    """It was deployed: its runs continue, new runs use another version."""


class StoredDefinition(msgspec.Struct, kw_only=True):
    """A definition, as stored. ``deployed_at`` is in microseconds since 1970, UTC."""

    namespace: str
    kind: str
    name: str
    version: str
    digest: str
    """The SHA-256 of the content, in hexadecimal digits."""
    content: bytes
    """What the front end of this kind reads the definition from."""
    state: DefinitionState = DefinitionState.FROZEN
    deployed_at: int = 0
    by: str | None = None
    """The person or program that deployed it."""


class StartTrigger(msgspec.Struct, frozen=True):
    """A start event of a model: a message or a signal that starts runs of its latest version."""

    kind: str
    """``message`` or ``signal``."""
    name: str
    element: str
    """The start event at which the new run begins."""


class CompiledDefinition(msgspec.Struct, kw_only=True):
    """A definition that was read from its source and can be deployed."""

    kind: str
    name: str
    content: bytes
    starts: Sequence[StartTrigger] = ()
    schedules: Sequence[Any] = ()
    """The schedules that start its latest version: ``ScheduleDeclaration``."""


class FrozenContent(msgspec.Struct, frozen=True):
    """The content that the runs of a definition keep, and its digest."""

    content: bytes
    digest: str


def digest_of(content: bytes) -> str:
    """Return the digest of the content of a definition."""
    return hashlib.sha256(content).hexdigest()


def freeze(content: bytes) -> FrozenContent:
    """Return content with its digest, as the attribute ``frozen`` of a definition."""
    return FrozenContent(content, digest_of(content))


def short_version(digest: str) -> str:
    """Return the version of a definition that has no number: the first digits of its digest."""
    return digest[:SHORT]


def frozen_definition(definition: Any, namespace: str) -> StoredDefinition | None:
    """Return the definition as the first of its runs stores it; None if its source is code.

    A definition whose source is data has the attribute ``frozen``, a ``FrozenContent``.
    """
    frozen: FrozenContent | None = getattr(definition, "frozen", None)
    if frozen is None:
        return None
    return StoredDefinition(
        namespace=namespace,
        kind=definition.kind,
        name=definition.name,
        version=definition.version,
        digest=frozen.digest,
        content=frozen.content,
    )
