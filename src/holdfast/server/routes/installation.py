"""Operations about the caller and the whole installation."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from holdfast.connect import credentials
from holdfast.connect.components import Components
from holdfast.core.api_keys import Right
from holdfast.core.duration import as_datetime
from holdfast.core.status import LIVE, Status
from holdfast.errors import ApiKeyNotFound
from holdfast.server.calls import HttpCall
from holdfast.server.operation import operation
from holdfast.store.runs.gauges import MINUTE, ReadyRun, RecentOutcomes
from holdfast.views.api_keys import CallerView, LoginView, caller_of, login_of
from holdfast.views.workers import UnservedView

MINUTES = 60
"""The minutes whose outcomes an overview has."""


class MinuteView(msgspec.Struct, kw_only=True):
    """How many runs ended in one minute, by outcome."""

    minute: datetime
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    expired: int = 0


class OverviewView(msgspec.Struct, kw_only=True):
    """The state of the installation: live runs by status, what needs a person, and the runs that no
    worker serves. ``oldest_ready`` is since when the longest waiting claimable run is ready, and
    ``oldest_ready_run`` its id. ``outcomes`` are the last 60 minutes, oldest first; only the newest
    events are counted, so ends before ``outcomes_since`` may be missing. ``now`` is the time of the
    database."""

    now: datetime
    live: dict[str, int]
    stuck: int
    open_gates: int
    overdue_gates: int
    escalated_waits: int
    unserved: list[UnservedView]
    workers: int
    oldest_ready: datetime | None
    oldest_ready_run: str | None
    outcomes: list[MinuteView]
    outcomes_since: datetime


async def me(call: HttpCall) -> CallerView:
    """Return the caller: its name, roles and rights."""
    return caller_of(call.identity.grant)


async def overview(call: HttpCall) -> OverviewView:
    """Return the state of the installation, without counting finished runs."""
    engine = call.engine
    numbers = await engine._calls.call(_numbers)
    live = numbers.live
    gates = await engine.gates.list(limit=500)
    overdue = await engine.gates.list(overdue=True, limit=500)
    escalated = await engine.waits.list(escalated=True, limit=500)
    workers = await engine.workers.list()
    return OverviewView(
        now=as_datetime(numbers.now),
        live=live,
        stuck=live.get(Status.STUCK.value, 0),
        open_gates=len(gates),
        overdue_gates=len(overdue),
        escalated_waits=len(escalated),
        unserved=list(await engine.workers.unserved()),
        workers=sum(1 for worker in workers if worker.claims and worker.state.value == "alive"),
        oldest_ready=None if numbers.ready is None else as_datetime(numbers.ready.since),
        oldest_ready_run=None if numbers.ready is None else numbers.ready.run_id,
        outcomes=_minutes(numbers),
        outcomes_since=as_datetime(numbers.ended.since),
    )


class OverviewNumbers(NamedTuple):
    """The numbers of an overview that are read at once."""

    now: int
    live: dict[str, int]
    ready: ReadyRun | None
    ended: RecentOutcomes


def _numbers(parts: Components) -> OverviewNumbers:
    only = parts.client.only
    now = parts.store.now()
    reader = parts.store.gauges
    counted = Counter({status.value: 0 for status in Status if status in LIVE})
    for (namespace, status), runs in reader.live().items():
        if only in (None, namespace):
            counted[status] += runs
    ready = [run for run in reader.oldest_ready() if only in (None, run.namespace)]
    first = (now // MINUTE - MINUTES + 1) * MINUTE
    ended = reader.outcomes(first, only)
    return OverviewNumbers(now, dict(counted), next(iter(ready), None), ended)


def _minutes(numbers: OverviewNumbers) -> list[MinuteView]:
    last = numbers.now // MINUTE
    return [
        MinuteView(minute=as_datetime(minute * MINUTE), **numbers.ended.runs.get(minute, {}))
        for minute in range(last - MINUTES + 1, last + 1)
    ]


async def logins(call: HttpCall) -> Any:
    """Return all login sessions, newest first. Raises NamespaceBound."""

    def read(parts: Components) -> list[LoginView]:
        parts.client.require_unbound("logins")
        return [login_of(login) for login in parts.store.logins.sessions()]

    return await call.engine._calls.call(read)


async def end_login(call: HttpCall) -> None:
    """End a login session. Raises ApiKeyNotFound, NamespaceBound."""

    def end(parts: Components) -> bool:
        parts.client.require_unbound("logins")
        return credentials.end_login(parts, call.path["id"], call.identity.grant.name)

    if not await call.engine._calls.call(end):
        raise ApiKeyNotFound(login=call.path["id"])


OPERATIONS = (
    operation("server.me", "GET /me", None, handler=me, answer=CallerView),
    operation(
        "server.overview", "GET /overview", Right.VIEW, handler=overview, answer=OverviewView
    ),
    operation("server.logins", "GET /logins", Right.ADMIN, handler=logins, answer=list[LoginView]),
    operation(
        "server.end_login",
        "DELETE /logins/{id}",
        Right.ADMIN,
        handler=end_login,
        answer=type(None),
        status=204,
    ),
)
