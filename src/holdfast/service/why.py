"""Explain why a run makes no progress: collect the facts that ``core.why`` interprets."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from holdfast.core.events import Event, EventKind
from holdfast.core.gates.model import Gate, GateEntry
from holdfast.core.graphs.model import ENDED, MemberRecord, MemberState, name_of
from holdfast.core.history import live_events
from holdfast.core.runs import Route, RunRecord
from holdfast.core.sessions import Session
from holdfast.core.status import FINAL, LIVE, Status
from holdfast.core.waits import WaitKind
from holdfast.core.why import workers as worker_views
from holdfast.core.why.claim import is_served
from holdfast.core.why.explain import explain
from holdfast.core.why.graphs import explain_member
from holdfast.core.why.model import Blocker, LanePlace, RunFacts, Why
from holdfast.core.why.stored_errors import error_text
from holdfast.core.why.workers import Liveness, UnservedRoute, WorkerFacts, life_of, offer_of
from holdfast.errors import RowDamaged, RunNotFound
from holdfast.payloads.sealer import PayloadSealer
from holdfast.service.runs import storable_run_id
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.store import Store

__all__ = ["Blocker", "UnservedRoute", "Why", "at_work", "look_at_workers", "unserved", "why"]

DEEPEST = 4
"""Levels of children that an explanation follows."""

MOST = 3
"""Open children of a map that are explained."""

UPSTREAMS = 200
"""Members of a graph that are searched for the error that a skipped member comes from."""

PAGE = 200
"""Open children that are counted, at most."""

READY = 20_000
"""Live runs that are read, at most, to find routes without a worker."""

ELSEWHERE = "a run of another namespace"

PATIENCE = 5000
"""Leased runs that are read, at most, to find the runs that occupy a lane."""


HandlersOf = Callable[[RunRecord], Sequence[str] | None]
"""Returns the tasks of a run's model that need handlers; None for a run without a model."""


def _no_handlers(run: RunRecord) -> Sequence[str] | None:
    """Know no models."""
    return None


def why(
    store: Store,
    run: RunRecord | str,
    sealer: PayloadSealer | None = None,
    only: str | None = None,
    handlers_of: HandlersOf = _no_handlers,
) -> Why:
    """Explain the status of *run*. An id may also be that of a graph member without a run. With
    *only*, nothing outside that namespace is explained or named. Raises RunNotFound."""
    record = run if isinstance(run, RunRecord) else store.runs.get(storable_run_id(run))
    if record is None:
        return _explain_member(store, str(run), only, sealer or PayloadSealer(store))
    if only is not None and record.namespace != only:
        raise RunNotFound(run=record.id)
    workers = look_at_workers(store, only)
    opener = sealer or PayloadSealer(store)
    return _explain(store, record, workers, DEEPEST, opener, only, handlers_of)


def _explain_member(store: Store, run_id: str, only: str | None, sealer: PayloadSealer) -> Why:
    member = store.graphs.member(run_id) if isinstance(run_id, str) else None
    graph = None if member is None else store.graphs.get(member.graph_id)
    if member is None or graph is None or (only is not None and graph.namespace != only):
        raise RunNotFound(run=run_id)
    if member.joined is not None:
        return why(store, member.joined, only=only, sealer=sealer)
    damage = _damage_of(store, graph.id)
    if damage is not None:
        return explain_member(graph, member, [], {}, damage)
    upstreams: dict[int, list[MemberRecord]] = {}
    for needed in store.graphs.needed_by(run_id):
        upstream = store.graphs.member(needed.run_id)
        if upstream is not None:
            upstreams.setdefault(needed.number, []).append(upstream)
    groups = store.graphs.groups_of_member(run_id)
    cause = None
    if member.state in ENDED:
        cause = _failed_upstream(store, run_id, sealer)
    return explain_member(graph, member, groups, upstreams, cause=cause)


def _failed_upstream(store: Store, run_id: str, sealer: PayloadSealer) -> str | None:
    """Return the error of the nearest failed member that a member depends on, with its name; None
    if no such member has failed."""
    seen = {run_id}
    queue = deque([run_id])
    while queue and len(seen) <= UPSTREAMS:
        for needed in store.graphs.needed_by(queue.popleft()):
            if needed.state is MemberState.FAILED:
                run = store.runs.get(needed.joined or needed.run_id)
                if run is not None and run.error is not None:
                    shown = sealer.display.run(run)
                    return f"{error_text(shown.error)} in member {name_of(needed.run_id)}"
            if needed.run_id not in seen:
                seen.add(needed.run_id)
                queue.append(needed.run_id)
    return None


def _damage_of(store: Store, graph_id: str) -> str | None:
    """Return the damage of a graph's rows, None if there is none: a damaged graph is not
    resolved."""
    try:
        store.graphs.snapshot(graph_id)
    except RowDamaged as damage:
        return str(damage)
    return None


