"""Requests of holders of explicit leases: complete, fail, delay or suspend their runs.

A holder is a program that works on runs without being a Python workflow. Its writes are plain
``Advance`` operations, as fast as those of a worker. Only if a write is refused is the reason
looked up: a call that the same holder made before, with the same outcome, gets the same answer.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core import duration
from holdfast.core.claiming import CRASH_LIMIT
from holdfast.core.codec import Codec
from holdfast.core.duration import Duration, as_datetime
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import CancelCause, Cancellation, RunRecord
from holdfast.core.sessions import Session
from holdfast.core.signature import GivenArguments, split_arguments
from holdfast.core.status import Status
from holdfast.core.stored_json import decode_stored
from holdfast.core.streams.model import CloseReason
from holdfast.core.tasks import policy as task_policy
from holdfast.core.tasks.policy import FailureKind, TaskPolicy
from holdfast.core.tasks.suspension import HORIZON, checked_instant
from holdfast.core.text import is_one_of, is_storable
from holdfast.core.validation import checked_flag, checked_string, checked_text, priority_of
from holdfast.errors import BadOption, LeaseLost, NotEncodable
from holdfast.payloads.sealer import PayloadSealer
from holdfast.service.instants import Moment, instant
from holdfast.service.requests import Request
from holdfast.service.runs import RunService, storable_run_id
from holdfast.service.tasks.children import TaskChildren
from holdfast.service.tasks.claims import DEFAULT_POLICY, LeaseClaims
from holdfast.service.tasks.lease_state import Deferred, LeaseState, LeaseTerm, Retried, RunEnded
from holdfast.service.tasks.output import TaskOutput
from holdfast.service.tasks.repeats import RepeatedCalls, last_seq
from holdfast.service.tasks.spending import TaskSpending
from holdfast.service.tasks.suspension import Suspensions
from holdfast.service.tasks.terms import LeaseTerms
from holdfast.service.tasks.writes import write_as_holder
from holdfast.store.effects import Effect
from holdfast.store.runs.operations import RecordCanceller
from holdfast.store.store import Store
from holdfast.store.streams.operations import CloseStreams
from holdfast.store.tasks.operations import OverrideRun, RevokeLease, SetPriority


class TaskService:
    """Builds the operations of holders and operators on leased runs.

    Its parts: ``claims`` leases runs, ``terms`` renews leases and knows when they end,
    ``suspensions`` lets runs wait, ``children`` starts and awaits children, ``output`` appends
    frames, ``spending`` draws on budgets, and ``repeats`` answers calls that were made before."""

    def __init__(
        self, client: RunService, horizon: Duration | None = None, *, crash_limit: int = CRASH_LIMIT
    ) -> None:
        self._horizon: int = HORIZON
        if horizon is not None:
            self._horizon = duration.parse(horizon)
        self.store: Store = client.store
        self.codec: Codec = client.codec
        self.sealer: PayloadSealer = client.sealer
        self.namespace: str = client.namespace
        """The namespace of all runs that can be leased here."""
        self.terms: LeaseTerms = LeaseTerms(client)
        self.suspensions: Suspensions = Suspensions(client, self._horizon)
        self.children: TaskChildren = TaskChildren(client, self._horizon)
        self.claims: LeaseClaims = LeaseClaims(client, self.suspensions, self.children, crash_limit)
        self.repeats: RepeatedCalls = RepeatedCalls(client, self.terms)
        self.output: TaskOutput = TaskOutput(client)
        self.spending: TaskSpending = TaskSpending(client)

    # Reading

    def from_proof(self, text: object) -> LeaseState:
        """Return the lease of a proof, also if it is no longer valid. Raises BadLease, and
        LeaseLost if there never was such a lease."""
        proof = task_policy.read_proof(text)
        run = self.terms.find_run(proof)
        if proof.generation > run.generation:
            raise LeaseLost(run=run.id, generation=proof.generation, why="there is no such lease")
        if proof.generation == run.generation and run.session_id not in (None, proof.session_id):
            raise LeaseLost(
                run=run.id, generation=proof.generation, why="this lease belongs to another session"
            )
        history = self.store.runs.history(proof.run_id)
        session = self.terms.session(proof.session_id)
        term = LeaseTerm(0, proof.session_id)
        if session is not None:
            term = LeaseTerm(session.expires_at, session.id, session.worker)
        held = LeaseState(proof, run, last_seq(history), self._policy(run.id), term)
        if session is not None:
            held.leased_at = _leased_at(session, history)
        held.failures = task_policy.failures_in(history)
        held.life = task_policy.lives_in(history)
        self.suspensions.load_last_wait(held, history)
        self.children.load(held, history)
        return held

    def _policy(self, run_id: str) -> TaskPolicy:
        rows = self.store.run_snapshots.belongings(run_id).get("task", [])
        if not rows:
            return DEFAULT_POLICY
        stored: Any = rows[0][0]
        policy: TaskPolicy = decode_stored(stored, f"the policy of run {run_id}", TaskPolicy)
        return policy

    def cancel_reason(self, held: LeaseState) -> str | None:
        """Return the reason of a requested cancellation; None if there is no request. Raises
        LeaseLost."""
        run = self.terms.find_run(held.proof)
        if run.status is not Status.CANCELLING:
            return None
        return run.cancel_reason or ""

    def arguments(self, run: RunRecord) -> GivenArguments:
        """Return the arguments of a run as plain data. Raises KeyMissing, BadData, WrongType."""
        stored = self.codec.decode(self.sealer.opener.input(run))
        return split_arguments(stored, f"the input of run {run.id}")

    def is_small(self, data: bytes) -> bool:
        """Return whether a value is stored unchanged."""
        return self.sealer.values.passes(data)

    # Requests of holders

    def complete(self, held: LeaseState, result: Any) -> Request[RunEnded]:
        """Complete the run with a result. The answer is RunEnded."""
        data = self.codec.encode(result, label="the result")
        return write_as_holder(
            held,
            [Event(EventKind.RUN_COMPLETED)],
            RunEnded(Status.COMPLETED),
            status=Status.COMPLETED,
            result=data,
            effects=[CloseStreams(CloseReason.COMPLETED)],
        )

    def throw(
        self, held: LeaseState, code: str, message: str, variables: Mapping[str, Any] | None
    ) -> Request[RunEnded]:
        """End the external task of a model with a BPMN error. Raises BadOption, NotEncodable."""
        facts = {
            "code": checked_string("code", code),
            "message": message,
            "variables": dict(variables or {}),
        }
        error = msgspec.json.decode(_failure(FailureKind.PERMANENT, message, facts))
        data = msgspec.json.encode({**error, "type": "BpmnError"})
        return _end_failed(held, FailureKind.PERMANENT, data)

    def fail(
        self,
        held: LeaseState,
        kind: str,
        message: str,
        details: Mapping[str, Any] | None,
        retry_after: Duration | None = None,
    ) -> Request[Retried | RunEnded]:
        """Record that the attempt failed. The kind of the failure and the policy decide whether the
        run is retried: the answer is Retried or RunEnded. Raises BadOption, NotEncodable."""
        if not is_one_of(kind, list(FailureKind)):
            raise BadOption(option="kind", value=kind, known=", ".join(FailureKind))
        error = _failure(kind, message, details)
        wait = task_policy.decide(held.policy, FailureKind(kind), held.failures, random.random())
        if wait is None:
            return _end_failed(held, FailureKind(kind), error)
        if retry_after is not None:
            wait = duration.parse(retry_after)
        until = self.store.now() + wait
        return write_as_holder(
            held,
            [_attempt_failed(held, kind, until, error)],
            Retried(as_datetime(until)),
            status=Status.PENDING,
            release=True,
            wake_at=until if wait else None,
            effects=[CloseStreams(CloseReason.RETRIED)],
        )

    def delay(self, held: LeaseState, until: Moment) -> Request[Deferred]:
        """Delay the run until a time, or for a duration; the attempt does not count as failed. The
        answer is Deferred. Raises BadWait."""
        now = self.store.now()
        at = checked_instant("delay", instant(until, now), now, self._horizon)
        event = Event(EventKind.RUN_DELAYED, None, msgspec.json.encode({"until": at}))
        return write_as_holder(
            held,
            [event],
            Deferred(Status.PENDING, as_datetime(at)),
            status=Status.PENDING,
            release=True,
            wake_at=at,
        )

    # Requests of operators

    def revoke(
        self, run_id: str, reason: str, session_id: str | None, by: str | None = None
    ) -> Request[bool]:
        """Revoke the lease of a run. The answer is whether the run had a holder. Raises
        BadOption."""
        op = RevokeLease(
            run_id=storable_run_id(run_id),
            namespace=self.namespace,
            reason=_checked_reason(reason),
            session_id=session_id,
            by=checked_text("by", by),
        )
        return Request(op, bool)

    def priority(self, run_id: str, priority: int, by: str | None = None) -> Request[int]:
        """Change the priority of a run. The answer is the old priority. Raises BadOption."""
        op = SetPriority(
            run_id=storable_run_id(run_id),
            namespace=self.namespace,
            priority=priority_of(priority),
            by=checked_text("by", by),
        )
        return Request(op, int)

    def override(
        self, run_id: str, reason: str, *, result: Any, failed: bool, by: str | None = None
    ) -> Request[Status]:
        """End a run by an operator's decision: completed with *result*, or failed. The answer is
        its status. Raises BadOption."""
        reason = _checked_reason(reason)
        op = OverrideRun(
            run_id=storable_run_id(run_id),
            namespace=self.namespace,
            status=Status.COMPLETED,
            reason=reason,
            by=checked_text("by", by),
        )
        if checked_flag("failed", failed):
            op.status = Status.FAILED
            op.error = msgspec.json.encode({"type": "Overridden", "message": reason})
        else:
            op.result = self.codec.encode(result, label="the result")
        return Request(op, Status)


def _leased_at(session: Session, history: Sequence[Event]) -> int:
    """Return when a session may have received its lease: not before it was opened, and not before
    the run was free."""
    ends = (EventKind.ATTEMPT_FAILED, EventKind.LEASE_LOST, EventKind.LEASE_REVOKED)
    free_at = max((event.at for event in history if event.kind in ends), default=0)
    return max(session.started_at, free_at)


def _attempt_failed(held: LeaseState, kind: str, until: int | None, error: bytes) -> Event:
    stamp = msgspec.json.decode(held.term.stamp)
    data = msgspec.json.encode({"kind": kind, "until": until, **stamp})
    return Event(EventKind.ATTEMPT_FAILED, None, data, error)


def _end_failed(held: LeaseState, kind: FailureKind, error: bytes) -> Request[RunEnded]:
    """Return the request that ends a run with the failure of its last attempt."""
    status = Status.FAILED
    end = EventKind.RUN_FAILED
    closes: str = CloseReason.FAILED
    effects: list[Effect] = []
    if kind == FailureKind.CANCELLED:
        run = held.run
        message = msgspec.json.decode(error)["message"]
        effects.append(RecordCanceller(Cancellation(message, CancelCause.HOLDER)))
        status = Status.CANCELLED
        end = EventKind.RUN_CANCELLED
        if run.status is Status.CANCELLING and run.cancel_cause == CancelCause.DEADLINE:
            status = Status.EXPIRED
            end = EventKind.RUN_EXPIRED
        closes = status.value
    return write_as_holder(
        held,
        [_attempt_failed(held, kind, None, error), Event(end, error=error)],
        RunEnded(status),
        status=status,
        error=error,
        effects=[CloseStreams(closes), *effects],
    )


def _failure(kind: str, message: str, details: Mapping[str, Any] | None) -> bytes:
    """Return the failure of an attempt as the JSON of an error."""
    if not isinstance(message, str):
        raise BadOption(option="message", value=message, why="give the message as a text")
    if details is not None and not isinstance(details, Mapping):
        raise BadOption(option="details", value=details, why="give names and values")
    try:
        return msgspec.json.encode({"type": kind, "message": message, "facts": dict(details or {})})
    except (TypeError, ValueError) as error:
        raise NotEncodable(value="the failure", why=str(error)) from None


def _checked_reason(reason: str) -> str:
    if not isinstance(reason, str) or not reason.strip() or not is_storable(reason):
        raise BadOption(
            option="reason", value=reason, why="give a reason: it is recorded in the history"
        )
    return reason
