"""``holdfast show``: print one run, with its history as a tree."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import click

from holdfast.cli.commands.runs import view_of
from holdfast.cli.context import OpenDatabase, command_context, printing
from holdfast.cli.output import print_fields, print_json, print_tree
from holdfast.core import associated_data
from holdfast.core.runs import RunRecord
from holdfast.core.streams.model import Progress
from holdfast.store.runs.list_query import RunFilter
from holdfast.views import events, runs, steps, streams
from holdfast.views.history import CHILDREN, trees
from holdfast.views.runs import RunView
from holdfast.views.steps import StepState, StepView
from holdfast.views.streams import ProgressView
from holdfast.views.text import brief, error_line, payload, seconds
from holdfast.views.values import instant

EPILOG = """\b
Examples:
  holdfast show last
  holdfast show 01m7ge8gkb --json"""


@click.command(short_help="Show a run and its history.", epilog=EPILOG)
@click.argument("run", metavar="RUN")
@printing
def show(run: str) -> None:
    """Show a run: its status, its history as a tree of steps, attempts, branches and children, and
    the traceback of each step that failed."""
    with command_context().opened() as database:
        record = database.find(run)
        if command_context().as_json:
            print_json(_details(database, record))
        else:
            _print_run(database, record)


def _details(database: OpenDatabase, run: RunRecord) -> runs.RunDetailView:
    store = database.store
    history = events.history_of(
        database.sealer.shown_events(run.id, store.runs.history(run.id), large=True)
    )
    return runs.details(
        view_of(store, database.sealer.shown(run, large=True)),
        progress=_progress_of(database, run.id),
        children=[runs.child_of(child) for child in store.runs.children(run.id)],
        steps=steps.of(history),
        history=history,
    )


def _print_run(database: OpenDatabase, record: RunRecord) -> None:
    store = database.store
    now = instant(store.now())
    run = view_of(store, database.sealer.shown(record))
    print_fields(_header(run, _progress_of(database, run.id), now))
    history = events.history_of(database.sealer.shown_events(run.id, store.runs.history(run.id)))
    lines = trees(run, history, now, lambda run_id, step: _children_of(database, run_id, step))
    print()
    print_tree("history", lines)
    _print_tracebacks(run, steps.of(history))


def _header(run: RunView, progress: ProgressView | None, now: datetime) -> list[tuple[str, str]]:
    status = run.status.value
    elapsed = run.elapsed(now)
    if elapsed is not None:
        status += f" {'after' if run.finished_at else 'for'} {brief(elapsed)}"
    return [
        ("run", run.id),
        ("workflow", f"{run.workflow} (version {run.version})"),
        ("status", status),
        ("created", seconds(run.created_at)),
        ("started", seconds(run.started_at)),
        ("finished", seconds(run.finished_at)),
        ("progress", _progress_line(progress)),
        ("wakes", seconds(run.wake_at)),
        ("deadline", seconds(run.deadline)),
        ("worker", run.worker or ""),
        ("lane", _lane(run)),
        ("key", run.key or ""),
        ("tags", ", ".join(f"{name}={value}" for name, value in run.tags.items())),
        ("parent", run.parent_id or ""),
        ("forked", run.forked_from or ""),
        ("crashes", str(run.crashes) if run.crashes else ""),
        ("cancel", run.cancel_reason or ""),
        ("input", payload(run.input, 100)),
        ("result", payload(run.result, 200) if run.status == "completed" else ""),
        ("error", error_line(run.error, 300)),
    ]


def _progress_of(database: OpenDatabase, run_id: str) -> ProgressView | None:
    progress = database.store.streams.progress(run_id)
    if progress is None:
        return None
    message = database.sealer.text_shown(progress.message, associated_data.progress(run_id))
    return streams.progress_of(Progress(progress.percent, message, progress.at))


def _progress_line(progress: ProgressView | None) -> str:
    if progress is None:
        return ""
    percent = "" if progress.percent is None else f"{progress.percent:g} %"
    return " ".join(part for part in (percent, progress.message or "") if part)


def _lane(run: RunView) -> str:
    parts = [
        run.lane,
        f"priority {run.priority}" if run.priority else "",
        f"needs {', '.join(run.capabilities)}" if run.capabilities else "",
        f"namespace {run.namespace}" if run.namespace != "default" else "",
    ]
    return "" if parts == ["default", "", "", ""] else ", ".join(part for part in parts if part)


def _print_tracebacks(run: RunView, run_steps: Sequence[StepView]) -> None:
    """Print the traceback of each failed step, and of the run itself if no step has its error."""
    failures = [
        (step.id, step.error)
        for step in run_steps
        if step.status is StepState.FAILED and step.error is not None
    ]
    known = {(error.type, error.message) for _, error in failures}
    if run.error is not None and (run.error.type, run.error.message) not in known:
        failures.append((run.workflow, run.error))
    for place, error in failures:
        if error.traceback:
            print(f"\ntraceback of {place}")
            print(error.traceback.rstrip())


def _children_of(database: OpenDatabase, run_id: str, step: str | None) -> list[RunView]:
    """Return the first children of a run, of one step or (with None) of all; at most one more than
    is shown."""
    store = database.store
    if step is None:
        children = store.runs.find(RunFilter(parent_id=run_id, limit=CHILDREN + 1))
    else:
        ids = [child.id for child in store.runs.children(run_id, [step])[: CHILDREN + 1]]
        children = [run for child in ids if (run := store.runs.get(child)) is not None]
    views = [runs.of(database.sealer.shown(child)) for child in children]
    return sorted(views, key=lambda run: (run.parent_index or 0, run.id))
