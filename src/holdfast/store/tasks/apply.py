"""Apply the operations of remote workers: claim, renew and complete explicit leases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from holdfast.core import typed_json
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import ChildRecord, RunRecord
from holdfast.core.status import Status
from holdfast.core.tasks import policy as task_policy
from holdfast.core.waits import Signal
from holdfast.store.budgets.spend import limits_without_room
from holdfast.store.database import BatchTransaction, Row, Transaction
from holdfast.store.effects import Commit, applies
from holdfast.store.rows import as_dict
from holdfast.store.runs.advance import advance
from holdfast.store.runs.claim import claim, lease
from holdfast.store.runs.ending import RunEnd, end_runs
from holdfast.store.runs.operations import Advance, Claim
from holdfast.store.tasks.operations import (
    ClaimFacts,
    ClaimLeases,
    CompleteLeases,
    Judge,
    LeasedTask,
    RenewLeases,
    SetAttemptDeadline,
    TaskCompletion,
)
from holdfast.store.tasks.queries import leases_from


class LeasedRun(NamedTuple):
    """A run that was just leased, its history, and a function that reads its untaken signals."""

    leased: LeasedTask
    history: Sequence[Event]
    signals: Callable[[], list[Signal]]


CLAIM_KEPT = 600_000_000
"""Microseconds for which the leases of a named claim are recorded."""


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
        _judge(tx, leased_runs, op.judge, strategy.write)
    # An empty claim is not recorded: repeated, it may lease runs that are ready by then.
    if op.key is not None and leased_runs:
        _record_claim(tx, op.session_id, op.key, leased_runs)
    return [leased_run.leased for leased_run in leased_runs]


def _record_claim(
    tx: Transaction, session_id: str, key: str, leased_runs: Sequence[LeasedRun]
) -> None:
    """Record the leases of a named claim, in addition to those of an equal claim that was made at
    the same time."""
    known = _claimed_before(tx, session_id, key)
    runs = [leased_run.leased.run for leased_run in leased_runs]
    leases = msgspec.json.encode([*known, *([run.id, run.generation] for run in runs)])
    tx.change("forget_old_claims", session_id=session_id, before=tx.now - CLAIM_KEPT)
    tx.change("save_claim_request", session_id=session_id, key=key, leases=leases, at=tx.now)


def _claimed_before(tx: Transaction, session_id: str, key: str) -> list[tuple[str, int]]:
    rows, _ = tx.sound_rows("claim_request", session_id=session_id, key=key)
    try:
        return leases_from(rows[0]) if rows else []
    except msgspec.MsgspecError:
        return []  # a damaged record is replaced: it must not fail the claim


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
        # `claim` checks this by itself: an ended session must not get a lease.
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
    """Write the outcomes of the waits of these runs, so that they can be handed to the holders, and
    park the runs that have no room in their budgets."""
    breaches = limits_without_room(
        tx,
        [leased_run.leased.run for leased_run in leased_runs],
        begun={leased_run.leased.run.id for leased_run in leased_runs if leased_run.leased.seq},
    )

    def children(run_id: str, step: str) -> list[ChildRecord]:
        rows = tx.rows("children_of_step", run_id=run_id, step=step)
        return [ChildRecord(**{**as_dict(row), "status": Status(row["status"])}) for row in rows]

    changes = []
    for leased, history, signals in leased_runs:
        run_id = leased.run.id
        # A run without a history has no wait to decide: only a budget can stop it.
        if leased.seq or run_id in breaches:
            facts = ClaimFacts(
                list(history), signals, partial(children, run_id), breaches.get(run_id)
            )
            changes.append(judge(leased, facts))
    write(tx, [change for change in changes if change is not None])


def complete_leases(tx: Transaction, op: CompleteLeases) -> list[bool]:
    """Complete leased runs. Return for each whether its lease was still valid."""
    # The guard on the generation is part of the write, which saves a read per run.
    done = [completion for completion in op.done if _finish(tx, completion)]
    if done:
        _record_completions(tx, done)
    valid = {completion.run_id for completion in done}
    valid |= complete_joined(tx, [item for item in op.done if item.run_id not in valid])
    return [completion.run_id in valid for completion in op.done]


def complete_joined(tx: Transaction, refused: Sequence[TaskCompletion]) -> set[str]:
    """Complete the ones of these leased runs that were refused because they have joined a graph
    since they were leased. Return their ids."""
    graphs: dict[str, str] = {}
    for completion in refused:
        leases = tx.rows("lease_of", run_id=completion.run_id)
        graph_id = leases[0]["graph_id"] if leases else None
        if graph_id is not None and _finish(tx, completion, graph_id):
            graphs[completion.run_id] = graph_id
    if graphs:
        joined = [completion for completion in refused if completion.run_id in graphs]
        _record_completions(tx, joined, graphs)
    return set(graphs)


def _finish(tx: Transaction, completion: TaskCompletion, graph_id: str = "") -> bool:
    written = tx.change(
        "finish_run",
        run_id=completion.run_id,
        generation=completion.generation,
        result=completion.result,
        status=Status.COMPLETED,
        error=None,
        now=tx.now,
        graph_id=graph_id,
    )
    return bool(written)


def _record_completions(
    tx: Transaction, done: Sequence[TaskCompletion], graphs: Mapping[str, str] | None = None
) -> None:
    """Append the last event of each run, and report their ends, also to *graphs* by run."""
    columns: dict[str, object] = {
        "kind": EventKind.RUN_COMPLETED,
        "step": None,
        "attempt": 1,
        "error": None,
        "at": tx.now,
        "role": None,
    }
    tx.many(
        "append",
        [
            {
                "run_id": completion.run_id,
                "seq": completion.seq + 1,
                "data": completion.data,
                "started_at": completion.started_at,
                **columns,
            }
            for completion in done
        ],
    )
    graph_of = {} if graphs is None else graphs
    end_runs(
        tx,
        [
            RunEnd(
                completion.run_id,
                Status.COMPLETED,
                closes=True,
                graph_id=graph_of.get(completion.run_id),
            )
            for completion in done
        ],
    )


def _set_attempt_end(tx: Transaction, leased: LeasedTask) -> None:
    """Set the time at which the lease is revoked: the attempt's timeout or the run's deadline."""
    policy = (
        None if leased.policy is None else typed_json.decode(leased.policy, task_policy.TaskPolicy)
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
