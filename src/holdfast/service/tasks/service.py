"""Explicit leases: what a program that is no Python function does with a run, as transitions, and
what their answers mean.

The holder's writes are plain advances, as quick as those of any worker. Only when one is refused
does anybody look why: a call that was made before, by the same holder and with the same outcome, is
answered the same.
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
from holdfast.core import history as run_history
from holdfast.core.claiming import CRASH_LIMIT
from holdfast.core.duration import Duration
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import Route, RunRecord
from holdfast.core.schedules.model import tick_of
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
from holdfast.store.contract import Operation
from holdfast.store.contract.leases import (
    ClaimLeases,
    ExpireAttempts,
    LeasedTask,
    OverrideRun,
    RevokeLease,
    SetPriority,
)
from holdfast.store.contract.runs import Advance, EndSession, ExpireRuns, RevisionChanged
from holdfast.store.liveness import heartbeat_is_overdue

NOBODY = TaskPolicy()

PLENTY = 1000
"""How many runs a holder may have at work, as far as others can tell."""

STALE = 0.05
"""Seconds for which routes are known: there are new ones when something of a new kind is started,
not more often."""

OFTEN = 200_000
"""Microseconds between two looks at what nobody else may look after."""


class RecentReads:
    """What all holders of an engine have seen of the database, and when."""

    def __init__(self) -> None:
        self.routes: dict[int, Route] = {}
        self.routes_at = -STALE
        self.looked: int | None = None
        """When somebody last looked after others."""


_SEEN: WeakKeyDictionary[RunService, RecentReads] = WeakKeyDictionary()


class TaskService(Suspensions, LeaseTerms):
    """Turns what holders and operators ask into transitions."""

    def __init__(
        self, client: RunService, horizon: Duration | None = None, *, crash_limit: int = CRASH_LIMIT
    ) -> None:
        super().__init__(client)
        self._crash_limit: int = crash_limit
        if horizon is not None:
            self.horizon = duration.parse(horizon)
        self.frames = TaskOutput(client)
        self._seen = _SEEN.setdefault(client, RecentReads())

    @property
    def namespace(self) -> str:
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
        """Return a session for a holder. It has no process that could be looked at: it lives while
        it is renewed. One that does not claim again only holds what it has claimed."""
        lifetime = lifetime_of(ttl)
        if not workflows and not lanes:
            raise BadOption(
                option="workflows", why="say which workflows, or which lanes, these leases are for"
            )
        now, name = (
            self.store.now(),
            checked_text("worker", None if is_one_of(worker, ("",)) else worker)
            or socket.gethostname(),
        )
        return Session(
            id=new_id(),
            worker=name,
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
        """Return what a holder offers, as those are told who ask why a run does not move."""
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
        """Return the routes that a holder can serve, in this namespace. It says what it serves, so
        that it does not take what Python workers do. They are as they were a moment ago, unless
        they must be *fresh*."""
        known = self._seen.routes
        if fresh or time.monotonic() - self._seen.routes_at > STALE:
            self._seen.routes_at = time.monotonic()
            known = self._seen.routes = self.store.routes()

        def fits(route: Route) -> bool:
            return (
                route.namespace == self.namespace
                and (not workflows or route.workflow in workflows)
                and (not lanes or route.lane in lanes)
                and set(route.capabilities) <= set(capabilities)
            )

        return [(number, route.lane) for number, route in known.items() if fits(route)]

    def duties(self, own: str, *, now: bool = False) -> list[Operation] | None:
        """Return what a holder does for others, since there may be no worker: it frees the runs of
        those who are gone, and sees to what has taken, or waited, too long. None when that was
        looked at a moment ago, unless it must be *now*."""
        instant = self.store.now()
        if not now and self._seen.looked is not None and 0 <= instant - self._seen.looked < OFTEN:
            return None
        self._seen.looked = instant
        gone = [
            one
            for one in self.store.sessions()
            if one.id != own and heartbeat_is_overdue(self.store, one, instant)
        ]
        look = self.store.next_look()
        late: list[Operation] = (
            []
            if look.attempt is None or look.attempt > instant
            else [ExpireAttempts(random.random())]
        )
        late += [] if look.deadline is None or look.deadline > instant else [ExpireRuns()]
        return [*(EndSession(one.id, crashed=True) for one in gone), *late]

    def gone_holder(self, run_id: str) -> list[EndSession]:
        """Return what ends the session of the holder of a run, if that is gone."""
        run, now = self._mine(run_id), self.store.now()
        found = [
            one
            for one in self.store.sessions()
            if one.id == run.session_id and heartbeat_is_overdue(self.store, one, now)
        ]
        return [EndSession(one.id, crashed=True) for one in found]

    def reclaim(
        self,
        session_id: str,
        run_id: str,
        routes: Sequence[tuple[int, str]],
        capabilities: Sequence[str],
        term: LeaseTerm,
    ) -> Request:
        """Lease this very run; the answer is as for ``claim``. Raises NotReclaimable,
        RunFinished."""
        run, known = self._mine(run_id), self.store.routes()
        if run.status in FINAL:
            raise RunFinished(run=run_id, status=run.status.value)
        mine = Route(run.namespace, run.workflow, run.version, run.lane, run.capabilities)
        offered = [(number, lane) for number, lane in routes if known.get(number) == mine]
        if not offered:
            lacks = ", ".join(sorted(set(run.capabilities) - set(capabilities)))
            why = (
                f"of its capabilities this holder lacks {lacks}"
                if lacks
                else "this holder does not offer its workflow or its lane"
            )
            raise NotReclaimable(run=run_id, why=why)

        request = self.claim(session_id, offered, 1, term, run_id)

        def decode(answer: list[LeasedTask]) -> list[LeaseState]:
            if answer:
                held: list[LeaseState] = request.decode(answer)
                return held
            now = self._mine(run_id)
            if now.session_id is not None:
                raise NotReclaimable(run=run_id, why="somebody holds it", session=now.session_id)
            raise NotReclaimable(
                run=run_id, why=f"it is {now.status.value}, and not ready to be worked on"
            )

        return Request(request.op, decode)

    def status(self, run_id: str) -> Status:
        """Say where a run stands."""
        return self._mine(run_id).status

    def _mine(self, run_id: str) -> RunRecord:
        run = self.store.run(run_named(run_id))
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
    ) -> Request:
        """Lease runs; the answer is what is handed to the holder: not what waits on, nor what was
        lost too often."""
        begun: dict[str, tuple[LeaseState, Request | None]] = {}

        def judge(
            leased: LeasedTask, history: list[Event], signals: Callable[[], list[Signal]]
        ) -> Advance | None:
            held, request = _holding(session_id, leased, term), None
            try:
                held.failures = task_policy.failures_in(history)
                held.life = task_policy.lives_in(history)
                self.look_back(held, history)
                request = self._begin(held, signals)
            except (
                HoldfastError
            ) as error:  # such as a key that is missing here: its holder is told when it asks
                held.trouble = error
            begun[leased.run.id] = (held, request)
            return None if request is None else self._client.sealer.seal(request.op)  # type: ignore[return-value]

        def decode(answer: list[LeasedTask]) -> list[LeaseState]:
            found = [
                begun.get(one.run.id) or (_holding(session_id, one, term), None) for one in answer
            ]
            return [held for held, request in found if request is None or request.decode(None)]

        return Request(ClaimLeases(session_id, routes, limit, run_id, judge), decode)

    def _begin(self, held: LeaseState, signals: Callable[[], list[Signal]]) -> Request | None:
        """Return what is written before a lease is handed to its holder: what its wait came to, or
        that it was lost too often. The answer says whether it is handed out."""
        if held.failures.lost > held.policy.reclaims:
            return self._give_up(held)
        if held.open is None or held.run.status is Status.CANCELLING:
            return None
        request = self.judge(held, signals())

        def decode(answer: Any) -> bool:
            found = request.decode(answer)
            if isinstance(found, WaitResult):
                held.open, held.resumed = None, found
            return held.open is None

        return Request(request.op, decode)

    def _give_up(self, held: LeaseState) -> Request:
        told = {
            "type": "TooManyReclaims",
            "message": (
                f"its holders have lost it {held.failures.lost} times, and {held.policy.reclaims}"
                " is the limit"
            ),
        }
        error = msgspec.json.encode({**told, "facts": {"reclaims": held.policy.reclaims}})
        over = Event(EventKind.RUN_FAILED, error=error)
        request = self._write(
            held,
            [over],
            RunEnded(Status.FAILED),
            status=Status.FAILED,
            error=error,
            closes=CloseReason.FAILED,
        )

        def decode(answer: Any) -> bool:
            request.decode(answer)
            return False

        return Request(request.op, decode)

    def again(self, text: object) -> LeaseState:
        """Return the lease that a proof shows, or has shown. Raises BadLease; LeaseLost when there
        never was such a lease."""
        proof = task_policy.read_proof(text)
        run = self._run(proof)
        if proof.generation > run.generation:
            raise LeaseLost(run=run.id, generation=proof.generation, why="there is no such lease")
        if proof.generation == run.generation and run.session_id not in (None, proof.session_id):
            raise LeaseLost(
                run=run.id, generation=proof.generation, why="this lease belongs to another session"
            )
        history = self.store.history(proof.run_id)
        seq = history[-1].seq if history else 0
        held = LeaseState(
            proof, run, seq, self._policy(run.id), LeaseTerm(self._expiry(proof.session_id))
        )
        held.failures = task_policy.failures_in(history)
        held.life = task_policy.lives_in(history)
        self.look_back(held, history)
        return held

    def _policy(self, run_id: str) -> TaskPolicy:
        rows = self.store.belongings(run_id).get("task", [])
        return decoded(rows[0][0], f"the policy of run {run_id}", TaskPolicy) if rows else NOBODY  # type: ignore

    def _run(self, proof: LeaseProof) -> RunRecord:
        run = self.store.run(proof.run_id) if is_storable(proof.run_id) else None
        if run is None or run.namespace != self.namespace:
            raise LeaseLost(
                run=proof.run_id, generation=proof.generation, why="there is no such lease"
            )
        return run

    # What a holder does

    def complete(self, held: LeaseState, result: Any) -> Request:
        """End the run well."""
        data = self.codec.encode(result, what="the result")
        ended = RunEnded(Status.COMPLETED)
        return self._write(
            held,
            [Event(EventKind.RUN_COMPLETED)],
            ended,
            status=Status.COMPLETED,
            result=data,
            closes=CloseReason.COMPLETED,
        )

    def is_small(self, data: bytes) -> bool:
        """Say whether a value is stored as it is."""
        return self._client.sealer.values.passes(data)

    def fail(
        self, held: LeaseState, kind: str, message: str, details: Mapping[str, Any] | None
    ) -> Request:
        """Say that the attempt failed; what follows is as the kind and the policy say."""
        if not is_one_of(kind, list(FailureKind)):
            raise BadOption(option="kind", value=kind, known=", ".join(FailureKind))
        error = self._told(kind, message, details)
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
                "keep": False,
                "wake_at": until if wait else None,
                "closes": CloseReason.RETRIED,
            }
            return self._write(held, [failed], Retried(until), **place)
        status, over = Status.FAILED, Event(EventKind.RUN_FAILED, error=error)
        if kind == FailureKind.CANCELLED:
            late = (
                held.run.status is Status.CANCELLING
                and held.run.cancel_reason == run_history.DEADLINE
            )
            status = Status.EXPIRED if late else Status.CANCELLED
            over = Event(EventKind.RUN_EXPIRED if late else EventKind.RUN_CANCELLED, error=error)
        closes = CloseReason.FAILED if status is Status.FAILED else status.value
        return self._write(
            held, [failed, over], RunEnded(status), status=status, error=error, closes=closes
        )

    def _told(self, kind: str, message: str, details: Mapping[str, Any] | None) -> bytes:
        if not isinstance(message, str):
            raise BadOption(option="message", value=message, why="it is a text")
        if details is not None and not isinstance(details, Mapping):
            raise BadOption(option="details", value=details, why="give names and values")
        try:
            return msgspec.json.encode(
                {"type": kind, "message": message, "facts": dict(details or {})}
            )
        except (TypeError, ValueError) as error:
            raise NotEncodable(value="the failure", why=str(error)) from None

    def delay(self, held: LeaseState, until: Moment) -> Request:
        """Put the run off; it is no failed attempt."""
        now = self.store.now()
        at = checked_instant("delay", instant(until, now), now, self.horizon)
        event = Event(EventKind.RUN_DELAYED, None, msgspec.json.encode({"until": at}))
        place = {
            "status": Status.PENDING,
            "keep": False,
            "wake_at": at,
            "closes": CloseReason.RELEASED,
        }
        return self._write(held, [event], Deferred(Status.PENDING, at), **place)

    def _write(self, held: LeaseState, events: list[Event], outcome: Any, **place: Any) -> Request:
        for number, event in enumerate(events, start=held.seq + 1):
            event.seq = number
        run = held.run
        if place.get("status") in FINAL:
            place["scheduled"] = tick_of(run.key) is not None
            if run.parent_id is not None:
                place["parent"] = (run.parent_id, run.parent_step or "", run.parent_index)
        op = Advance(run_id=run.id, generation=held.proof.generation, events=events, **place)

        def decode(answer: Any) -> Any:
            if isinstance(answer, RevisionChanged):
                return answer
            held.seq += len(events)
            return outcome

        return Request(op, decode)

    def explain(self, held: LeaseState, request: Request, refused: LeaseLost) -> Any:
        """A write was refused: answer as before if it is the same one again, else raise LeaseLost
        with what has happened."""
        op = request.op
        assert isinstance(op, Advance)
        run = self._run(held.proof)
        if self._is_the_same(op, run):
            return self._first_answer(op, run) or request.decode(None)
        raise self.lost(held) from refused

    def caught_up(self, held: LeaseState) -> bool:
        """See whether somebody else has written to the run with the same proof; then this lease
        goes on from there."""
        history = self.store.history(held.run.id)
        seq = history[-1].seq if history else 0
        changed = seq != held.seq
        held.seq = seq
        return changed

    def _first_answer(self, op: Advance, run: RunRecord) -> Any:
        """Return what the first of two equal calls was answered, where it depends on when it was
        made."""
        if op.status in FINAL:
            return None
        last = self._by_holders(run)[-1]
        until: Any = object_of(last.data, f"the history of run {run.id}").get("until")
        return (
            Retried(until)
            if last.kind == EventKind.ATTEMPT_FAILED
            else Deferred(op.status or run.status, until)
        )

    def _by_holders(self, run: RunRecord) -> list[Event]:
        """Return what holders have written: what an operator did since takes nothing from what they
        were answered."""
        return [event for event in self.store.history(run.id) if event.kind not in _BY_OPERATORS]

    def _is_the_same(self, op: Advance, run: RunRecord) -> bool:
        if run.generation != op.generation or run.session_id is not None:
            return False
        if op.status in FINAL:
            run = self._client.sealer.run(run)
            return (run.status, run.result, run.error) == (op.status, op.result, op.error)
        history = self._client.sealer.events(run.id, self._by_holders(run)[-len(op.events) :])
        return [_essence(event) for event in history] == [_essence(event) for event in op.events]

    # What operators do

    def revoke(self, run_id: str, reason: str, session_id: str | None) -> Request:
        """Take a run from its holder; the answer is whether anybody held it."""
        op = RevokeLease(
            run_id=run_named(run_id),
            namespace=self.namespace,
            reason=_reason(reason),
            session_id=session_id,
        )
        return Request(op, bool)

    def priority(self, run_id: str, priority: int) -> Request:
        """Change the priority of a run; the answer is the old one."""
        op = SetPriority(
            run_id=run_named(run_id), namespace=self.namespace, priority=priority_of(priority)
        )
        return Request(op, int)

    def override(self, run_id: str, reason: str, *, result: Any, failed: bool) -> Request:
        """End a run as an operator says."""
        reason, failed = _reason(reason), checked_flag("failed", failed)
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
        """Say why somebody has asked the run to stop; None when nobody has."""
        run = self._run(held.proof)
        return (run.cancel_reason or "") if run.status is Status.CANCELLING else None

    def input(self, run: RunRecord) -> Any:
        """Return the arguments of a run as plain data."""
        return self.codec.decode(self._client.sealer.input(run))


_BY_OPERATORS = (EventKind.PRIORITY_CHANGED, EventKind.RUN_RELEASED)


def _reason(reason: str) -> str:
    if not isinstance(reason, str) or not reason.strip() or not is_storable(reason):
        raise BadOption(option="reason", value=reason, why="say why: it is kept in the history")
    return reason


def _holding(session_id: str, leased: LeasedTask, term: LeaseTerm) -> LeaseState:
    run = leased.run
    policy = (
        NOBODY
        if leased.policy is None
        else decoded(leased.policy, f"the policy of run {run.id}", TaskPolicy)
    )
    return LeaseState(LeaseProof(run.id, run.generation, session_id), run, leased.seq, policy, term)


def _essence(event: Event) -> tuple[object, ...]:
    """Return what makes two events the same but for the time at which they were written."""
    told = object_of(event.data, "a wait of the run") if event.kind == EventKind.WAIT_OPENED else {}
    return event.kind, event.step, event.error, told.get("condition"), told.get("on_timeout")
