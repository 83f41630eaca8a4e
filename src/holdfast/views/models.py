"""Deployed definitions as users see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast.core.definitions import StoredDefinition
from holdfast.views.values import instant


class ModelView(msgspec.Struct, kw_only=True):
    """One version of a deployed definition."""

    name: str
    """The id of the process, or the name of the decision or workflow."""
    kind: str
    version: int
    state: str
    """``active`` or ``deprecated``."""
    digest: str
    deployed_at: datetime
    by: str | None = None
    xml: str | None = None
    """The text that was deployed, if it is a file."""
    problems: Sequence[Any] = ()
    """What its front end reports: only warnings, because errors prevent the deployment."""


class DeploymentView(msgspec.Struct, kw_only=True):
    """What a deployment has changed."""

    processes: dict[str, int]
    """The version of each process, by id."""
    decisions: dict[str, int] = {}
    """The version of each decision, by name."""
    created: tuple[str, ...] = ()
    """The names with a new version; the content of the others was deployed before."""


def of(stored: StoredDefinition, facts: Mapping[str, Any]) -> ModelView:
    """Return the view of a stored definition; *facts* are what its front end says about it."""
    return ModelView(
        name=stored.name,
        kind=stored.kind,
        version=int(stored.version),
        state=stored.state.value,
        digest=stored.digest,
        deployed_at=instant(stored.deployed_at),
        by=stored.by,
        xml=facts.get("xml"),
        problems=facts.get("problems", ()),
    )
