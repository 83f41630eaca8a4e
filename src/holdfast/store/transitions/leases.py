"""Explicit leases, and what operators do to leases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from holdfast.core import claiming
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import RunRecord
from holdfast.core.status import Move, Status, after
from holdfast.core.streams.model import CloseReason
from holdfast.core.tasks import policy as task_policy
from holdfast.core.tasks.suspension import ENDS
from holdfast.core.waits import Signal
from holdfast.errors import RunFinished, RunNotFound
from holdfast.store.contract.leases import (
    ClaimLeases,
    CompleteLeases,
    ExpireAttempts,
    Judge,
    LeasedTask,
    OverrideRun,
    RenewLeases,
    RevokeLease,
    SetPriority,
    TaskCompletion,
)
from holdfast.store.contract.runs import Advance, Claim
from holdfast.store.transitions.advancing import advance
from holdfast.store.transitions.budgets import (
    release_reservations_of_holder,
    release_reservations_of_run,
)
from holdfast.store.transitions.claiming import claim, lease
from holdfast.store.transitions.gates import withdraw_all
from holdfast.store.transitions.payloads import keep
from holdfast.store.transitions.stopping import DEADLINE, cancel_children
from holdfast.store.transitions.suspending import error_of, look_at_the_clock
from holdfast.store.transitions.touching import (
    note_member_outcome,
    notify_holder,
    notify_parent,
    release_schedule,
)
from holdfast.store.transitions.transaction import (
    Row,
    Transaction,
    append_from_outside,
    as_dict,
    last_seq,
)


class LeasedRun(NamedTuple):
    """A run that was just leased, what its next holder must know of its history, and the signals
    that no wait has taken."""

    leased: LeasedTask
    history: Sequence[Event]
    signals: Callable[[], list[Signal]]


class ClaimStrategy(NamedTuple):
    """How a database claims: its own ways, where it has any."""

    lease: Callable[[Any, ClaimLeases], list[LeasedRun]]
    write: Callable[[Any, Sequence[Advance]], None]
    """Writes what the holders of different runs have to say."""


def claim_leases(
    tx: Transaction, op: ClaimLeases, ways: ClaimStrategy | None = None
) -> list[LeasedTask]:
    """Lease ready runs, and arm the attempts that may take only so long."""
    ways = ways or PLAIN
    found = ways.lease(tx, op)
    for one in found:
        if one.leased.policy is not None or one.leased.run.deadline is not None:
            _arm(tx, one.leased)
    if op.judge is not None:
        _judge(tx, [one for one in found if one.leased.seq], op.judge, ways.write)
    return [one.leased for one in found]


def lease_each(
    tx: Transaction,
    op: ClaimLeases,
    claim: Callable[[Any, Claim], list[RunRecord]],
    lease: Callable[[Any, str, list[str]], list[RunRecord]],
) -> list[LeasedRun]:
    """Lease runs as *claim* does or, if it is to be a certain one, as *lease* does, and read what
    must be known of them."""
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
    histories: dict[str, list[Event]] = {one.run.id: [] for one in leased if one.seq}
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
        LeasedRun(one, histories.get(one.run.id, ()), partial(signals, one.run.id))
        for one in leased
    ]


def _lease_plainly(tx: Transaction, op: ClaimLeases) -> list[LeasedRun]:
    return lease_each(tx, op, claim, lease)


def _advance_each(tx: Transaction, changes: Sequence[Advance]) -> None:
    for change in changes:
        advance(tx, change)


PLAIN = ClaimStrategy(_lease_plainly, _advance_each)
"""The ways that both databases understand."""


def _leased(run: RunRecord, row: Row) -> LeasedTask:
    return LeasedTask(run, row["seq"] or 0, None if row["policy"] is None else bytes(row["policy"]))


def _judge(
    tx: Transaction,
    found: list[LeasedRun],
    judge: Judge,
    write: Callable[[Any, Sequence[Advance]], None],
) -> None:
    """Write what the waits of these runs came to, so that whoever holds them can be told."""
    changes = [judge(one.leased, list(one.history), one.signals) for one in found]
    write(tx, [change for change in changes if change is not None])


def complete_leases(tx: Transaction, op: CompleteLeases) -> list[bool]:
    """End leased runs well, as far as their leases stand."""
    end: dict[str, Any] = {"status": Status.COMPLETED, "error": None, "now": tx.now}
    stood = [
        bool(
            tx.change(
                "finish_run", run_id=one.run_id, generation=one.generation, result=one.result, **end
            )
        )
        for one in op.done
    ]
    done = [one for one, written in zip(op.done, stood, strict=True) if written]
    if done:
        _tell_of_completion(tx, done)
    return stood


def _tell_of_completion(tx: Transaction, done: Sequence[TaskCompletion]) -> None:
    """Write the last line of each, and close what their attempts have put out."""
    line: dict[str, object] = {
        "kind": EventKind.RUN_COMPLETED,
        "step": None,
        "attempt": 1,
        "data": None,
        "error": None,
        "started_at": None,
        "at": tx.now,
    }
    tx.many("append", [{"run_id": one.run_id, "seq": one.seq + 1, **line} for one in done])
    ids = [one.run_id for one in done]
    tx.change("close_streams_of", ids=tx.as_list(ids), now=tx.now, reason=CloseReason.COMPLETED)
    tx.hints.finished.update(ids)


def _arm(tx: Transaction, leased: LeasedTask) -> None:
    """See to it that an attempt is taken back when it takes too long, or when the time of its run
    is over."""
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
            "set_alarm",
            run_id=leased.run.id,
            until=min(ends),
            generation=leased.run.generation,
            policy=b"{}",
        )


def renew_leases(tx: Transaction, op: RenewLeases) -> int | None:
    """Keep what a session holds, if it holds it still. Nobody answers knocks for it: its holder
    asks by itself."""
    if op.run_id is not None:
        found = tx.rows("lease_state", run_id=op.run_id)
        if not found or (found[0]["session_id"], found[0]["generation"]) != (
            op.session_id,
            op.generation,
        ):
            return None
    until = tx.now + op.lifetime
    if not tx.change("renew_session", session_id=op.session_id, now=tx.now, expires_at=until):
        return None
    tx.change("forget_knocks", session_id=op.session_id)
    return until


def expire_attempts(tx: Transaction, op: ExpireAttempts) -> int:
    """Take back what has been at work for too long."""
    found = tx.rows("overdue_attempts", now=tx.now, limit=op.limit)
    for row in found:
        tx.change("disarm_attempt", run_id=row["run_id"])
    late = [row for row in found if row["held"]]
    for row in late:
        _time_out(tx, row, op.dice)
    parked = [row["run_id"] for row in found if row["parked"]]
    for run_id in parked:
        _wake_or_end(tx, run_id)
    return len(late) + len(parked)


def _wake_or_end(tx: Transaction, run_id: str) -> None:
    """See to a run that its holder has suspended, now that its time is up."""
    state = _load(tx, run_id)
    status = look_at_the_clock(tx, state)
    if status is None:
        return
    error = error_of(state["waits"])
    kind = next(kind for ended, kind in ENDS.values() if ended is status)
    append_from_outside(tx, [(run_id, Event(kind, error=error, seq=last_seq(tx, run_id) + 1))])
    _end(tx, state, status, None, error)


def _time_out(tx: Transaction, row: Row, dice: float) -> None:
    run_id, policy = (
        row["run_id"],
        msgspec.json.decode(bytes(row["policy"]), type=task_policy.TaskPolicy),
    )
    state, seq = _load(tx, run_id), last_seq(tx, run_id)
    if state["deadline"] is not None and state["deadline"] <= tx.now:
        error = msgspec.json.encode({"type": Status.EXPIRED.value, "message": DEADLINE})
        append_from_outside(tx, [(run_id, Event(EventKind.RUN_EXPIRED, error=error, seq=seq + 1))])
        _end(tx, state, Status.EXPIRED, None, error)
        return
    history = [
        Event(kind=one["kind"], data=one["data"])
        for one in tx.rows("history", run_id=run_id, after=0)
    ]
    wait = task_policy.decide(
        policy, task_policy.FailureKind.TIMEOUT, task_policy.failures_in(history), dice
    )
    told = {
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
                    data=msgspec.json.encode(told),
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
    """Take a run from its holder."""
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
    tx.change("take_back", run_id=state["id"], status=status, rank=rank, wake_at=wake_at)
    tx.change(
        "close_streams", run_id=state["id"], now=tx.now, reason=CloseReason.TAKEN_BACK, least=1
    )
    notify_holder(tx, state["session_id"], state["id"])
    tx.hints.ready = True


def set_priority(tx: Transaction, op: SetPriority) -> int:
    """Change the priority of a run, and with it its place among those that wait."""
    state = _load(tx, op.run_id, op.namespace)
    old: int = state["priority"]
    if old != op.priority:
        if (
            state["session_id"] is None
        ):  # the history of a run that is held is its holder's to write
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
    """End a run as an operator says."""
    state = _load(tx, op.run_id, op.namespace)
    _note(tx, op.run_id, EventKind.RUN_OVERRIDDEN, {"reason": op.reason, "status": op.status})
    kind = EventKind.RUN_COMPLETED if op.status is Status.COMPLETED else EventKind.RUN_FAILED
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
    tx.change("close_streams", run_id=state["id"], now=tx.now, reason=status.value, least=0)
    tx.hints.finished.add(state["id"])
    release_reservations_of_run(tx, state["id"])
    release_schedule(tx, state["id"])
    if state["session_id"] is not None:
        notify_holder(tx, state["session_id"], state["id"])
    cancel_children(tx, state["id"], "its parent ended")
    if state["parent_id"] is not None:
        parent = (state["parent_id"], state["parent_step"], state["parent_index"])
        notify_parent(tx, parent, completed=status is Status.COMPLETED)
    note_member_outcome(tx, state["id"], status=status)


def _load(tx: Transaction, run_id: str, namespace: str | None = None) -> Row:
    found = tx.rows("lease_state", run_id=run_id)
    if not found or namespace not in (None, found[0]["namespace"]):
        raise RunNotFound(run=run_id)
    if found[0]["finished_at"] is not None:
        raise RunFinished(run=run_id, status=found[0]["status"])
    return found[0]


def _note(tx: Transaction, run_id: str, kind: str, data: Mapping[str, object]) -> None:
    append_from_outside(
        tx, [(run_id, Event(kind, data=msgspec.json.encode(data), seq=last_seq(tx, run_id) + 1))]
    )
