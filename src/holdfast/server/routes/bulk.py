"""Bulk operations: one verb applied to all runs of a query, or to given ids."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.core.api_keys import Right
from holdfast.server.calls import HttpCall
from holdfast.server.operation import HttpParameter, operation, struct_of, values_of
from holdfast.server.routes.runs import FILTERS
from holdfast.views.operations import OperationReportView

_WORK: set[asyncio.Task[Any]] = set()
"""Operations that this process carries out; the loop itself keeps no reference to a task."""


async def apply(call: HttpCall) -> OperationReportView:
    """Apply a verb to all runs that match now, or to given ids, and return the report. Without
    *wait*, it is carried out in the background, and its report has the progress so far; with
    *dry_run*, nothing is written. With an Idempotency-Key, a repeated call continues the same
    operation and returns its report. Raises BadOption."""
    verb = call.operation.name.rpartition(".")[2]
    filters = values_of(call.arguments.pop("filters"), FILTERS)
    query = call.engine.runs(**filters)
    query.operation_id = call.derived_id()
    arguments = {"wait": False, **call.arguments}
    report: OperationReportView = await getattr(query, verb)(**arguments)
    if report.id is not None and not arguments["wait"]:
        # A worker would carry it out as well; there may be none.
        task = asyncio.create_task(_finish(call, report.id))
        _WORK.add(task)
        task.add_done_callback(_WORK.discard)
    return report


async def _finish(call: HttpCall, operation_id: str) -> None:
    await call.engine.operations.wait(operation_id)


_FILTERS = HttpParameter("filters", struct_of("RunFilters", FILTERS), True)


def _verb(name: str, right: Right) -> Any:
    return operation(
        f"runs.{name}",
        f"POST /operations/{name}",
        right,
        handler=apply,
        status=202,
        extra=(_FILTERS,),
    )


OPERATIONS = (
    _verb("cancel", Right.OPERATE),
    _verb("resume", Right.OPERATE),
    _verb("replay", Right.OPERATE),
    _verb("signal", Right.OPERATE),
    _verb("release", Right.OPERATE),
    _verb("prioritise", Right.OPERATE),
    _verb("migrate", Right.OPERATE),
    _verb("delete", Right.ADMIN),
)
