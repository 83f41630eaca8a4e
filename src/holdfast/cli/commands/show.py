"""``holdfast show``: print one run, with its history as a tree."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.commands.runs import as_data, with_iso
from holdfast.cli.context import OpenDatabase, command_context, printing
from holdfast.cli.history_view import CHILDREN, trees
from holdfast.cli.output import (
    error_line,
    iso,
    payload,
    print_fields,
    print_json,
    print_tree,
    seconds,
    short,
    took,
)
from holdfast.core import associated_data
from holdfast.core.events import Event, EventKind
from holdfast.core.history import live_events
from holdfast.core.runs import RunRecord
from holdfast.store.runs.list_query import RunFilter

EPILOG = """\b
Examples:
  holdfast show last
  holdfast show 01m7ge8gkb --json"""

_TIMED = (EventKind.TIMER_SET, EventKind.SIGNAL_AWAITED, EventKind.STEP_RETRIED)


@click.command(short_help="Show a run and its history.", epilog=EPILOG)
@click.argument("run", metavar="RUN")
@printing
def show(run: str) -> None:
    """Show a run: its status, and its history as a tree of steps, attempts, branches and
    children."""
    with command_context().opened() as database:
        record = database.find(run)
        if command_context().as_json:
            print_json(_as_data(database, record))
        else:
            _print_run(database, record)


def _as_data(database: OpenDatabase, run: RunRecord) -> dict[str, Any]:
    store = database.store
    history = database.sealer.shown_events(run.id, store.history(run.id), large=True)
    live = {event.seq for event in live_events(history)}
    children = [
        {"id": child.id, "step": child.parent_step, "status": child.status.value}
        for child in store.children(run.id)
    ]
    return {
        **as_data(store, database.sealer.shown(run, large=True)),
        "progress": _progress_data(database, run),
        "children": children,
        "history": [_event(event, void=event.seq not in live) for event in history],
    }


def _event(event: Event, *, void: bool) -> dict[str, Any]:
    data = payload(event.data)
    return {
        "seq": event.seq,
        "kind": event.kind,
        "step": event.step,
        "at": iso(event.at),
        "started_at": iso(event.started_at),
        "attempt": event.attempt,
        "data": with_iso(data) if event.kind in _TIMED else data,
        "error": payload(event.error),
        **({"void": True} if void else {}),
    }


def _print_run(database: OpenDatabase, run: RunRecord) -> None:
    store = database.store
    now = store.now()
    print_fields(_header(database, database.sealer.shown(run), now))
    history = database.sealer.shown_events(run.id, live_events(store.history(run.id)))
    lines = trees(run, history, now, lambda run_id, step: _children_of(database, run_id, step))
    print()
    print_tree("history", lines)


def _header(database: OpenDatabase, run: RunRecord, now: int) -> list[tuple[str, str]]:
    store = database.store
    worker = next(
        (session.worker for session in store.sessions() if session.id == run.session_id), ""
    )
    status = run.status.value
    elapsed = took(run, now)
    if elapsed:
        status += f" {'after' if run.finished_at else 'for'} {elapsed}"
    return [
        ("run", run.id),
        ("workflow", f"{run.workflow} (version {run.version})"),
        ("status", status),
        ("created", seconds(run.created_at)),
        ("started", seconds(run.started_at)),
        ("finished", seconds(run.finished_at)),
        ("progress", _progress(database, run)),
        ("wakes", seconds(run.wake_at)),
        ("deadline", seconds(run.deadline)),
        ("worker", worker),
        ("lane", _lane(run)),
        ("key", run.key or ""),
        ("tags", ", ".join(f"{name}={value}" for name, value in store.tags(run.id).items())),
        ("parent", run.parent_id or ""),
        ("forked", run.forked_from or ""),
        ("crashes", str(run.crashes) if run.crashes else ""),
        ("cancel", run.cancel_reason or ""),
        ("input", short(run.input, 100)),
        ("result", "" if run.result is None else short(run.result, 200)),
        ("error", error_line(run.error, 300)),
    ]


def _progress_data(database: OpenDatabase, run: RunRecord) -> dict[str, Any] | None:
    progress = database.store.progress(run.id)
    if progress is None:
        return None
    message = database.sealer.text_shown(progress.message, associated_data.progress(run.id))
    return {"percent": progress.percent, "message": message, "at": iso(progress.at)}


def _progress(database: OpenDatabase, run: RunRecord) -> str:
    progress = _progress_data(database, run)
    if progress is None:
        return ""
    percent = "" if progress["percent"] is None else f"{progress['percent']:g} %"
    return " ".join(part for part in (percent, progress["message"] or "") if part)


def _lane(run: RunRecord) -> str:
    parts = [
        run.lane,
        f"priority {run.priority}" if run.priority else "",
        f"needs {', '.join(run.capabilities)}" if run.capabilities else "",
        f"namespace {run.namespace}" if run.namespace != "default" else "",
    ]
    return "" if parts == ["default", "", "", ""] else ", ".join(part for part in parts if part)


def _children_of(database: OpenDatabase, run_id: str, step: str | None) -> list[RunRecord]:
    """Return the first children of a run, of one step or (with None) of all; at most one more than
    is shown."""
    store = database.store
    if step is None:
        children = store.runs(RunFilter(parent_id=run_id, limit=CHILDREN + 1))
    else:
        ids = [child.id for child in store.children(run_id, [step])[: CHILDREN + 1]]
        children = [run for child in ids if (run := store.run(child)) is not None]
    return sorted(
        map(database.sealer.shown, children), key=lambda run: (run.parent_index or 0, run.id)
    )
