"""The steps of a run of a text workflow, from its history and the definition that it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.connect.components import Components
from holdfast.core.events import Event
from holdfast.core.history import live_events
from holdfast.core.runs import RunRecord
from holdfast.core.signature import split_arguments
from holdfast.errors import HoldfastError, KeyMissing
from holdfast.service.runs import storable_run_id
from holdfast.views.steps import TextStepView, described


def steps_of_text(
    parts: Components, run: RunRecord, history: Sequence[Event]
) -> list[TextStepView] | None:
    """Return the steps of a run of a text, as its text names them; None for any other run.
    *history* is opened."""
    definition = text_definition(parts, run)
    if definition is None:
        return None
    opened = parts.sealer.opener.run(run)
    children = [
        (child.id, child.parent_step, child.parent_index, child.status.value, child.result)
        for child in parts.sealer.opener.children(parts.store.children.all(run.id))
    ]
    steps = definition.text_steps(opened, live_events(history), parts.codec, children)
    return [described(step) for step in steps]


def text_definition(parts: Components, run: RunRecord) -> Any:
    """Return the text workflow of a run, which may be stored only; None if it is a run of another
    kind. To look at a run, this process needs no executors."""
    known = parts.definitions().get(run.workflow)
    if known is not None and known.version == run.version:
        if hasattr(known, "text_steps"):
            return known
        return None
    stored = parts.kinds.inspectable(run.namespace, run.workflow, run.version)
    if hasattr(stored, "text_steps"):
        return stored
    return None


def step_of_text(parts: Components, run_id: str, step: str | None) -> str | None:
    """Return the identity of the command at which a replay from *step* begins: *step* may be the
    id of a step of a text, or its key, for the first step of that key. Any other step is returned
    as it is."""
    if step is None:
        return None
    run = parts.store.runs.get(storable_run_id(run_id))
    if run is None or text_definition(parts, run) is None:
        return step
    steps = steps_of_text(parts, run, parts.client.history(run_id)) or []
    named = [each for each in steps if each.id == step] or [
        each for each in steps if each.step == step
    ]
    if not named:
        return step
    if named[0].kind == "foreach":
        return f"{named[0].id}/items"
    return named[0].id


def text_steps_shown(parts: Components, run: RunRecord) -> list[TextStepView] | None:
    """Return the steps of a run of a text as far as this process can read them; None for any other
    run."""
    if text_definition(parts, run) is None:
        return None
    try:
        return steps_of_text(parts, run, parts.client.history(run.id))
    except KeyMissing:
        return None


def is_dry_run(parts: Components, run: RunRecord) -> bool:
    """Return whether a run of a text is a dry run."""
    if text_definition(parts, run) is None:
        return False
    try:
        stored = split_arguments(parts.codec.decode(parts.sealer.opener.run(run).input), "input")
    except HoldfastError:
        return False
    return stored.kwargs.get("dry_run") is True
