"""Read a run as its timeline and as its diagram."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.connect import run_views
from holdfast.connect.components import Components
from holdfast.connect.text_steps import text_definition
from holdfast.core.diagrams import Diagram, DrawnDefinition
from holdfast.core.events import Event
from holdfast.core.history import live_events
from holdfast.core.runs import RunRecord
from holdfast.core.status import Status
from holdfast.errors import HoldfastError, UnknownWorkflow
from holdfast.store.runs.list_query import RunFilter
from holdfast.views import diagram as diagrams
from holdfast.views import timeline as timelines
from holdfast.views.events import EventView, history_of
from holdfast.views.history import Opened
from holdfast.views.runs import RunView
from holdfast.views.timeline import TimelineView
from holdfast.views.values import decoder, instant


def timeline(
    parts: Components, run_id: str, *, open: str | None, after: str | None, limit: int
) -> TimelineView:
    """Return a page of the timeline of a run. Raises RunNotFound, StepNotFound, BadOption."""
    record = parts.client.get(run_id)
    run = run_views.listed(parts, [record])[0]
    run_views.add_map_progress(parts, run)
    return timelines.of(
        run,
        parts.outlines.of(record),
        instant(parts.store.now()),
        opened=_read_events(parts, run_id),
        open=open,
        after=after,
        limit=limit,
        children=lambda step, first, limit: _children(parts, run_id, step, first, limit),
    )


def opened_events(parts: Components, run_id: str) -> Opened:
    """Return the function that opens the values of some events of a run, for people."""
    decode = decoder(parts.codec)

    def opened(events: Sequence[Event]) -> list[EventView]:
        return history_of(parts.sealer.display.events(run_id, events), decode)

    return opened


def _read_events(parts: Components, run_id: str) -> Opened:
    """Return the function that reads some events of a run and opens their values, for people, given
    their outlines."""
    opened = opened_events(parts, run_id)

    def read(outlines: Sequence[Event]) -> list[EventView]:
        return opened(parts.store.runs.events(run_id, [event.seq for event in outlines]))

    return read


def _children(
    parts: Components, run_id: str, step: str, first: int, limit: int
) -> Sequence[RunView]:
    ids = parts.store.children.page(run_id, step, first, limit)
    children = run_views.listed(parts, parts.store.runs.by_id(ids))
    return sorted(children, key=lambda child: child.parent_index or 0)


def diagram(parts: Components, run_id: str) -> Diagram:
    """Return the diagram of a run: from the text or model that it keeps, otherwise from its
    history. Raises RunNotFound."""
    record = parts.client.get(run_id)
    try:
        drawn = _drawn(parts, record)
    except (HoldfastError, msgspec.MsgspecError):
        drawn = None  # values that cannot be opened or read here: the history still has its shape
    if drawn is not None:
        return diagrams.with_folded_steps(drawn)
    return parts.outlines.diagram(
        record, lambda events: diagrams.observed(run_views.listed(parts, [record])[0], events)
    )


def _drawn(parts: Components, record: RunRecord) -> Diagram | None:
    """Return the diagram of a run whose definition has a shape of its own; None for other runs."""
    definition = _definition(parts, record)
    if not isinstance(definition, DrawnDefinition):
        return None
    history = live_events(parts.client.history(record.id))
    return definition.diagram(parts.sealer.opener.run(record), history, parts.codec)


def _definition(parts: Components, record: RunRecord) -> Any:
    """Return the definition that a run keeps, from this process or from the store. To draw it, this
    process needs neither its file nor its handlers."""
    known = parts.definitions().get(record.workflow)
    if known is not None and known.version == record.version:
        return known
    text = text_definition(parts, record)
    if text is not None:
        return text
    return parts.kinds.inspectable(record.namespace, record.workflow, record.version)


def definition_diagram(parts: Components, name: str, version: str | None) -> Diagram:
    """Return the diagram of a workflow without a run. A text or a model has its shape; code is
    drawn from its last run that has completed, and has no nodes without one. Raises
    UnknownWorkflow."""
    definition = _latest_definition(parts, name, version)
    if isinstance(definition, DrawnDefinition):
        drawn = definition.diagram(None, (), parts.codec)
        return _with_tokens(parts, drawn, name, str(getattr(definition, "version", version)))
    completed = _last_run(parts, name, version, [Status.COMPLETED.value])
    if completed is not None:
        run = run_views.listed(parts, [completed])[0]
        return diagrams.without_run(diagrams.observed(run, parts.outlines.of(completed)))
    if definition is None and _last_run(parts, name, version) is None:
        raise UnknownWorkflow(workflow=name)
    return Diagram(kind="python", nodes=[], edges=[])


def _with_tokens(parts: Components, diagram: Diagram, name: str, version: str) -> Diagram:
    """Return the diagram of a model with the number of tokens that rest at each element."""
    counts = parts.store.resting_tokens.by_element(parts.client.only, name, version)
    for node in diagram.nodes:
        node.tokens, node.incidents = counts.get(node.id, (0, 0))
    return diagram


def _latest_definition(parts: Components, name: str, version: str | None) -> Any:
    """Return the definition of a workflow: the one of this process, else the stored one that new
    runs use or the last run keeps; with *version*, that one. None if there is none."""
    known = parts.definitions().get(name)
    if known is not None and version in (None, known.version):
        return known
    namespace = parts.client.namespace
    definitions = parts.store.definitions
    if version is None:
        stored = definitions.current(namespace, name)
        run = None if stored else _last_run(parts, name, None)
        if run is not None:
            stored = definitions.of_route(run.namespace, name, run.version)
    else:
        stored = definitions.of_route(namespace, name, version)
    for each in stored:
        return parts.kinds.inspectable(each.namespace, name, each.version)
    return None


def _last_run(
    parts: Components, name: str, version: str | None, statuses: Sequence[str] = ()
) -> RunRecord | None:
    which = RunFilter(
        namespace=parts.client.only,
        workflows=[name],
        versions=[] if version is None else [version],
        statuses=statuses,
        limit=1,
    )
    return next(iter(parts.store.runs.find(which)), None)
