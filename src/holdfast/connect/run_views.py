"""Read runs as views: plain Python values for both faces of the engine and for operators.

A view combines several rows: a run has its tags and the name of the worker that holds it.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.connect.components import Components
from holdfast.connect.text_steps import steps_of_text
from holdfast.core.runs import RunRecord
from holdfast.core.tasks.attempts import attempts_of
from holdfast.core.waits import WaitKind
from holdfast.views import events, runs
from holdfast.views import steps as step_views
from holdfast.views import why as why_views
from holdfast.views.attempts import AttemptView, attempt_of
from holdfast.views.events import EventView
from holdfast.views.runs import RunView
from holdfast.views.steps import StepView
from holdfast.views.values import decoder
from holdfast.views.why import WhyView


def record(parts: Components, run_id: str) -> RunView:
    """Return a run with the values that are kept apart. Raises RunNotFound."""
    run = listed(parts, [parts.client.get(run_id)], large=True)[0]
    add_map_progress(parts, run)
    return run


def add_map_progress(parts: Components, run: RunView) -> None:
    """Set in the waits of a run how many children of each ``map`` have ended: its own row shows the
    numbers as of the time when it parked."""
    waits = [wait for wait in run.waits if wait.get("kind") == WaitKind.CHILDREN]
    ended = parts.store.children.map_progress(run.id) if waits else {}
    for wait in waits:
        if isinstance(wait.get("of"), int):
            wait["done"] = min(ended.get(str(wait.get("step")), 0), wait["of"])
            wait["open"] = wait["of"] - wait["done"]


def listed(
    parts: Components, records: Sequence[RunRecord], *, large: bool = False
) -> list[RunView]:
    """Return the views of stored runs, in their order; values that are kept apart only with
    *large*."""
    tags = parts.store.runs.tags_of_runs([run.id for run in records])
    workers = _workers(parts, records)
    decode = decoder(parts.codec)
    return [
        runs.of(
            parts.sealer.display.run(run, large=large),
            worker=workers.get(run.session_id or ""),
            tags=tags.get(run.id),
            decode=decode,
        )
        for run in records
    ]


def _workers(parts: Components, records: Sequence[RunRecord]) -> dict[str, str]:
    """Return the names of the workers by session; none if no session holds one of the runs."""
    if all(run.session_id is None for run in records):
        return {}
    return {session.id: session.worker for session in parts.store.sessions.all()}


def history(
    parts: Components, run_id: str, after: int = 0, limit: int | None = None
) -> list[EventView]:
    """Return the history of a run, or a part of it. Raises RunNotFound, KeyMissing, BadOption."""
    recorded = parts.client.history(run_id, after, limit)
    is_part = limit is not None and bool(recorded)
    later = parts.store.runs.replays(run_id, recorded[-1].seq) if is_part else []
    return events.history_of(recorded, decoder(parts.codec), later)


def steps(parts: Components, run_id: str) -> list[StepView]:
    """Return the steps of a run, with the names that its definition gives them if this process
    knows it. Raises RunNotFound, KeyMissing."""
    run = parts.client.get(run_id)
    recorded = parts.client.history(run_id)
    text_steps = steps_of_text(parts, run, recorded)
    if text_steps is not None:
        return list(text_steps)
    names = {step.id: step.name for step in parts.client.steps(run, recorded)}
    ended = parts.store.children.map_progress(run_id)
    return step_views.of(events.history_of(recorded, decoder(parts.codec)), names, ended)


def attempts(parts: Components, run_id: str) -> list[AttemptView]:
    """Return the attempts at a run, oldest first. Raises RunNotFound, BadData."""
    run = parts.client.get(run_id)
    worker = _workers(parts, [run]).get(run.session_id or "")
    shown = parts.sealer.display.events(run.id, parts.store.runs.history(run.id), large=False)
    return [attempt_of(attempt) for attempt in attempts_of(run, shown, worker)]


def why(parts: Components, run_id: str) -> WhyView:
    """Explain what a run waits for. Raises RunNotFound."""
    return why_views.of(parts.why(run_id))
