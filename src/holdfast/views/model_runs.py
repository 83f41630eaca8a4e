"""The runs of models as users see them: deliveries, tasks, tokens, incidents, traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast.core.resting_tokens import RestingToken
from holdfast.views.values import as_json, instant, optional_instant


class DeliveryView(msgspec.Struct, kw_only=True):
    """The outcome of a message."""

    effect: str
    """``received``, ``started``, ``kept`` or ``duplicate``."""
    run_id: str | None = None
    element: str | None = None


class BroadcastView(msgspec.Struct, kw_only=True):
    """The runs that a broadcast has reached and started, by id."""

    reached: list[str]
    started: list[str]


class ModelTaskView(msgspec.Struct, kw_only=True):
    """Open work of a model: for people, or for remote workers."""

    id: str
    kind: str
    """``user`` or ``external``."""
    run_id: str
    process: str
    element: str
    name: str
    variables: Mapping[str, Any]
    form: Any = None
    assignees: Sequence[str] = ()
    roles: Sequence[str] = ()
    topic: str | None = None
    since: datetime
    due: datetime | None = None
    """When a user task is due: people are reminded then."""


class TokenView(msgspec.Struct, kw_only=True):
    """A position in a model."""

    id: str
    element: str
    kind: str
    scope: str
    status: str
    mode: str
    waits_for: str | None
    attempt: int
    version: int
    since: datetime
    until: datetime | None


class ElementTraceView(msgspec.Struct, kw_only=True):
    """How often an element was entered and left, and how many incidents it has."""

    entered: int = 0
    completed: int = 0
    cancelled: int = 0
    active: int = 0
    incidents: int = 0


class TraceView(msgspec.Struct, kw_only=True):
    """The path of a run through its model."""

    elements: dict[str, ElementTraceView]
    flows: list[str]


class ModelDiagramView(msgspec.Struct, kw_only=True):
    """The path of a run, its tokens and its model, for a drawing."""

    run_id: str
    process: str
    version: str
    xml: str | None
    """The file of the model; None for a process in the JSON form."""
    elements: dict[str, ElementTraceView]
    flows: list[str]
    tokens: list[TokenView]


class IncidentView(msgspec.Struct, kw_only=True):
    """A failed element of a model that needs an operator."""

    id: str
    run_id: str
    element: str
    error: dict[str, object] | None
    """``type``, ``message`` and ``facts``."""
    since: datetime
    attempts: int


class MigrationView(msgspec.Struct, kw_only=True):
    """The tokens that moved to another version, and the reason for each that cannot. A migration
    with refusals has changed nothing."""

    run_id: str
    version: str
    """The version to which the run moves."""
    moved: list[str]
    """The ids of the tokens that move; none if one is refused."""
    refused: dict[str, str]
    """The reasons by the id of the token; of a completed activity that could not be compensated any
    more, by its element."""
    problems: list[str] = []
    """The faults of the mapping itself."""


def token_of(token: RestingToken) -> TokenView:
    """Return the view of a token."""
    return TokenView(
        id=token.id,
        element=token.element,
        kind=token.kind,
        scope=token.scope,
        status=token.status,
        mode=token.mode,
        waits_for=token.waits_for,
        attempt=token.attempt,
        version=token.version,
        since=instant(token.since),
        until=optional_instant(token.until),
    )


def diagram_of(run_id: str, process: str, state: Any) -> dict[str, Any]:
    """Return the path, the tokens and the model of a run as JSON."""
    trace = trace_of(state.trace)
    view = ModelDiagramView(
        run_id=run_id,
        process=process,
        version=state.version,
        xml=state.xml or None,
        elements=trace.elements,
        flows=trace.flows,
        tokens=[token_of(token) for token in state.tokens],
    )
    drawn: dict[str, Any] = msgspec.json.decode(as_json(view))
    return drawn


def trace_of(trace: Any) -> TraceView:
    """Return the view of a trace."""
    return TraceView(
        elements={
            element: ElementTraceView(
                entered=entry.entered,
                completed=entry.completed,
                cancelled=entry.cancelled,
                active=entry.active,
                incidents=entry.incidents,
            )
            for element, entry in trace.elements.items()
        },
        flows=list(trace.flows),
    )
