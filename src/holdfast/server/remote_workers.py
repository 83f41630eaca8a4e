"""Remote workers: leases over HTTP, for programs in any language.

Any process of the server can serve any remote worker: its session is a row. A claim that waits
ends when the client goes away, and its runs go to other workers.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Any

import msgspec

from holdfast.connect.async_calls import AsyncCalls
from holdfast.connect.components import Components
from holdfast.connect.engine_options import seconds_of
from holdfast.connect.held_lease import HeldLease
from holdfast.connect.lease import AsyncLease
from holdfast.connect.remote_holder import RemoteHolder, open_remote
from holdfast.connect.tasks import with_topics
from holdfast.core.api_keys import Right
from holdfast.core.duration import as_datetime, parse
from holdfast.core.status import Status
from holdfast.core.validation import checked_count
from holdfast.engine.runtime.notifier import WorkReady
from holdfast.errors import BadRequest, HoldfastError
from holdfast.server.answers import ItemPage, StartedView
from holdfast.server.calls import HttpCall
from holdfast.server.operation import HttpParameter, operation
from holdfast.server.problems import ProblemView, problem_of
from holdfast.server.sse import until_gone
from holdfast.service.tasks.lease_state import LeaseState, RunEnded
from holdfast.views.tasks import LeaseSignalView, signal_of

LONGEST_WAIT = 30.0
MOST_LEASES = 1000
KEPT_STATES = 10_000
"""Leases whose states a process keeps, so that completing them needs no read."""
TEXTS = str | list[str] | None
DURATION = str | int | float


class RemoteWorkerView(msgspec.Struct, kw_only=True):
    """An open remote worker: the id that it gives with every call, and how often it must renew."""

    remote_worker: str
    session: str
    renew_every: timedelta
    until: datetime


class WaitedView(msgspec.Struct, kw_only=True):
    """How the last wait of a run ended: "signals", "timeout" or "release"."""

    how: str
    signals: list[LeaseSignalView]
    by: str | None
    value: Any


class RemoteLeaseView(msgspec.Struct, kw_only=True):
    """A leased run. ``proof`` is what the worker gives with every call about it."""

    proof: str
    run: str
    workflow: str
    lane: str
    input: Any
    args: list[Any]
    kwargs: dict[str, Any]
    attempt: int
    timeout: timedelta | None
    idempotency_key: str
    cancel_reason: str | None
    waited: WaitedView | None


class RenewedView(msgspec.Struct, kw_only=True):
    """Until when the leases last, and the runs that were asked to stop."""

    until: datetime
    cancelled: list[str]


class IssuedWaitView(msgspec.Struct, kw_only=True):
    """A wait that a holder has issued: a program with its id and token may deliver signals."""

    id: str
    name: str | None
    until: datetime | None
    token: str

    def __repr__(self) -> str:
        return f"<issued wait {self.id}>"


class ReclaimedView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The lease of a run that was reclaimed; or its status, if it has ended instead."""

    lease: RemoteLeaseView | None = None
    status: Status | None = None