def look_at_workers(store: Store, only: str | None = None) -> list[WorkerFacts]:
    """Return all workers, alive or dead; with *only*, the workers that serve that namespace."""
    now = store.now()
    workers = [_worker(store, session, now) for session in store.sessions.all()]
    return [worker for worker in workers if only is None or worker.offer.namespace in (None, only)]


def _worker(store: Store, session: Session, now: int) -> WorkerFacts:
    life = life_of(session, process=store.liveness.is_alive(session), now=now)
    return WorkerFacts(session=session, offer=offer_of(session), life=life)


def at_work(store: Store, workers: list[WorkerFacts]) -> dict[str, list[RunRecord]]:
    """Return the runs that are leased to each session and do not wait, by the session's id."""
    by_session: dict[str, list[RunRecord]] = {}
    left = PATIENCE
    for worker in workers:
        held = store.sessions.held_by(worker.session.id)[:left]
        left -= len(held)
        runs = [run for run_id, _, _ in held if (run := store.runs.get(run_id)) is not None]
        by_session[worker.session.id] = [run for run in runs if run.status is not Status.WAITING]
    return by_session


def unserved(
    store: Store, workers: list[WorkerFacts] | None = None, only: str | None = None
) -> list[UnservedRoute]:
    """Return the routes that have ready runs and no live worker; with *only*, the routes of that
    namespace."""
    if workers is None:
        workers = look_at_workers(store, only)
    living = [worker for worker in workers if worker.life is not Liveness.GONE]
    offers = [worker.offer for worker in living if worker.offer.claims]
    waiting: dict[Route, list[str]] = {}
    for run in _ready(store, {worker.session.id for worker in living}, only):
        waiting.setdefault(
            Route(run.namespace, run.workflow, run.version, run.lane, run.capabilities), []
        ).append(run.id)
    routes = []
    for route, runs in waiting.items():
        if all(worker_views.lacks(offer, route) for offer in offers):
            named = f"{route.workflow} version {route.version} in lane {route.lane}"
            missing = worker_views.unserved(offers, route) if offers else named
            remedy = worker_views.start_command(offers, route)
            routes.append(
                UnservedRoute(
                    route=route, runs=len(runs), example=runs[-1], missing=missing, remedy=remedy
                )
            )
    return routes


