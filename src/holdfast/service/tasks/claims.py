"""Lease runs to a holder: its session, the routes that it serves, claims, and the maintenance that
holders do."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from holdfast.core.duration import Duration
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import Route, RunRecord
from holdfast.core.sessions import Session
from holdfast.core.status import FINAL, Status
from holdfast.core.stored_json import decode_stored
from holdfast.core.streams.model import CloseReason
from holdfast.core.tasks import policy as task_policy
from holdfast.core.tasks.children import STEP as CHILDREN_STEP
from holdfast.core.tasks.policy import LeaseProof, TaskPolicy
from holdfast.core.text import is_one_of
from holdfast.core.validation import checked_text
from holdfast.engine.runtime.ids import new_id
from holdfast.errors import BadOption, HoldfastError, NotReclaimable, RunFinished, RunNotFound
from holdfast.payloads.compose import composer
from holdfast.service.requests import Request
from holdfast.service.runs import RunService, storable_run_id
from holdfast.service.tasks.children import TaskChildren
from holdfast.service.tasks.lease_state import LeaseState, LeaseTerm, RunEnded, WaitResult
from holdfast.service.tasks.spending import begin_without_room
from holdfast.service.tasks.suspension import Suspensions
from holdfast.service.tasks.terms import lifetime_of
from holdfast.service.tasks.writes import write_as_holder
from holdfast.store.database import Operation
from holdfast.store.graphs.operations import Compose, ResolveGraphs
from holdfast.store.liveness import heartbeat_is_overdue
from holdfast.store.runs.operations import Advance, EndSession, ExpireRuns
from holdfast.store.store import Store
from holdfast.store.streams.operations import CloseStreams
from holdfast.store.tasks.operations import ClaimFacts, ClaimLeases, ExpireAttempts, LeasedTask

DEFAULT_POLICY = TaskPolicy()

PLENTY = 1000
"""The concurrency that a holder offers, which has no limit of its own."""

STALE = 0.05
"""Seconds for which cached routes are used. Routes change rarely: only when a run with a new
combination of workflow, version, lane and capabilities is started."""

MAINTENANCE_INTERVAL = 200_000
"""Microseconds between two checks for maintenance that no worker may be there to do."""

GRAPH_INTERVAL = 1_000_000
"""Microseconds between two resolutions of graphs that another process has left behind. A graph that
cannot be resolved here stays behind, and must not make every claim try it again."""


class RecentReads:
    """A cache of reads that all holders of an engine share."""

    def __init__(self) -> None:
        self.routes: dict[int, Route] = {}
        self.routes_at: float = -STALE
        self.maintained_at: int | None = None
        """The time of the last check for maintenance; None if there was none."""
        self.resolved_at: int | None = None
        """The time of the last resolution of graphs; None if there was none."""


_RECENT_READS: WeakKeyDictionary[RunService, RecentReads] = WeakKeyDictionary()


class ClaimedLeases(list[LeaseState]):
    """The leases that a holder receives. ``parked`` tells whether the claim has found runs that it
    had to park or end instead: there may be others behind them."""

    def __init__(self, leases: Iterable[LeaseState] = (), *, parked: bool = False) -> None:
        super().__init__(leases)
        self.parked = parked


class LeaseClaims:
    """Builds the operations that lease runs to holders."""

    def __init__(
        self,
        client: RunService,
        suspensions: Suspensions,
        children: TaskChildren,
        crash_limit: int,
    ) -> None:
        self._client: RunService = client
        self._store: Store = client.store
        self._suspensions: Suspensions = suspensions
        self._children: TaskChildren = children
        self._crash_limit: int = crash_limit
        self._compose: Compose = composer(client.sealer, client.codec)
        self._reads: RecentReads = _RECENT_READS.setdefault(client, RecentReads())

    # Sessions

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
        now = self._store.now()
        host = socket.gethostname()
        return Session(
            id=new_id(),
            worker=_worker_name(worker) or host,
            host=host,
            pid=0,
            slot=-1,
            started_at=now,
            beat_at=now,
            expires_at=now + lifetime,
            serves=self._offer(workflows, lanes, capabilities, claims=claims),
        )

    def _offer(
        self,
        workflows: Sequence[str] | None,
        lanes: Sequence[str] | None,
        capabilities: Sequence[str],
        *,
        claims: bool,
    ) -> bytes:
        """Return the offer of a holder as JSON, which explanations of blocked runs read. Without
        workflows or lanes it serves all of them, which is ``null``."""
        offer = {
            "workflows": dict.fromkeys(workflows or ()) or None,
            "lanes": list(lanes or ()) or None,
            "capabilities": list(capabilities),
            "namespace": self._client.namespace,
            "concurrency": PLENTY,
            "claims": claims,
            "crash_limit": self._crash_limit,
        }
        return msgspec.json.encode(offer)

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
            known = self._store.runs.routes()
            self._reads.routes = known

        def fits(route: Route) -> bool:
            return (
                route.namespace == self._client.namespace
                and (not workflows or route.workflow in workflows)
                and (not lanes or route.lane in lanes)
                and set(route.capabilities) <= set(capabilities)
            )

        return [(number, route.lane) for number, route in known.items() if fits(route)]

    # Maintenance

    def maintenance(self, own: str, *, now: bool = False) -> list[Operation] | None:
        """Return the maintenance operations that are due, except on the session *own*: end dead
        sessions, expire attempts and runs past their time, and resolve graphs.

        Holders do this because there may be no worker. Return None if the last check was less than
        MAINTENANCE_INTERVAL ago, unless *now*."""
        instant = self._store.now()
        if not now and not _is_past(self._reads.maintained_at, instant, MAINTENANCE_INTERVAL):
            return None
        self._reads.maintained_at = instant
        operations: list[Operation] = [
            EndSession(session.id, crashed=True)
            for session in self._store.sessions.all()
            if session.id != own and heartbeat_is_overdue(self._store, session, instant)
        ]
        due = self._store.runs.next_due()
        if due.attempt is not None and due.attempt <= instant:
            operations.append(ExpireAttempts(random.random()))
        if due.deadline is not None and due.deadline <= instant:
            operations.append(ExpireRuns())
        if due.graph is not None and _is_past(self._reads.resolved_at, instant, GRAPH_INTERVAL):
            self._reads.resolved_at = instant
            operations.append(ResolveGraphs(compose=self._compose))
        return operations

    def end_dead_holder(self, run_id: str) -> list[EndSession]:
        """Return the operation that ends the session of a run's holder if that is dead, else
        nothing. Raises RunNotFound."""
        run = self._own_run(run_id)
        now = self._store.now()
        return [
            EndSession(session.id, crashed=True)
            for session in self._store.sessions.all()
            if session.id == run.session_id and heartbeat_is_overdue(self._store, session, now)
        ]

    # Claims

    def status(self, run_id: str) -> Status:
        """Return the status of a run. Raises RunNotFound."""
        return self._own_run(run_id).status

    def _own_run(self, run_id: str) -> RunRecord:
        run = self._store.runs.get(storable_run_id(run_id))
        if run is None or run.namespace != self._client.namespace:
            raise RunNotFound(run=run_id)
        return run

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
        run = self._own_run(run_id)
        if run.status in FINAL:
            raise RunFinished(run=run_id, status=run.status.value)
        known = self._store.runs.routes()
        own = Route(run.namespace, run.workflow, run.version, run.lane, run.capabilities)
        offered = [(number, lane) for number, lane in routes if known.get(number) == own]
        if not offered:
            raise _not_offered(run, capabilities)
        request = self.claim(session_id, offered, 1, term, run_id)

        def decode(answer: list[LeasedTask]) -> list[LeaseState]:
            if answer:
                held: list[LeaseState] = request.decode(answer)
                return held
            current = self._own_run(run_id)
            if current.session_id is not None:
                raise NotReclaimable(
                    run=run_id, why="another holder has the lease", session=current.session_id
                )
            raise NotReclaimable(
                run=run_id, why=f"the run is {current.status.value}, and cannot be claimed now"
            )

        return Request(request.op, decode)

    def claim(
        self,
        session_id: str,
        routes: Sequence[tuple[int, str]],
        limit: int,
        term: LeaseTerm,
        run_id: str | None = None,
        key: str | None = None,
    ) -> Request[list[LeaseState]]:
        """Lease up to *limit* runs; their leases are recorded under *key*, if that is given. The
        answer is the leases that the holder receives: runs whose
        wait is not over are parked again, and runs whose lease was lost too often are failed."""
        begun: dict[str, tuple[LeaseState, Request[Any] | None]] = {}

        def judge(leased: LeasedTask, facts: ClaimFacts) -> Advance | None:
            held = _lease_state(session_id, leased, term)
            request = None
            try:
                held.failures = task_policy.failures_in(facts.history)
                held.life = task_policy.lives_in(facts.history)
                self._suspensions.load_last_wait(held, facts.history)
                self._children.load(held, facts.history)
                request = self._begin(held, facts)
            # Such as a key that is missing here: raised when the holder asks for the outcome.
            except HoldfastError as error:
                held.resume_error = error
            begun[leased.run.id] = (held, request)
            if request is None:
                return None
            assert isinstance(request.op, Advance)
            return self._client.sealer.seal(request.op)

        def decode(answer: list[LeasedTask]) -> list[LeaseState]:
            leases = [
                begun.get(leased.run.id) or (_lease_state(session_id, leased, term), None)
                for leased in answer
            ]
            received = [held for held, request in leases if request is None or request.decode(None)]
            now = self._store.now()
            for held in received:
                held.leased_at = now
            return ClaimedLeases(received, parked=len(received) < len(leases))

        return Request(ClaimLeases(session_id, routes, limit, run_id, judge, key), decode)

    def _begin(self, held: LeaseState, facts: ClaimFacts) -> Request[Any] | None:
        """Return the request that is written before the holder receives a lease, None if there is
        none: it records the outcome of the run's wait, parks a run whose budget is used up, or
        fails a run whose lease was lost too often. The answer is whether the holder receives the
        lease."""
        if held.failures.lost > held.policy.reclaims:
            return _give_up(held)
        if held.run.status is Status.CANCELLING:
            return None
        if facts.breach is not None:
            return begin_without_room(held, facts.breach)
        if held.children_wait is not None:
            return self._children.judge(held, facts.children(CHILDREN_STEP))
        if held.open is None:
            return None
        request = self._suspensions.judge(held, facts.signals())

        def decode(answer: Any) -> bool:
            outcome = request.decode(answer)
            if isinstance(outcome, WaitResult):
                held.open = None
                held.resumed = outcome
            return held.open is None

        return Request(request.op, decode)


def _worker_name(worker: str) -> str | None:
    if is_one_of(worker, ("",)):
        return None
    return checked_text("worker", worker)


def _not_offered(run: RunRecord, capabilities: Sequence[str]) -> NotReclaimable:
    lacks = ", ".join(sorted(set(run.capabilities) - set(capabilities)))
    if lacks:
        why = f"this holder lacks {lacks} of the capabilities that the run requires"
        return NotReclaimable(run=run.id, why=why)
    return NotReclaimable(
        run=run.id, why="this holder does not offer the workflow or the lane of the run"
    )


def _lease_state(session_id: str, leased: LeasedTask, term: LeaseTerm) -> LeaseState:
    run = leased.run
    policy = DEFAULT_POLICY
    if leased.policy is not None:
        policy = decode_stored(leased.policy, f"the policy of run {run.id}", TaskPolicy)
    return LeaseState(LeaseProof(run.id, run.generation, session_id), run, leased.seq, policy, term)


def _give_up(held: LeaseState) -> Request[Any]:
    """Return the request that fails a run whose lease was lost too often. The answer is False: the
    holder does not receive the lease."""
    message = (
        f"the lease of the run was lost {held.failures.lost} times, and"
        f" {held.policy.reclaims} is the limit"
    )
    error = msgspec.json.encode(
        {"type": "TooManyReclaims", "message": message, "facts": {"reclaims": held.policy.reclaims}}
    )
    request = write_as_holder(
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


def _is_past(last: int | None, now: int, interval: int) -> bool:
    """Return whether the last time is more than *interval* ago. A clock that was set back counts as
    past, too."""
    return last is None or not 0 <= now - last < interval
