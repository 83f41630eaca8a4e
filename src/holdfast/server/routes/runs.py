"""Operations on runs that are more than a call of a method."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.responses import Response

from holdfast.connect import run_procedures
from holdfast.connect.async_engine import AsyncEngine
from holdfast.connect.async_run import AsyncRun
from holdfast.connect.components import Components
from holdfast.connect.engine_options import seconds_of
from holdfast.connect.start_options import START_OPTIONS
from holdfast.core.api_keys import Right
from holdfast.core.events import EventKind
from holdfast.core.history import live_events
from holdfast.core.operations import BulkVerb, refusal
from holdfast.core.status import FINAL, Status
from holdfast.errors import BadRequest, ResultTimeout, RunNotFinished, StepNotFound
from holdfast.server.answers import StartedView
from holdfast.server.calls import HttpCall
from holdfast.server.files import exported
from holdfast.server.operation import HttpParameter, operation, parameters_of
from holdfast.server.starts import RequestedStart
from holdfast.views.runs import RunView
from holdfast.views.streams import FrameView
from holdfast.views.waits import WaitView

LONGEST_WAIT = 30.0
"""Seconds that a long poll waits at most."""

FILTERS = tuple(parameters_of(AsyncEngine.runs))
"""The filters of ``engine.runs``."""

WAIT = HttpParameter("wait", str | int | float, False)


class RunResultView(msgspec.Struct, kw_only=True):
    """The status of a run and, if it has completed, its result. ``done`` is False if it has not
    ended within the time that the request waited."""

    id: str
    status: Status
    done: bool
    result: Any = None


class CountView(msgspec.Struct, kw_only=True):
    """The number of runs that match."""

    count: int


def query_of(call: HttpCall) -> Any:
    """Return the query of ``engine.runs`` with the filters of a request."""
    names = {parameter.name for parameter in FILTERS}
    filters = {name: value for name, value in call.arguments.items() if name in names}
    return call.engine.runs(**filters)


async def list_runs(call: HttpCall) -> Any:
    """Return a page of the runs that match, newest first. Raises BadOption, RunNotFound,
    BadCursor."""
    return await query_of(call).page(
        after=call.arguments.get("after"), limit=call.arguments["limit"]
    )


async def count_runs(call: HttpCall) -> CountView:
    """Return the number of runs that match, without reading them. Raises BadOption."""
    return CountView(count=await query_of(call).count())


async def group_runs(call: HttpCall) -> Any:
    """Return the runs grouped by root cause, workflow and step, the largest group first. Raises
    BadOption."""
    # ``by`` is the name of the caller in every operation
    return await query_of(call).group("error")


async def start_run(call: HttpCall) -> StartedView:
    """Start a run. It is durable when this returns. With the same id or key and the same input, the
    same run is returned. Raises BadOption, RunExists, UnknownWorkflow, LaneDraining."""
    arguments = dict(call.arguments)
    workflow = arguments.pop("workflow")
    args = arguments.pop("args", [])
    kwargs = arguments.pop("kwargs", {})
    parts = await call.engine._calls.opened()
    parts.know(workflow)
    caller = call.identity.unconfirmed
    started = await call.starts.start(
        RequestedStart(parts, workflow, args, kwargs, arguments, caller)
    )
    return StartedView(id=started.id, created=started.created)


async def start_many(call: HttpCall) -> list[StartedView]:
    """Start one run per item, with the item as its argument; up to 2000 in one transaction. With an
    Idempotency-Key, a repeated call returns the same runs. Raises BadOption, RunExists,
    StartIncomplete, UnknownWorkflow."""
    arguments = dict(call.arguments)
    workflow = arguments.pop("workflow")
    items = arguments.pop("items")
    first = call.derived_id()
    id_of = None if first is None else lambda number: f"{first}-{number}"
    started = await call.engine._calls.call(
        lambda parts: run_procedures.start_many(parts, workflow, items, arguments, id_of)
    )
    return [StartedView(id=run_id) for run_id in started]


async def history(call: HttpCall) -> Any:
    """Return a part of the history of a run: its events after the number *after*, in order. Raises
    RunNotFound, KeyMissing, BadOption."""
    limit = min(call.arguments.get("limit", 500), 500)
    after = call.arguments.get("after", 0)
    run: AsyncRun[Any] = AsyncRun(call.engine._calls, call.path["id"])
    kinds = call.arguments.get("kind")
    events = await run.history(after=after, limit=limit)
    return [event for event in events if kinds is None or event.kind in kinds]


class Done(msgspec.Struct):
    """The result of a run or graph that has ended."""

    result: Any


async def waited(
    call: HttpCall, is_live: bool, wait: Callable[[float], Awaitable[Any]]
) -> Done | None:
    """Return the result that *wait* returns within the time of a long poll; None after that time.
    A run that is live is not waited for if the request does not ask for it."""
    seconds = min(seconds_of(call.arguments.get("wait")) or 0.0, LONGEST_WAIT)
    if is_live and seconds <= 0:
        return None
    try:
        return Done(await wait(max(seconds, 0.001)))
    except ResultTimeout:
        return None


async def result(call: HttpCall) -> RunResultView:
    """Return the result of a run; with *wait* (at most 30 s), wait so long for its end. Raises
    RunNotFound, RunFailed, RunCancelled, RunExpired, RunStuck."""
    run: AsyncRun[Any] = AsyncRun(call.engine._calls, call.path["id"])
    current = await run.status()
    is_live = current not in FINAL and current is not Status.STUCK
    done = await waited(call, is_live, lambda timeout: run.result(timeout=timeout))
    if done is None:
        return RunResultView(id=run.id, status=await run.status(), done=False)
    return RunResultView(id=run.id, status=Status.COMPLETED, done=True, result=done.result)


async def raw_value(call: HttpCall) -> Response:
    """Return a value of a run as it is stored, digit by digit: its input, result or error. Raises
    RunNotFound, KeyMissing."""
    which = call.path["which"]
    if which not in ("input", "result", "error"):
        raise BadRequest(value=which, known="input, result, error")

    def read(parts: Components) -> bytes | None:
        run = parts.sealer.opener.run(parts.client.get(call.path["id"]))
        data: bytes | None = getattr(run, which)
        return data

    return _raw(await call.engine._calls.call(read))


async def step_value(call: HttpCall) -> Response:
    """Return the result of a step of a run as it is stored, digit by digit. Raises RunNotFound,
    StepNotFound, KeyMissing."""
    run_id, step = call.path["id"], call.path["step"]

    def read(parts: Components) -> bytes | None:
        run = parts.client.get(run_id)
        live = live_events(parts.store.runs.history(run.id))
        outcomes = [e for e in live if e.step == step and e.kind == EventKind.STEP_COMPLETED]
        if not outcomes:
            raise StepNotFound(run=run_id, step=step)
        (opened,) = parts.sealer.opener.events(run.id, outcomes[-1:])
        data: bytes | None = opened.data
        return data

    return _raw(await call.engine._calls.call(read))


def _raw(data: bytes | None) -> Response:
    """Return a stored value, whose size is the length of the answer."""
    if data is None:
        return Response(status_code=204, headers={"Cache-Control": "no-store"})
    return Response(data, headers={"Cache-Control": "no-store"}, media_type="application/json")


async def children(call: HttpCall) -> Any:
    """Return a page of the children of a run, newest first. Raises RunNotFound."""
    await call.engine.run(call.path["id"])
    query = call.engine.runs(parent_id=call.path["id"])
    return await query.page(after=call.arguments.get("after"), limit=call.arguments["limit"])


async def waits_of_run(call: HttpCall) -> Any:
    """Return the waits of a run, oldest first. Raises RunNotFound, BadCursor."""
    return await call.engine.waits.list(
        call.path["id"], after=call.arguments.get("after"), limit=call.arguments["limit"]
    )


async def delete(call: HttpCall) -> None:
    """Delete a finished run with its descendants and everything that belongs to them. Raises
    RunNotFound, RunNotFinished, RunHasParent."""
    run_id = call.path["id"]
    run = await call.engine._calls.call(lambda parts: parts.client.get(run_id))
    refused = refusal(BulkVerb.DELETE, run)
    if refused is not None:
        raise refused
    report = await call.engine.runs(ids=[run_id]).delete(by=call.identity.grant.name)
    if report.refused:
        await call.engine.run(run_id)  # raises RunNotFound if another request has deleted it
        raise RunNotFinished(run=run_id, why=next(iter(report.refused.values())))


async def fork(call: HttpCall) -> StartedView:
    """Start a new run with the same input and the same history up to *from_step*; *fork_id* is its
    id. With an Idempotency-Key, repeated calls return the same fork. Raises RunNotFound,
    StepNotFound, RunExists, HistoryGone, BadOption."""
    arguments = dict(call.arguments)
    arguments["id"] = arguments.pop("fork_id", None)
    run: AsyncRun[Any] = AsyncRun(call.engine._calls, call.path["id"])
    return StartedView(id=(await run.fork(**arguments)).id)


async def submit(call: HttpCall) -> StartedView:
    """Start a run as ``POST /runs`` does, and tell whether this call has created it. Raises
    BadOption, RunExists, UnknownWorkflow, LaneDraining."""
    call.arguments["workflow"] = call.arguments.pop("task")
    return await start_run(call)


async def export(call: HttpCall) -> Response:
    """Return a run and its descendants as a SQLite file. Raises RunNotFound."""
    run_id = call.path["run_id"]
    return await exported(
        f"run-{run_id}.db", lambda path: call.engine.database.export(run_id, path)
    )


async def output(call: HttpCall) -> Any:
    """Return the frames that a run has emitted, in order, after the number *after*. Raises
    RunNotFound, BadCursor, BadOption."""
    arguments = {**call.arguments, "limit": min(call.arguments.get("limit", 500), 1000)}
    return await call.engine.streams.read(call.path["run_id"], **arguments)


_START = tuple(
    parameter
    for parameter in parameters_of(AsyncEngine.start)
    if parameter.name in (*START_OPTIONS, "workflow", "args", "kwargs")
)

OPERATIONS = (
    operation(
        "run.fork",
        "POST /runs/{id}/fork",
        Right.OPERATE,
        handler=fork,
        status=201,
        derived_id="fork_id",
        answer=StartedView,
        extra=(HttpParameter("fork_id", str | None, False),),
    ),
    operation(
        "tasks.submit",
        "POST /tasks",
        Right.START,
        handler=submit,
        status=201,
        idempotent_by="key",
        owns_key=True,
        confirms=True,
        answer=StartedView,
    ),
    operation(
        "database.export",
        "GET /runs/{run_id}/export",
        Right.OPERATE,
        handler=export,
        answer=Any,
        media="application/vnd.sqlite3",
        needs_values=True,
    ),
    operation("runs.page", "GET /runs", Right.VIEW, handler=list_runs, extra=FILTERS),
    operation(
        "runs.count",
        "GET /runs/count",
        Right.VIEW,
        handler=count_runs,
        extra=FILTERS,
        answer=CountView,
    ),
    operation("runs.group", "GET /runs/groups", Right.VIEW, handler=group_runs, extra=FILTERS),
    operation(
        "engine.start",
        "POST /runs",
        Right.START,
        handler=start_run,
        status=201,
        idempotent_by="key",
        owns_key=True,
        confirms=True,
        answer=StartedView,
    ),
    operation(
        "engine.start_many",
        "POST /runs/batch",
        Right.START,
        handler=start_many,
        status=201,
        answer=list[StartedView],
    ),
    operation(
        "run.history",
        "GET /runs/{id}/history",
        Right.VIEW,
        handler=history,
        extra=(HttpParameter("kind", str | list[str], False),),
    ),
    operation(
        "run.result",
        "GET /runs/{id}/result",
        Right.VIEW,
        handler=result,
        fixed={"timeout": None},
        extra=(WAIT,),
        answer=RunResultView,
    ),
    operation(
        "server.value",
        "GET /runs/{id}/values/{which}",
        Right.VIEW,
        handler=raw_value,
        needs_values=True,
        answer=Any,
        media="*/*",
    ),
    operation(
        "server.step_value",
        "GET /runs/{id}/values/step/{step}",
        Right.VIEW,
        handler=step_value,
        needs_values=True,
        answer=Any,
        media="*/*",
    ),
    operation(
        "server.children",
        "GET /runs/{id}/children",
        Right.VIEW,
        handler=children,
        pages_by="after",
        answer=list[RunView],
    ),
    operation(
        "server.run_waits",
        "GET /runs/{id}/waits",
        Right.VIEW,
        handler=waits_of_run,
        pages_by="after",
        answer=list[WaitView],
    ),
    operation(
        "server.delete",
        "DELETE /runs/{id}",
        Right.ADMIN,
        handler=delete,
        answer=type(None),
        status=204,
    ),
    operation(
        "streams.read",
        "GET /runs/{run_id}/output",
        Right.VIEW,
        handler=output,
        answer=list[FrameView],
    ),
)