def _ready(store: Store, living: set[str], only: str | None) -> Iterator[RunRecord]:
    """Yield the runs that could continue now if a worker served them."""
    statuses = [Status.PENDING, Status.RUNNING, Status.CANCELLING, Status.WAITING]
    now = store.now()
    which = RunFilter(statuses=statuses, limit=PAGE, namespace=only)
    for _ in range(READY // PAGE):
        page = store.runs.page(which)
        for run in page.runs:
            is_ready = run.waits is None if run.wake_at is None else run.wake_at <= now
            if is_ready and run.session_id not in living:
                yield run
        if page.next is None:
            return
        which.after = page.next


def _explain(
    store: Store,
    run: RunRecord,
    workers: list[WorkerFacts],
    depth: int,
    sealer: PayloadSealer,
    only: str | None,
    handlers_of: HandlersOf,
) -> Why:
    waits = _decode_waits(run.waits)
    lane = next((lane for lane in store.lanes.all() if lane.name == run.lane), None)
    signals = sealer.display.signals(run.id, store.signals.of_run(run.id))
    history: list[Event] = []
    if run.finished_at is None:  # the record of a run that has ended says why; its history is long
        history = sealer.display.events(run.id, live_events(store.runs.history(run.id)))
    facts = RunFacts(
        now=store.now(),
        run=sealer.display.run(run),
        history=history,
        workers=workers,
        waits=waits,
        lane=lane,
        received=signals,
        signals=frozenset(
            signal.name for signal in signals if signal.wait_id is None and not signal.is_release
        ),
        children={
            str(wait.get("step")): _open_children(
                store, run, wait, workers, depth, sealer, only, handlers_of
            )
            for wait in waits
        },
        gates=_gates(store, waits),
        handlers=handlers_of(run),
        share_free_at=store.lanes.share_free_at(run.lane, run.share)
        if lane is not None and run.share is not None
        else 0,
    )
    if facts.handlers is not None:
        facts.external = _external(store, waits)
    if run.status not in FINAL and run.status is not Status.STUCK and _may_be_claimed(run, workers):
        _count_usage(store, facts, workers, only)
        facts.leased = _is_leased(store, facts)
    try:
        return explain(facts)
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        if not waits:
            raise
        why = f"the waits cannot be interpreted: {type(error).__name__}: {error}"
        raise RowDamaged(
            table="run", key=run.id, column="waits", why=why, place={"id": run.id}
        ) from error


_BY_HOLDERS = (EventKind.ATTEMPT_FAILED, EventKind.RUN_DELAYED, EventKind.CHILDREN_AWAITED)
"""Kinds of events that only the holder of an explicit lease writes."""

_NOT_BY_CODE_ALONE = {
    EventKind.LEASE_LOST,
    EventKind.LEASE_REVOKED,
    EventKind.PRIORITY_CHANGED,
    EventKind.RUN_RELEASED,
    EventKind.RUN_REPLAYED,
    EventKind.WAIT_CREATED,
    EventKind.WAIT_OPENED,
    EventKind.WAIT_SATISFIED,
    EventKind.WAIT_RELEASED,
    EventKind.WAIT_TIMED_OUT,
    EventKind.WAIT_ESCALATED,
}
"""Kinds of events that do not prove that a Python worker has executed the run."""


def _is_leased(store: Store, facts: RunFacts) -> bool:
    """Return whether holders of explicit leases work on a run, not Python workers: a holder has
    written to it, or it was started with a task policy."""
    kinds = {event.kind for event in facts.history}
    if is_served(facts) or not kinds.isdisjoint(_BY_HOLDERS):
        return not is_served(facts)
    return kinds <= _NOT_BY_CODE_ALONE and "task" in store.run_snapshots.belongings(facts.run.id)


def _external(store: Store, waits: list[dict[str, Any]]) -> frozenset[str]:
    """Return the children for which a model waits and that programs lease, by id."""
    children = [str(wait["run"]) for wait in waits if wait.get("kind") == WaitKind.CHILD]
    return frozenset(child for child in children if "task" in store.run_snapshots.belongings(child))


def _gates(store: Store, waits: list[dict[str, Any]]) -> dict[str, tuple[Gate, list[GateEntry]]]:
    """Return the gates for which a run waits, with their entries, by id."""
    gates = [
        store.gates.get(str(wait.get("gate")))
        for wait in waits
        if wait.get("kind") == WaitKind.GATE
    ]
    return {gate.id: (gate, store.gates.entries(gate.id)) for gate in gates if gate is not None}


def _may_be_claimed(run: RunRecord, workers: list[WorkerFacts]) -> bool:
    holder = next((worker for worker in workers if worker.session.id == run.session_id), None)
    return holder is None or holder.life is Liveness.GONE


def _count_usage(
    store: Store, facts: RunFacts, workers: list[WorkerFacts], only: str | None
) -> None:
    """Add to *facts* the runs that occupy the lane, and to *workers* the number of their runs.
    Lanes are shared by all namespaces: with *only*, runs of other namespaces are counted but not
    named."""
    held = at_work(store, workers if only is None else look_at_workers(store))
    for worker in workers:
        worker.at_work = len(held[worker.session.id])
    names = {worker.session.id: worker.name for worker in workers}
    lane = facts.run.lane
    slots = [
        LanePlace(
            run.id if only in (None, run.namespace) else ELSEWHERE,
            names.get(session, "elsewhere"),
            run.started_at,
            run.share,
        )
        for session, runs in held.items()
        for run in runs
        if run.lane == lane
    ]
    facts.slots = [slot for slot in slots if slot.run != facts.run.id]


def _open_children(
    store: Store,
    run: RunRecord,
    wait: dict[str, Any],
    workers: list[WorkerFacts],
    depth: int,
    sealer: PayloadSealer,
    only: str | None,
    handlers_of: HandlersOf,
) -> list[Why]:
    """Return explanations of the open children for which a run waits; at depth 0 only their
    statuses. Set the number of open children in *wait*."""
    if wait.get("kind") == WaitKind.CHILD:
        child = store.runs.get(str(wait.get("run")))
        children = [] if child is None or child.status in FINAL else [child]
    elif wait.get("kind") == WaitKind.CHILDREN:
        page = store.runs.find(RunFilter(parent_id=run.id, statuses=sorted(LIVE), limit=PAGE))
        children = [child for child in page if child.parent_step == wait.get("step")]
        wait["done"] = store.children.map_progress(run.id).get(str(wait.get("step")), 0)
        wait["open"] = len(children) if len(page) < PAGE else f"{len(children)} or more"
        children = children[:MOST]
    elif wait.get("kind") == WaitKind.CHILDREN_END:
        left = store.children.open(run.id, PAGE)
        wait["open"] = len(left) if len(left) < PAGE else f"{PAGE} or more"
        children = [
            child for child_id in left[:MOST] if (child := store.runs.get(child_id)) is not None
        ]
    else:
        return []
    if depth == 0:
        return [
            Why(
                run=child.id, workflow=child.workflow, status=child.status.value, reason="and so on"
            )
            for child in children
        ]
    return [
        _explain(store, child, workers, depth - 1, sealer, only, handlers_of) for child in children
    ]


def _decode_waits(waits: bytes | None) -> list[dict[str, Any]]:
    try:
        decoded = msgspec.json.decode(waits or b"[]")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    if not isinstance(decoded, list):
        return []
    return [wait for wait in decoded if isinstance(wait, dict)]
