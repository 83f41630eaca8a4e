"""Requests of holders of explicit leases: claim runs, complete, fail, delay or suspend them.

A holder is a program that works on runs without being a Python workflow. Its writes are plain
``Advance`` operations, as fast as those of a worker. Only if a write is refused is the reason
looked up: a call that the same holder made before, with the same outcome, gets the same answer.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from holdfast.core import duration
from holdfast.core.claiming import CRASH_LIMIT
from holdfast.core.duration import Duration
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import CancelCause, Route, RunRecord
from holdfast.core.sessions import Session
from holdfast.core.status import FINAL, Status
from holdfast.core.stored_json import decoded, object_of
from holdfast.core.streams.model import CloseReason
from holdfast.core.tasks import policy as task_policy
from holdfast.core.tasks.policy import FailureKind, LeaseProof, TaskPolicy
from holdfast.core.tasks.suspension import checked_instant
from holdfast.core.text import is_one_of, is_storable
from holdfast.core.validation import checked_flag, checked_text, priority_of
from holdfast.core.waits import Signal
from holdfast.engine.runtime.ids import new_id
from holdfast.errors import (
    BadOption,
    HoldfastError,
    LeaseLost,
    NotEncodable,
    NotReclaimable,
    RunFinished,
    RunNotFound,
)
from holdfast.service.runs import Moment, Request, RunService, instant, run_named
from holdfast.service.tasks.lease_state import (
    Deferred,
    LeaseState,
    LeaseTerm,
    Retried,
    RunEnded,
    WaitResult,
)
from holdfast.service.tasks.output import TaskOutput
from holdfast.service.tasks.suspension import Suspensions
from holdfast.service.tasks.terms import LeaseTerms, lifetime_of
from holdfast.store.database import Operation
from holdfast.store.effects import RevisionChanged
from holdfast.store.liveness import heartbeat_is_overdue
from holdfast.store.runs.operations import Advance, EndSession, ExpireRuns, end_of
from holdfast.store.streams.operations import CloseStreams
from holdfast.store.tasks.operations import (
    ClaimLeases,
    ExpireAttempts,
    LeasedTask,
    OverrideRun,
    RevokeLease,
    SetPriority,
)

DEFAULT_POLICY = TaskPolicy()

PLENTY = 1000
"""The concurrency that a holder offers, which has no limit of its own."""

STALE = 0.05
"""Seconds for which cached routes are used. Routes change rarely: only when a run with a new
combination of workflow, version, lane and capabilities is started."""

MAINTENANCE_INTERVAL = 200_000
"""Microseconds between two checks for maintenance that no worker may be there to do."""


class RecentReads:
    """A cache of reads that all holders of an engine share."""

    def __init__(self) -> None:
        self.routes: dict[int, Route] = {}
        self.routes_at = -STALE
        self.maintained_at: int | None = None
        """The time of the last check for maintenance; None if there was none."""


_RECENT_READS: WeakKeyDictionary[RunService, RecentReads] = WeakKeyDictionary()


class TaskService(Suspensions, LeaseTerms):
    """Builds the operations of holders and operators on leased runs."""

    def __init__(
        self, client: RunService, horizon: Duration | None = None, *, crash_limit: int = CRASH_LIMIT
    ) -> None:
        super().__init__(client)
        self._crash_limit: int = crash_limit
        if horizon is not None:
            self.horizon = duration.parse(horizon)
        self.frames = TaskOutput(client)
        self._reads = _RECENT_READS.setdefault(client, RecentReads())

    @property
    def namespace(self) -> str:
        """The namespace of all runs that can be leased here."""
        return self._client.namespace

    # Sessions and claims

    def session(
        self,
        worker: str,
        ttl: Duration,
        workflows: Sequence[str] | None,
        lanes: Sequence[str] | None,
        capabilities: Sequence[str] = (),
        *,
        claims: bool = True,
    ) -> Session:
        """Return a new session for a holder. Liveness of its process cannot be checked: it lives
        while it is renewed. Without *claims* it only keeps the leases that it has. Raises
        BadOption."""
        lifetime = lifetime_of(ttl)
        if not workflows and not lanes:
            raise BadOption(
                option="workflows", why="give the workflows or the lanes from which to lease runs"
            )
        now = self.store.now()
        name = checked_text("worker", None if is_one_of(worker, ("",)) else worker)
        return Session(
            id=new_id(),
            worker=name or socket.gethostname(),
            host=socket.gethostname(),
            pid=0,
            slot=-1,
            started_at=now,
            beat_at=now,
            expires_at=now + lifetime,
            serves=self._serves(workflows, lanes, capabilities, claims=claims),
        )

    def _serves(
        self,
        workflows: Sequence[str] | None,
        lanes: Sequence[str] | None,
        capabilities: Sequence[str],
        *,
        claims: bool,
    ) -> bytes:
        """Return the offer of a holder as JSON, which explanations of blocked runs read."""
        offer = {
            "workflows": dict.fromkeys(workflows) if workflows else None,
            "lanes": list(lanes) if lanes else None,
        }
        more = {
            "capabilities": list(capabilities),
            "namespace": self.namespace,
            "concurrency": PLENTY,
            "claims": claims,
        }
        return msgspec.json.encode({**offer, **more, "crash_limit": self._crash_limit})

    def routes(
        self,
        workflows: Sequence[str] | None,
        lanes: Sequence[str] | None,
        capabilities: Sequence[str],
        *,
        fresh: bool = True,
    ) -> list[tuple[int, str]]:
        """Return the routes of this namespace that a holder with this offer serves, each with its
        lane. An explicit offer keeps holders from claiming the runs of Python workers. Unless
        *fresh*, routes may come from a cache that is at most STALE seconds old."""
        known = self._reads.routes
        if fresh or time.monotonic() - self._reads.routes_at > STALE:
            self._reads.routes_at = time.monotonic()
            known = self.store.runs.routes()
            self._reads.routes = known

        def fits(route: Route) -> bool:
            return (
                route.namespace == self.namespace
                and (not workflows or route.workflow in workflows)
                and (not lanes or route.lane in lanes)
                and set(route.capabilities) <= set(capabilities)
            )

        return [(number, route.lane) for number, route in known.items() if fits(route)]

    def maintenance(self, own: str, *, now: bool = False) -> list[Operation] | None:
        """Return the maintenance operations that are due, except on the session *own*: end dead
        sessions, and expire attempts and runs past their time.

        Holders do this because there may be no worker. Return None if the last check was less than
        MAINTENANCE_INTERVAL ago, unless *now*."""
        instant = self.store.now()
        last = self._reads.maintained_at
        if not now and last is not None and 0 <= instant - last < MAINTENANCE_INTERVAL:
            return None
        self._reads.maintained_at = instant
        operations: list[Operation] = [
            EndSession(session.id, crashed=True)
            for session in self.store.runs.sessions()
            if session.id != own and heartbeat_is_overdue(self.store, session, instant)
        ]
        due = self.store.runs.next_due()
        if due.attempt is not None and due.attempt <= instant:
            operations.append(ExpireAttempts(random.random()))
        if due.deadline is not None and due.deadline <= instant:
            operations.append(ExpireRuns())
        return operations

    def gone_holder(self, run_id: str) -> list[EndSession]:
        """Return the operation that ends the session of a run's holder if that is dead, else
        nothing. Raises RunNotFound."""
        run = self._mine(run_id)
        now = self.store.now()
        return [
            EndSession(session.id, crashed=True)
            for session in self.store.runs.sessions()
            if session.id == run.session_id and heartbeat_is_overdue(self.store, session, now)
        ]

    def reclaim(
        self,
        session_id: str,
        run_id: str,
        routes: Sequence[tuple[int, str]],
        capabilities: Sequence[str],
        term: LeaseTerm,
    ) -> Request[list[LeaseState]]:
        """Lease one given run. The answer is that of ``claim``. Raises RunNotFound, RunFinished,
        NotReclaimable; decoding the answer raises NotReclaimable if the run could not be
        leased."""
        run = self._mine(run_id)
        known = self.store.runs.routes()
        if run.status in FINAL:
            raise RunFinished(run=run_id, status=run.status.value)
        mine = Route(run.namespace, run.workflow, run.version, run.lane, run.capabilities)
        offered = [(number, lane) for number, lane in routes if known.get(number) == mine]
        if not offered:
            lacks = ", ".join(sorted(set(run.capabilities) - set(capabilities)))
            why = (
                f"this holder lacks {lacks} of the capabilities that the run requires"
                if lacks
                else "this holder does not offer the workflow or the lane of the run"
            )
            raise NotReclaimable(run=run_id, why=why)

        request = self.claim(session_id, offered, 1, term, run_id)

        def decode(answer: list[LeasedTask]) -> list[LeaseState]:
            if answer:
                held: list[LeaseState] = request.decode(answer)
                return held
            current = self._mine(run_id)
            if current.session_id is not None:
                raise NotReclaimable(
                    run=run_id, why="another holder has the lease", session=current.session_id
                )
            raise NotReclaimable(
                run=run_id, why=f"the run is {current.status.value}, and cannot be claimed now"
            )

        return Request(request.op, decode)

    def status(self, run_id: str) -> Status:
        """Return the status of a run. Raises RunNotFound."""
        return self._mine(run_id).status

    def _mine(self, run_id: str) -> RunRecord:
        run = self.store.runs.get(run_named(run_id))
        if run is None or run.namespace != self.namespace:
            raise RunNotFound(run=run_id)
        return run

    def claim(
        self,
        session_id: str,
        routes: Sequence[tuple[int, str]],
        limit: int,
        term: LeaseTerm,
        run_id: str | None = None,
    ) -> Request[list[LeaseState]]:
        """Lease up to *limit* runs. The answer is the leases that the holder receives: runs whose
        wait is not over are parked again, and runs whose lease was lost too often are failed."""
        begun: dict[str, tuple[LeaseState, Request[Any] | None]] = {}

        def judge(
            leased: LeasedTask, history: list[Event], signals: Callable[[], list[Signal]]
        ) -> Advance | None:
            held = _lease_state(session_id, leased, term)
            request = None
            try:
                held.failures = task_policy.failures_in(history)
                held.life = task_policy.lives_in(history)
                self.load_last_wait(held, history)
                request = self._begin(held, signals)
            # Such as a key that is missing here: raised when the holder asks for the outcome.
            except HoldfastError as error:
                held.resume_error = error
            begun[leased.run.id] = (held, request)
            return None if request is None else self._client.sealer.seal(request.op)  # type: ignore[return-value]

        def decode(answer: list[LeasedTask]) -> list[LeaseState]:
            leases = [
                begun.get(leased.run.id) or (_lease_state(session_id, leased, term), None)
                for leased in answer
            ]
            return [held for held, request in leases if request is None or request.decode(None)]

        return Request(ClaimLeases(session_id, routes, limit, run_id, judge), decode)

    def _begin(self, held: LeaseState, signals: Callable[[], list[Signal]]) -> Request[Any] | None:
        """Return the request that is written before the holder receives a lease, None if there is
        none: it records the outcome of the run's wait, or fails a run whose lease was lost too
        often. The answer is whether the holder receives the lease."""
        if held.failures.lost > held.policy.reclaims:
            return self._give_up(held)
        if held.open is None or held.run.status is Status.CANCELLING:
            return None
        request = self.judge(held, signals())

        def decode(answer: Any) -> bool:
            outcome = request.decode(answer)
            if isinstance(outcome, WaitResult):
                held.open = None
                held.resumed = outcome
            return held.open is None

        return Request(request.op, decode)

    def _give_up(self, held: LeaseState) -> Request[Any]:
        """Return the request that fails a run whose lease was lost too often. The answer is False:
        the holder does not receive the lease."""
        message = (
            f"the lease of the run was lost {held.failures.lost} times, and"
            f" {held.policy.reclaims} is the limit"
        )
        error = msgspec.json.encode(
            {
                "type": "TooManyReclaims",
                "message": message,
                "facts": {"reclaims": held.policy.reclaims},
            }
        )
        request = self._write(
            held,
            [Event(EventKind.RUN_FAILED, error=error)],
            RunEnded(Status.FAILED),
            status=Status.FAILED,
            error=error,
            effects=[CloseStreams(CloseReason.FAILED)],
        )

        def decode(answer: Any) -> bool:
            request.decode(answer)
            return False

        return Request(request.op, decode)

    def from_proof(self, text: object) -> LeaseState:
        """Return the lease of a proof, also if it is no longer valid. Raises BadLease, and
        LeaseLost if there never was such a lease."""
        proof = task_policy.read_proof(text)
        run = self._run(proof)
        if proof.generation > run.generation:
            raise LeaseLost(run=run.id, generation=proof.generation, why="there is no such lease")
        if proof.generation == run.generation and run.session_id not in (None, proof.session_id):
            raise LeaseLost(
                run=run.id, generation=proof.generation, why="this lease belongs to another session"
            )
        history = self.store.runs.history(proof.run_id)
        seq = history[-1].seq if history else 0
        held = LeaseState(
            proof, run, seq, self._policy(run.id), LeaseTerm(self._expiry(proof.session_id))
        )
        held.failures = task_policy.failures_in(history)
        held.life = task_policy.lives_in(history)
        self.load_last_wait(held, history)
        return held

    def _policy(self, run_id: str) -> TaskPolicy:
        rows = self.store.runs.belongings(run_id).get("task", [])
        if not rows:
            return DEFAULT_POLICY
        return decoded(rows[0][0], f"the policy of run {run_id}", TaskPolicy)  # type: ignore

    def _run(self, proof: LeaseProof) -> RunRecord:
        run = self.store.runs.get(proof.run_id) if is_storable(proof.run_id) else None
        if run is None or run.namespace != self.namespace:
            raise LeaseLost(
                run=proof.run_id, generation=proof.generation, why="there is no such lease"
            )
        return run

    # Requests of holders

    def complete(self, held: LeaseState, result: Any) -> Request[RunEnded]:
        """Complete the run with a result. The answer is RunEnded."""
        data = self.codec.encode(result, what="the result")
        ended = RunEnded(Status.COMPLETED)
        return self._write(
            held,
            [Event(EventKind.RUN_COMPLETED)],
            ended,
            status=Status.COMPLETED,
            result=data,
            effects=[CloseStreams(CloseReason.COMPLETED)],
        )

    def is_small(self, data: bytes) -> bool:
        """Return whether a value is stored unchanged."""
        return self._client.sealer.values.passes(data)

    def fail(
        self, held: LeaseState, kind: str, message: str, details: Mapping[str, Any] | None
    ) -> Request[Retried | RunEnded]:
        """Record that the attempt failed. The kind of the failure and the policy decide whether the
        run is retried: the answer is Retried or RunEnded. Raises BadOption, NotEncodable."""
        if not is_one_of(kind, list(FailureKind)):
            raise BadOption(option="kind", value=kind, known=", ".join(FailureKind))
        error = self._failure(kind, message, details)
        wait = task_policy.decide(held.policy, FailureKind(kind), held.failures, random.random())
        until = None if wait is None else self.store.now() + wait
        failed = Event(
            EventKind.ATTEMPT_FAILED,
            None,
            msgspec.json.encode({"kind": kind, "until": until}),
            error,
        )
        if until is not None:
            place = {
                "status": Status.PENDING,
                "release": True,
                "wake_at": until if wait else None,
                "effects": [CloseStreams(CloseReason.RETRIED)],
            }
            return self._write(held, [failed], Retried(until), **place)
        status = Status.FAILED
        end = Event(EventKind.RUN_FAILED, error=error)
        if kind == FailureKind.CANCELLED:
            late = (
                held.run.status is Status.CANCELLING
                and held.run.cancel_cause == CancelCause.DEADLINE
            )
            status = Status.EXPIRED if late else Status.CANCELLED
            end = Event(EventKind.RUN_EXPIRED if late else EventKind.RUN_CANCELLED, error=error)
        closes = CloseReason.FAILED if status is Status.FAILED else status.value
        return self._write(
            held,
            [failed, end],
            RunEnded(status),
            status=status,
            error=error,
            effects=[CloseStreams(closes)],
        )

    def _failure(self, kind: str, message: str, details: Mapping[str, Any] | None) -> bytes:
        if not isinstance(message, str):
            raise BadOption(option="message", value=message, why="give the message as a text")
        if details is not None and not isinstance(details, Mapping):
            raise BadOption(option="details", value=details, why="give names and values")
        try:
            return msgspec.json.encode(
                {"type": kind, "message": message, "facts": dict(details or {})}
            )
        except (TypeError, ValueError) as error:
            raise NotEncodable(value="the failure", why=str(error)) from None

    def delay(self, held: LeaseState, until: Moment) -> Request[Deferred]:
        """Delay the run until a time, or for a duration; the attempt does not count as failed. The
        answer is Deferred. Raises BadWait."""
        now = self.store.now()
        at = checked_instant("delay", instant(until, now), now, self.horizon)
        event = Event(EventKind.RUN_DELAYED, None, msgspec.json.encode({"until": at}))
        place = {
            "status": Status.PENDING,
            "release": True,
            "wake_at": at,
            "effects": [CloseStreams(CloseReason.RELEASED)],
        }
        return self._write(held, [event], Deferred(Status.PENDING, at), **place)

    def _write(
        self, held: LeaseState, events: list[Event], outcome: Any, **place: Any
    ) -> Request[Any]:
        """Return the request that writes *events* as the holder; its answer is *outcome*, or
        RevisionChanged if *place* names a revision that is no longer current."""
        for number, event in enumerate(events, start=held.seq + 1):
            event.seq = number
        run = held.run
        if place.get("status") in FINAL:
            place["graph_id"] = run.graph_id
            end = end_of(run, had_children=False)
            if end is not None:
                place["effects"] = [*place["effects"], end]
        op = Advance(run_id=run.id, generation=held.proof.generation, events=events, **place)

        def decode(answer: Any) -> Any:
            if isinstance(answer, RevisionChanged):
                return answer
            held.seq += len(events)
            return outcome

        return Request(op, decode)

    def explain(self, held: LeaseState, request: Request[Any], refused: LeaseLost) -> Any:
        """Return the first answer if a refused write repeats one that was committed; else raise
        LeaseLost with the reason."""
        op = request.op
        assert isinstance(op, Advance)
        run = self._run(held.proof)
        if self._is_repeated(op, run):
            return self._first_answer(op, run) or request.decode(None)
        raise self.lost(held) from refused

    def caught_up(self, held: LeaseState) -> bool:
        """Return whether another process has written to the run with the same proof; if so, this
        lease continues after its events."""
        history = self.store.runs.history(held.run.id)
        seq = history[-1].seq if history else 0
        changed = seq != held.seq
        held.seq = seq
        return changed

    def _first_answer(self, op: Advance, run: RunRecord) -> Any:
        """Return the answer to the first of two equal calls, if it depends on the time of the call,
        else None."""
        if op.status in FINAL:
            return None
        last = self._by_holders(run)[-1]
        until: Any = object_of(last.data, f"the history of run {run.id}").get("until")
        if last.kind == EventKind.ATTEMPT_FAILED:
            return Retried(until)
        return Deferred(op.status or run.status, until)

    def _by_holders(self, run: RunRecord) -> list[Event]:
        """Return the events that holders have written. Events of operators are left out: they do
        not change the answers that holders got."""
        return [
            event for event in self.store.runs.history(run.id) if event.kind not in _BY_OPERATORS
        ]

    def _is_repeated(self, op: Advance, run: RunRecord) -> bool:
        if run.generation != op.generation or run.session_id is not None:
            return False
        if op.status in FINAL:
            run = self._client.sealer.run(run)
            return (run.status, run.result, run.error) == (op.status, op.result, op.error)
        history = self._client.sealer.events(run.id, self._by_holders(run)[-len(op.events) :])
        return [_essence(event) for event in history] == [_essence(event) for event in op.events]

    # Requests of operators

    def revoke(self, run_id: str, reason: str, session_id: str | None) -> Request[bool]:
        """Revoke the lease of a run. The answer is whether the run had a holder. Raises
        BadOption."""
        op = RevokeLease(
            run_id=run_named(run_id),
            namespace=self.namespace,
            reason=_reason(reason),
            session_id=session_id,
        )
        return Request(op, bool)

    def priority(self, run_id: str, priority: int) -> Request[int]:
        """Change the priority of a run. The answer is the old priority. Raises BadOption."""
        op = SetPriority(
            run_id=run_named(run_id), namespace=self.namespace, priority=priority_of(priority)
        )
        return Request(op, int)

    def override(self, run_id: str, reason: str, *, result: Any, failed: bool) -> Request[Status]:
        """End a run by an operator's decision: completed with *result*, or failed. The answer is
        its status. Raises BadOption."""
        reason = _reason(reason)
        failed = checked_flag("failed", failed)
        error = msgspec.json.encode({"type": "Overridden", "message": reason}) if failed else None
        data = None if failed else self.codec.encode(result, what="the result")
        status = Status.FAILED if failed else Status.COMPLETED
        op = OverrideRun(
            run_id=run_named(run_id),
            namespace=self.namespace,
            status=status,
            reason=reason,
            result=data,
            error=error,
        )
        return Request(op, Status)

    def cancel_reason(self, held: LeaseState) -> str | None:
        """Return the reason of a requested cancellation; None if there is no request. Raises
        LeaseLost."""
        run = self._run(held.proof)
        return (run.cancel_reason or "") if run.status is Status.CANCELLING else None

    def input(self, run: RunRecord) -> Any:
        """Return the arguments of a run as plain data. Raises KeyMissing, BadData."""
        return self.codec.decode(self._client.sealer.input(run))


_BY_OPERATORS = (EventKind.PRIORITY_CHANGED, EventKind.RUN_RELEASED)


def _reason(reason: str) -> str:
    if not isinstance(reason, str) or not reason.strip() or not is_storable(reason):
        raise BadOption(
            option="reason", value=reason, why="give a reason: it is recorded in the history"
        )
    return reason


def _lease_state(session_id: str, leased: LeasedTask, term: LeaseTerm) -> LeaseState:
    run = leased.run
    policy = DEFAULT_POLICY
    if leased.policy is not None:
        policy = decoded(leased.policy, f"the policy of run {run.id}", TaskPolicy)
    return LeaseState(LeaseProof(run.id, run.generation, session_id), run, leased.seq, policy, term)


def _essence(event: Event) -> tuple[object, ...]:
    """Return the fields that are equal in two events of repeated calls: all but the times."""
    wait = object_of(event.data, "a wait of the run") if event.kind == EventKind.WAIT_OPENED else {}
    return event.kind, event.step, event.error, wait.get("condition"), wait.get("on_timeout")