class CompletedView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The answer to one completion: the status of the run, or the problem."""

    status: Status | None = None
    problem: ProblemView | None = None


class LeaseCompletion(msgspec.Struct, forbid_unknown_fields=True):
    """The proof of a lease, and the result of its run."""

    proof: str
    result: Any = None


_STATES: OrderedDict[str, LeaseState] = OrderedDict()


def _keep(leases: list[HeldLease]) -> None:
    for held in leases:
        _STATES[str(held.state.proof)] = held.state
    while len(_STATES) > KEPT_STATES:
        _STATES.popitem(last=False)


async def open_worker(call: HttpCall) -> RemoteWorkerView:
    """Open a remote worker, which leases runs of these workflows, topics and lanes. Without
    *claims*, it does not count as a worker that serves runs. Raises BadOption, BadDuration."""
    options = {
        "worker": "",
        "workflows": None,
        "lanes": None,
        "capabilities": (),
        "ttl": "30s",
        "horizon": None,
        **call.arguments,
    }
    options["workflows"] = with_topics(options["workflows"], options.pop("topics", None))
    remote_id, session = await call.engine._calls.call(lambda parts: open_remote(parts, **options))
    lifetime = timedelta(microseconds=parse(options["ttl"]))
    return RemoteWorkerView(
        remote_worker=remote_id,
        session=session.id,
        renew_every=lifetime / 3,
        until=as_datetime(session.expires_at),
    )


async def claim(call: HttpCall) -> ItemPage[RemoteLeaseView]:
    """Lease up to *limit* runs; with *wait* (at most 30 s), wait so long for the first. With an
    Idempotency-Key, a repeated claim returns the same leases. Raises RemoteWorkerNotFound,
    LeaseLost, BadOption."""
    limit = checked_count("limit", call.arguments.get("limit", 1), least=1)
    if limit > MOST_LEASES:
        raise BadRequest(parameter="limit", why=f"it must be from 1 to {MOST_LEASES}")
    seconds = min(seconds_of(call.arguments.get("wait")) or 0.0, LONGEST_WAIT)
    key = call.key
    calls = call.engine._calls
    holder = await calls.call(lambda parts: RemoteHolder(parts, call.path["id"], key))
    leases = await calls.call(lambda parts: holder.claimed_before())
    if not leases:
        leases = await _claim(call, calls, holder, limit, seconds)
    _keep(leases)
    return ItemPage([_lease_view(calls, held) for held in leases])


async def _claim(
    call: HttpCall, calls: AsyncCalls, holder: RemoteHolder, limit: int, seconds: float
) -> list[HeldLease]:
    """Claim runs, and wait for them until the time is over or the client goes away."""
    until = time.monotonic() + seconds
    gone = asyncio.create_task(until_gone(call.request.receive))
    stopped = asyncio.create_task(call.streams.stopped())
    try:
        async with calls.listen(WorkReady) as listener:
            while True:
                leases = await _take(calls, holder, limit)
                left = until - time.monotonic()
                is_over = gone.done() or stopped.done()
                if is_over:
                    await _give_back(calls, holder, leases)
                    return []
                if leases or left <= 0:
                    return leases
                waiting = asyncio.ensure_future(listener.wait(left))
                await asyncio.wait({waiting, gone, stopped}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
    finally:
        gone.cancel()
        stopped.cancel()


async def _take(calls: AsyncCalls, holder: RemoteHolder, limit: int) -> list[HeldLease]:
    """Claim runs. If the request is cancelled meanwhile, they are given back."""
    task = asyncio.ensure_future(calls.call(lambda parts: holder.take(limit)))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await _give_back(calls, holder, await task)
        raise


async def _give_back(calls: AsyncCalls, holder: RemoteHolder, leases: list[HeldLease]) -> None:
    """Let other workers claim the runs of a client that went away."""
    if leases:
        await calls.call(lambda parts: holder.release(leases))


def _lease_view(calls: AsyncCalls, held: HeldLease) -> RemoteLeaseView:
    lease = AsyncLease(calls, held)
    run = held.state.run
    waited = lease.waited
    timeout = held.state.policy.timeout
    return RemoteLeaseView(
        proof=lease.proof,
        run=run.id,
        workflow=run.workflow,
        lane=run.lane,
        input=lease.input,
        args=lease.args,
        kwargs=lease.kwargs,
        attempt=lease.attempt,
        timeout=None if timeout is None else timedelta(microseconds=timeout),
        idempotency_key=lease.idempotency_key,
        cancel_reason=run.cancel_reason if run.status is Status.CANCELLING else None,
        waited=None
        if waited is None
        else WaitedView(
            how=waited.how,
            signals=[signal_of(signal) for signal in lease.signals],
            by=waited.by,
            value=waited.value,
        ),
    )


async def complete(call: HttpCall) -> ItemPage[CompletedView]:
    """Complete leases, each with its result, in one commit, and return one answer each: the status
    of the run, or the problem. Raises RemoteWorkerNotFound."""
    results = [(item.proof, item.result) for item in call.arguments["completions"]]

    def write(parts: Components) -> list[CompletedView]:
        answers = RemoteHolder(parts, call.path["id"]).complete(results, _STATES)
        return [
            CompletedView(problem=problem_of(answer))
            if isinstance(answer, HoldfastError)
            else CompletedView(status=answer.status)
            for answer in answers
        ]

    items = await call.engine._calls.call(write)
    for proof, _ in results:
        _STATES.pop(proof, None)
    return ItemPage(items)


async def reclaim(call: HttpCall) -> ReclaimedView:
    """Lease one given run whose holder is dead or has returned it; a run that has reached its limit
    of reclaims fails. Raises RemoteWorkerNotFound, NotReclaimable, RunNotFound, RunFinished,
    LeaseLost."""
    calls = call.engine._calls
    answer = await calls.call(
        lambda parts: RemoteHolder(parts, call.path["id"]).reclaim(call.arguments["run"])
    )
    if isinstance(answer, RunEnded):
        return ReclaimedView(status=answer.status)
    _keep([answer])
    return ReclaimedView(lease=_lease_view(calls, answer))


async def rest(call: HttpCall) -> None:
    """Let a remote worker keep its leases and claim no more. Raises RemoteWorkerNotFound."""
    await call.engine._calls.call(lambda parts: RemoteHolder(parts, call.path["id"]).rest())


async def renew(call: HttpCall) -> RenewedView:
    """Renew all leases of a remote worker, and return their expiry and the runs that were asked to
    stop. Raises RemoteWorkerNotFound, LeaseLost."""
    until, cancelled = await call.engine._calls.call(
        lambda parts: RemoteHolder(parts, call.path["id"]).renew()
    )
    return RenewedView(until=until, cancelled=cancelled)


async def close(call: HttpCall) -> None:
    """End a remote worker: its runs go to other workers at once. Raises RemoteWorkerNotFound."""
    await call.engine._calls.call(lambda parts: RemoteHolder(parts, call.path["id"]).close())


class OptionsApart:
    """A task with the options of its start, so that its arguments may have any names."""

    def __init__(self, task: str, options: dict[str, Any]) -> None:
        self.workflow: str = task
        self.start_options: dict[str, Any] = options


async def start_child(call: HttpCall) -> StartedView:
    """Start a child of a leased run; the options are those of ``POST /runs``. A call with the id of
    a child that was started before returns that child. Raises BadOption, RunExists, LeaseLost."""
    options = dict(call.arguments)
    task = options.pop("task")
    args = options.pop("args", [])
    kwargs = options.pop("kwargs", {})
    lease = await call.engine.tasks.lease(call.path["proof"])
    child = await lease.start(OptionsApart(task, options), *args, **kwargs)
    return StartedView(id=child.id)


async def create_wait(call: HttpCall) -> IssuedWaitView:
    """Issue a wait, or return the open wait of that name, with its token. Raises BadWait,
    LeaseLost."""
    lease = await call.engine.tasks.lease(call.path["proof"])
    wait = await lease.create_wait(**call.arguments)
    return IssuedWaitView(id=wait.id, name=wait.name, until=wait.until, token=str(wait.token))


def _lease_operation(verb: str, **options: Any) -> Any:
    address = f"POST /leases/{{proof}}/{verb.replace('_', '-')}"
    return operation(f"lease.{verb}", address, Right.WORK, **options)


OPERATIONS = (
    operation(
        "server.open_remote_worker",
        "POST /remote-workers",
        Right.WORK,
        handler=open_worker,
        status=201,
        extra=(
            HttpParameter("worker", str, False),
            HttpParameter("workflows", TEXTS, False),
            HttpParameter("topics", TEXTS, False),
            HttpParameter("lanes", TEXTS, False),
            HttpParameter("capabilities", TEXTS, False),
            HttpParameter("ttl", DURATION, False),
            HttpParameter("horizon", str, False),
            HttpParameter("claims", bool, False),
        ),
        answer=RemoteWorkerView,
    ),
    operation(
        "server.claim",
        "POST /remote-workers/{id}/claim",
        Right.WORK,
        handler=claim,
        owns_key=True,
        extra=(HttpParameter("limit", int, False), HttpParameter("wait", DURATION, False)),
        answer=ItemPage[RemoteLeaseView],
    ),
    operation(
        "server.complete",
        "POST /remote-workers/{id}/complete",
        Right.WORK,
        handler=complete,
        extra=(HttpParameter("completions", list[LeaseCompletion], True),),
        answer=ItemPage[CompletedView],
    ),
    operation(
        "server.reclaim",
        "POST /remote-workers/{id}/reclaim",
        Right.WORK,
        handler=reclaim,
        extra=(HttpParameter("run", str, True),),
        answer=ReclaimedView,
    ),
    operation(
        "server.rest",
        "POST /remote-workers/{id}/rest",
        Right.WORK,
        handler=rest,
        answer=type(None),
        status=204,
    ),
    operation(
        "server.renew",
        "POST /remote-workers/{id}/renew",
        Right.WORK,
        handler=renew,
        answer=RenewedView,
    ),
    operation(
        "server.close_remote_worker",
        "DELETE /remote-workers/{id}",
        Right.WORK,
        handler=close,
        answer=type(None),
        status=204,
    ),
    _lease_operation("cancel"),
    _lease_operation("children"),
    _lease_operation("complete"),
    _lease_operation("create_wait", handler=create_wait, answer=IssuedWaitView),
    _lease_operation("delay"),
    _lease_operation("emit"),
    _lease_operation("fail"),
    _lease_operation("progress", status=204),
    _lease_operation("renew", field="until"),
    _lease_operation("spend"),
    _lease_operation("start", handler=start_child, status=201, answer=StartedView),
    _lease_operation("suspend"),
    _lease_operation("throw"),
    _lease_operation("wait_children"),
    operation(
        "lease.cancel_reason", "GET /leases/{proof}/cancel-reason", Right.WORK, field="reason"
    ),
)
