"""Apply the operations of remote workers (explicit leases) and of operators on leases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from holdfast.core import claiming
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import PAST_DEADLINE, RunRecord
from holdfast.core.status import Move, Status, after
from holdfast.core.streams.model import CloseReason
from holdfast.core.tasks import policy as task_policy
from holdfast.core.tasks.suspension import ENDS
from holdfast.core.waits import Signal
from holdfast.errors import RunFinished, RunNotFound
from holdfast.store.budgets.reservations import release_reservations_of_holder
from holdfast.store.database import BatchTransaction, Row, Transaction
from holdfast.store.effects import Commit, applies
from holdfast.store.gates.apply import withdraw_all
from holdfast.store.history import append_from_outside, last_seq
from holdfast.store.payloads.apply import keep
from holdfast.store.rows import as_dict
from holdfast.store.runs.advance import advance
from holdfast.store.runs.cancel import ALL, cancel_children
from holdfast.store.runs.claim import claim, lease
from holdfast.store.runs.effects import why_children_stop
from holdfast.store.runs.ending import RunEnd, end_from_outside, end_runs
from holdfast.store.runs.operations import Advance, Claim
from holdfast.store.tasks.operations import (
    ClaimLeases,
    CompleteLeases,
    ExpireAttempts,
    Judge,
    LeasedTask,
    OverrideRun,
    RenewLeases,
    RevokeLease,
    SetAttemptDeadline,
    SetPriority,
    TaskCompletion,
)
from holdfast.store.tasks.timeouts import error_of, resolve_overdue
from holdfast.store.wakeup import notify_holder


class LeasedRun(NamedTuple):
    """A run that was just leased, its history, and a function that reads its untaken signals."""

    leased: LeasedTask
    history: Sequence[Event]
    signals: Callable[[], list[Signal]]


class ClaimStrategy(NamedTuple):
    """How a database claims and writes: each adapter may replace the plain way by a faster one."""

    lease: Callable[[Any, ClaimLeases], list[LeasedRun]]
    write: Callable[[Any, Sequence[Advance]], None]
    """Writes the changes of several runs, each in the name of its holder."""


def claim_leases(
    tx: Transaction, op: ClaimLeases, strategy: ClaimStrategy | None = None
) -> list[LeasedTask]:
    """Lease ready runs, and set the end of attempts with a timeout or a deadline."""
    strategy = strategy or PLAIN
    leased_runs = strategy.lease(tx, op)
    for leased_run in leased_runs:
        if leased_run.leased.policy is not None or leased_run.leased.run.deadline is not None:
            _set_attempt_end(tx, leased_run.leased)
    if op.judge is not None:
        _judge(
            tx,
            [leased_run for leased_run in leased_runs if leased_run.leased.seq],
            op.judge,
            strategy.write,
        )
    return [leased_run.leased for leased_run in leased_runs]


def lease_each(
    tx: Transaction,
    op: ClaimLeases,
    claim: Callable[[Any, Claim], list[RunRecord]],
    lease: Callable[[Any, str, list[str]], list[RunRecord]],
) -> list[LeasedRun]:
    """Lease runs through *claim*, or the run of *op* through *lease*, and read their facts.

    Histories are read only for runs that have one, and only if *op* has a judge.
    """
    if op.run_id is None:
        runs = claim(tx, Claim(op.session_id, op.routes, op.limit))
    else:
        runs = (
            lease(tx, op.session_id, [op.run_id])
            if tx.rows("session", session_id=op.session_id)
            else []
        )
    facts = (
        {
            row["run_id"]: row
            for row in tx.rows("lease_facts", ids=tx.as_list(run.id for run in runs))
        }
        if runs
        else {}
    )
    leased = [_leased(run, facts[run.id]) for run in runs]
    histories: dict[str, list[Event]] = {task.run.id: [] for task in leased if task.seq}
    for row in (
        tx.rows("lease_histories", ids=tx.as_list(histories))
        if histories and op.judge is not None
        else ()
    ):
        values = as_dict(row)
        histories[values.pop("run_id")].append(Event(**values))

    def signals(run_id: str) -> list[Signal]:
        return [Signal(**dict(row)) for row in tx.rows("signals", run_id=run_id)]

    return [
        LeasedRun(task, histories.get(task.run.id, ()), partial(signals, task.run.id))
        for task in leased
    ]


def _lease_plainly(tx: Transaction, op: ClaimLeases) -> list[LeasedRun]:
    return lease_each(tx, op, claim, lease)


def _advance_each(tx: BatchTransaction, changes: Sequence[Advance]) -> None:
    for change in changes:
        advance(tx, change)


PLAIN = ClaimStrategy(_lease_plainly, _advance_each)
"""The strategy that works with both databases."""


def _leased(run: RunRecord, row: Row) -> LeasedTask:
    return LeasedTask(run, row["seq"] or 0, None if row["policy"] is None else bytes(row["policy"]))


def _judge(
    tx: Transaction,
    leased_runs: list[LeasedRun],
    judge: Judge,
    write: Callable[[Any, Sequence[Advance]], None],
) -> None:
    """Write the outcomes of the waits of these runs, so that they can be handed to the holders."""
    changes = [
        judge(leased_run.leased, list(leased_run.history), leased_run.signals)
        for leased_run in leased_runs
    ]
    write(tx, [change for change in changes if change is not None])


def complete_leases(tx: Transaction, op: CompleteLeases) -> list[bool]:
    """Complete leased runs. Return for each whether its lease was still valid."""
    # The guard on the generation is part of the write, which saves a read per run.
    end: dict[str, Any] = {"status": Status.COMPLETED, "error": None, "now": tx.now}
    valid = [
        bool(
            tx.change(
                "finish_run",
                run_id=completion.run_id,
                generation=completion.generation,
                result=completion.result,
                **end,
            )
        )
        for completion in op.done
    ]
    done = [completion for completion, written in zip(op.done, valid, strict=True) if written]
    if done:
        _record_completions(tx, done)
    return valid


def _record_completions(tx: Transaction, done: Sequence[TaskCompletion]) -> None:
    """Append the last event of each run, and report their ends."""
    columns: dict[str, object] = {
        "kind": EventKind.RUN_COMPLETED,
        "step": None,
        "attempt": 1,
        "data": None,
        "error": None,
        "started_at": None,
        "at": tx.now,
        "role": None,
    }
    tx.many(
        "append",
        [
            {"run_id": completion.run_id, "seq": completion.seq + 1, **columns}
            for completion in done
        ],
    )
    end_runs(tx, [RunEnd(completion.run_id, Status.COMPLETED, closes=True) for completion in done])


def _set_attempt_end(tx: Transaction, leased: LeasedTask) -> None:
    """Set the time at which the lease is revoked: the attempt's timeout or the run's deadline."""
    policy = (
        None
        if leased.policy is None
        else msgspec.json.decode(leased.policy, type=task_policy.TaskPolicy)
    )
    timeout = None if policy is None else policy.timeout
    ends = [
        end
        for end in (leased.run.deadline, None if timeout is None else tx.now + timeout)
        if end is not None
    ]
    if ends:
        tx.change(
            "set_attempt_until",
            run_id=leased.run.id,
            until=min(ends),
            generation=leased.run.generation,
            policy=b"{}",
        )


@applies(SetAttemptDeadline)
def set_deadline(tx: Transaction, commit: Commit, effects: Sequence[SetAttemptDeadline]) -> None:
    """Set the time at which a run that is parked without a holder is resolved."""
    tx.many(
        "set_attempt_until",
        [
            {
                "run_id": commit.run_id,
                "until": effect.at,
                "generation": commit.generation,
                "policy": b"{}",
            }
            for effect in effects
        ],
    )


def renew_leases(tx: Transaction, op: RenewLeases) -> int | None:
    """Extend the session of a remote worker, if it still holds the given run. Return the new
    expiry.

    Pending notifications of the session are deleted: a remote worker polls instead of being
    notified.
    """
    if op.run_id is not None:
        states = tx.rows("lease_state", run_id=op.run_id)
        if not states or (states[0]["session_id"], states[0]["generation"]) != (
            op.session_id,
            op.generation,
        ):
            return None
    until = tx.now + op.lifetime
    if not tx.change("renew_session", session_id=op.session_id, now=tx.now, expires_at=until):
        return None
    tx.change("forget_notifications", session_id=op.session_id)
    return until


def expire_attempts(tx: Transaction, op: ExpireAttempts) -> int:
    """Revoke the leases of overdue attempts, and resolve suspended runs whose time is up."""
    overdue = tx.rows("overdue_attempts", now=tx.now, limit=op.limit)
    for row in overdue:
        # Also for attempts that have ended since: the next call must not find them again.
        tx.change("clear_attempt_until", run_id=row["run_id"])
    late = [row for row in overdue if row["held"]]
    for row in late:
        _time_out(tx, row, op.dice)
    parked = [row["run_id"] for row in overdue if row["parked"]]
    for run_id in parked:
        _wake_or_end(tx, run_id)
    return len(late) + len(parked)


def _wake_or_end(tx: Transaction, run_id: str) -> None:
    """Process a run that its holder has suspended and whose time is up."""
    state = _load(tx, run_id)
    status = resolve_overdue(tx, state)
    if status is None:
        return
    error = error_of(state["waits"])
    kind = next(kind for ended, kind in ENDS.values() if ended is status)
    append_from_outside(tx, [(run_id, Event(kind, error=error, seq=last_seq(tx, run_id) + 1))])
    _end(tx, state, status, None, error)


def _time_out(tx: Transaction, row: Row, dice: float) -> None:
    run_id = row["run_id"]
    policy = msgspec.json.decode(bytes(row["policy"]), type=task_policy.TaskPolicy)
    state = _load(tx, run_id)
    seq = last_seq(tx, run_id)
    if state["deadline"] is not None and state["deadline"] <= tx.now:
        error = msgspec.json.encode({"type": Status.EXPIRED.value, "message": PAST_DEADLINE.reason})
        append_from_outside(tx, [(run_id, Event(EventKind.RUN_EXPIRED, error=error, seq=seq + 1))])
        _end(tx, state, Status.EXPIRED, None, error)
        return
    history = [
        Event(kind=event_row["kind"], data=event_row["data"])
        for event_row in tx.rows("history", run_id=run_id, after=0)
    ]
    wait = task_policy.decide(
        policy, task_policy.FailureKind.TIMEOUT, task_policy.failures_in(history), dice
    )
    failure = {
        "kind": task_policy.FailureKind.TIMEOUT,
        "until": None if wait is None else tx.now + wait,
    }
    error = msgspec.json.encode({"type": "AttemptTimeout", "message": "the attempt took too long"})
    append_from_outside(
        tx,
        [
            (
                run_id,
                Event(
                    EventKind.ATTEMPT_FAILED,
                    data=msgspec.json.encode(failure),
                    error=error,
                    seq=seq + 1,
                ),
            )
        ],
    )
    if wait is None:
        append_from_outside(tx, [(run_id, Event(EventKind.RUN_FAILED, error=error, seq=seq + 2))])
        _end(tx, state, Status.FAILED, None, error)
    else:
        _take_back(tx, state, wake_at=tx.now + wait if wait else None)


def revoke_lease(tx: Transaction, op: RevokeLease) -> bool:
    """Revoke the lease of a run. Return False if it has none, or another holder than *op* names."""
    state = _load(tx, op.run_id, op.namespace)
    if state["session_id"] is None or op.session_id not in (None, state["session_id"]):
        return False
    _note(
        tx,
        op.run_id,
        EventKind.LEASE_REVOKED,
        {"reason": op.reason, "session": state["session_id"]},
    )
    _take_back(tx, state, wake_at=None)
    return True


def _take_back(tx: Transaction, state: Row, *, wake_at: int | None) -> None:
    status = after(Status(state["status"]), Move.RELEASE)
    parked = status is Status.WAITING
    status = after(status, Move.WAKE) if parked else status
    rank = None if wake_at is not None else claiming.rank(tx.now, state["priority"])
    release_reservations_of_holder(tx, state["id"])
    tx.change("revoke_lease", run_id=state["id"], status=status, rank=rank, wake_at=wake_at)
    tx.change(
        "close_streams", run_id=state["id"], now=tx.now, reason=CloseReason.TAKEN_BACK, least=1
    )
    notify_holder(tx, state["session_id"], state["id"])
    tx.hints.ready = True


def set_priority(tx: Transaction, op: SetPriority) -> int:
    """Change the priority of a run, and its place in the queue. Return the old priority."""
    state = _load(tx, op.run_id, op.namespace)
    old: int = state["priority"]
    if old != op.priority:
        # Only the holder may append to the history of a leased run.
        if state["session_id"] is None:
            _note(tx, op.run_id, EventKind.PRIORITY_CHANGED, {"old": old, "new": op.priority})
        tx.change(
            "save_priority",
            run_id=op.run_id,
            priority=op.priority,
            shift=(old - op.priority) * claiming.PRIORITY_STEP,
        )
        tx.hints.ready = True
    return old


def override_run(tx: Transaction, op: OverrideRun) -> Status:
    """End a run with the status and result that an operator gives."""
    state = _load(tx, op.run_id, op.namespace)
    _note(tx, op.run_id, EventKind.RUN_OVERRIDDEN, {"reason": op.reason, "status": op.status})
    kind = EventKind.RUN_COMPLETED if op.status is Status.COMPLETED else EventKind.RUN_FAILED
    # Gates close with their run: a decision after the end would reach no program.
    seq = withdraw_all(
        tx, op.run_id, f"the run was ended by hand: {op.reason}", last_seq(tx, op.run_id) + 1
    )
    append_from_outside(tx, [(op.run_id, Event(kind, error=op.error, seq=seq))])
    keep(tx, op.run_id, op.payloads)
    _end(tx, state, op.status, op.result, op.error)
    return op.status


def _end(
    tx: Transaction, state: Row, status: Status, result: bytes | None, error: bytes | None
) -> None:
    tx.change(
        "override_run", run_id=state["id"], status=status, result=result, error=error, now=tx.now
    )
    # All of them now: after this transaction the run has ended, and stops no others.
    cancel_children(tx, state["id"], why_children_stop(status), room=ALL)
    end_runs(tx, [end_from_outside(state, status)])


def _load(tx: Transaction, run_id: str, namespace: str | None = None) -> Row:
    states = tx.rows("lease_state", run_id=run_id)
    if not states or namespace not in (None, states[0]["namespace"]):
        raise RunNotFound(run=run_id)
    if states[0]["finished_at"] is not None:
        raise RunFinished(run=run_id, status=states[0]["status"])
    return states[0]


def _note(tx: Transaction, run_id: str, kind: str, data: Mapping[str, object]) -> None:
    append_from_outside(
        tx, [(run_id, Event(kind, data=msgspec.json.encode(data), seq=last_seq(tx, run_id) + 1))]
    )
