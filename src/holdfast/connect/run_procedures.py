"""Procedures on runs that combine several reads and commits. They block the calling thread; both
faces of the engine call them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from holdfast.connect import graph_procedures
from holdfast.connect.components import Components
from holdfast.connect.text_steps import step_of_text
from holdfast.core.runs import RunRecord
from holdfast.core.status import Status
from holdfast.core.validation import checked_count
from holdfast.errors import (
    HoldfastError,
    RunChanged,
    RunFinished,
    RunNotFound,
    StartIncomplete,
)
from holdfast.service import fork as fork_service
from holdfast.service.operations import checked_ids
from holdfast.service.replay import TRIES
from holdfast.service.requests import Request
from holdfast.service.runs import storable_run_id
from holdfast.store.database import Started
from holdfast.store.runs.copy_operations import ImportRun
from holdfast.store.runs.list_query import RunCursor, RunPage
from holdfast.store.runs.operations import PartlyCancelled


def start_one(
    parts: Components,
    workflow: Any,
    args: Any,
    kwargs: dict[str, Any],
    options: dict[str, Any],
) -> Started:
    """Start a run, and let the worker execute it if the commit has leased it. Raises what
    ``engine.start`` raises."""
    runs, request = parts.starts.start(workflow, args, kwargs, options, parts.lease)
    answers = parts.commit(request)
    parts.adopt(runs, answers)
    return answers[0]


def start_many(
    parts: Components,
    workflow: Any,
    items: Iterable[Any],
    options: Mapping[str, Any],
    id_of: Callable[[int], str] | None = None,
) -> list[str]:
    """Start one run per item, in parts, and return their ids. *id_of* gives the id of each item by
    its number. Raises StartIncomplete if a part was refused after earlier parts were started."""
    parts.know(workflow)
    started: list[str] = []
    requests = parts.starts.start_many(workflow, items, options, parts.lease, id_of)
    for runs, request in requests:
        try:
            answers = parts.commit(request)
        except HoldfastError as error:
            if not started:
                raise
            left = sum(len(part) for part, _ in requests) - len(started)
            incomplete = StartIncomplete(started=len(started), left=left, reason=str(error))
            incomplete.run_ids = tuple(started)
            raise incomplete from error
        parts.adopt(runs, answers)
        started += [answer.id for answer in answers]
    return started


def cancel(
    parts: Components, run_id: str, reason: str, *, force: bool, by: str | None = None
) -> Status:
    """Request the cancellation of a run and its children, part by part, and return its status."""
    request = parts.client.cancel(run_id, reason, force=force, by=by)
    answer = parts.commit(
        parts.audit.record_run(request, by, "run.cancel", run_id, reason=reason, force=force)
    )
    while isinstance(answer, PartlyCancelled):
        status = answer.status
        try:
            answer = parts.commit(request)
        except RunFinished:
            return status  # the run has ended meanwhile, and has cancelled its children itself
    return answer


def replay(parts: Components, run_id: str, from_step: str | None, by: str | None = None) -> Status:
    """Make a finished run claimable again and return its status; a member of a graph is replayed
    with the members that depend on it."""
    from_step = step_of_text(parts, run_id, from_step)
    member = parts.store.graphs.member(storable_run_id(run_id))
    if member is not None:
        graph_procedures.replay(parts, member.graph_id, member.name, from_step, by)
        return parts.client.get(run_id).status
    for _ in range(TRIES - 1):
        with suppress(RunChanged):
            return _replay(parts, run_id, from_step, by)
    return _replay(parts, run_id, from_step, by)


def _replay(parts: Components, run_id: str, from_step: str | None, by: str | None) -> Status:
    """Replay a run, part by part. Raises RunChanged if it changed meanwhile: then try again."""
    *below, whole = parts.client.replay(run_id, from_step, by)
    for request in below:
        parts.change_finished(request)
    # Recorded with the run itself, in the last transaction: the ones before can be repeated.
    recorded = parts.audit.record_run(whole, by, "run.replay", run_id, from_step=from_step)
    return Status(parts.change_finished(recorded))


def fork(
    parts: Components,
    run_id: str,
    from_step: str | None,
    fork_id: str | None,
    by: str | None = None,
) -> str:
    """Start a fork of a run and return its id."""
    from_step = step_of_text(parts, run_id, from_step)

    def do(request: Request[Any]) -> Any:
        if isinstance(request.op, ImportRun):
            fork = request.op.run.id
            request = parts.audit.record_run(request, by, "run.fork", run_id, fork=fork)
        return parts.commit(request)

    try:
        return fork_service.fork(parts.client, run_id, from_step, fork_id, do, by)
    except RunNotFound:
        # Unless the run was deleted, rekey has replaced a stored value that the fork refers to.
        # A second attempt refers to the new value.
        return fork_service.fork(parts.client, run_id, from_step, fork_id, do, by)


def page(
    parts: Components,
    filters: Mapping[str, Any],
    ids: Iterable[str] | None,
    after: str | None,
    limit: int,
) -> RunPage:
    """Return up to *limit* runs that match, newest first; of given *ids*, the ones that exist, in
    the given order. *after* is the cursor of the previous page, or the id of its last run. Raises
    BadOption, RunNotFound."""
    if ids is None:
        return parts.client.page(parts.client.filter(filters), after=after, limit=limit)
    runs = _existing(parts, filters, ids)
    places = [RunCursor(run.created_at, run.id).text() for run in runs]
    first = next(
        (index + 1 for index, run in enumerate(runs) if after in (run.id, places[index])), 0
    )
    shown = runs[first : first + checked_count("limit", limit)]
    is_last = first + len(shown) == len(runs)
    last = None if is_last else RunCursor(shown[-1].created_at, shown[-1].id)
    return RunPage(shown, last)


def count(parts: Components, filters: Mapping[str, Any], ids: Iterable[str] | None) -> int:
    """Return the number of runs that match. Raises BadOption."""
    if ids is None:
        return parts.store.runs.count(parts.client.filter(filters))
    return len(_existing(parts, filters, ids))


def _existing(parts: Components, filters: Mapping[str, Any], ids: Iterable[str]) -> list[RunRecord]:
    """Return the runs with these ids, in their order."""
    runs = parts.client.get_many(checked_ids(filters, ids))
    return [run for run in runs.values() if isinstance(run, RunRecord)]
