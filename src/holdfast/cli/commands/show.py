"""``holdfast show``: print one run, with its history as a tree."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import click

from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_fields, print_json, print_tree
from holdfast.connect.open_database import OpenDatabase
from holdfast.core.events import Event
from holdfast.core.history import live_events
from holdfast.errors import KeyMissing, NotThere
from holdfast.views import steps
from holdfast.views.diagram import mermaid as mermaid_text
from holdfast.views.history import CHILDREN, trees
from holdfast.views.model_paths import path_of
from holdfast.views.runs import RunView
from holdfast.views.steps import StepState, StepView
from holdfast.views.streams import ProgressView
from holdfast.views.svg import draw
from holdfast.views.text import brief, error_line, payload, seconds

EPILOG = """\b
Examples:
  holdfast show last
  holdfast show 01m7ge8gkb --json
  holdfast show last --svg > run.svg"""


@click.command(short_help="Show a run and its history.", epilog=EPILOG)
@click.argument("run", metavar="RUN")
@click.option("--svg", is_flag=True, help="Print its diagram as SVG. E.g. --svg > run.svg")
@click.option("--mermaid", is_flag=True, help="Print its diagram as Mermaid text. E.g. --mermaid")
@printing
def show(run: str, svg: bool, mermaid: bool) -> None:
    """Show a run: its status, its history as a tree of steps, attempts, branches and children, and
    the traceback of each step that failed. Many calls of one step are one line."""
    with command_context().opened() as database:
        record = database.find(run)
        if svg or mermaid:
            _print_diagram(database, record, svg=svg)
        elif command_context().as_json:
            print_json(database.details(record.id))
        else:
            _print_run(database, record)


def _print_diagram(database: OpenDatabase, run: RunView, *, svg: bool) -> None:
    diagram = database.engine.run(run.id).diagram()
    if svg:
        print(draw(diagram, f"{run.workflow} {run.id}, {run.status.value}"), end="")
    else:
        print(mermaid_text(diagram), end="")


def _print_run(database: OpenDatabase, run: RunView) -> None:
    now = database.now
    print_fields(_header(run, database.progress(run.id), now))
    events = database.events(run.id)
    opened = database.opened(run.id)
    lines = trees(
        run,
        events,
        now,
        lambda run_id, step: database.children(run_id, step, CHILDREN + 1),
        opened,
    )
    print()
    print_tree("history", lines)
    _print_path(database, run)
    _print_tracebacks(run, steps.of(opened(_failures(events))))


def _print_path(database: OpenDatabase, run: RunView) -> None:
    """Print the path of a model's run, and what each token waits for; nothing for other
    runs, and without the key of its values."""
    models = database.engine.models
    try:
        trace, tokens = models.trace(run.id), models.tokens(run.id)
    except (NotThere, KeyMissing):
        return
    print()
    print_tree("path", path_of(trace, tokens, database.now))


def _failures(events: Sequence[Event]) -> list[Event]:
    """Return the last event of each step that failed: only their values have to be opened."""
    last = {event.step: event for event in live_events(events) if event.step is not None}
    return [event for event in last.values() if event.error is not None]


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
        ("by", run.cancelled_by or run.cancel_cause or ""),
        ("input", payload(run.input, 100)),
        ("result", payload(run.result, 200) if run.status == "completed" else ""),
        ("error", error_line(run.error, 300)),
    ]


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
