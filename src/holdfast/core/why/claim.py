"""Explain why a run without a holder is not claimed: its lane is limited, or no worker can serve
it."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core import claiming, rate_limits
from holdfast.core.runs import Route
from holdfast.core.sessions import Lane
from holdfast.core.why.model import Blocker, LanePlace, RunFacts, moment, until
from holdfast.core.why.workers import (
    Liveness,
    WorkerFacts,
    lacks,
    lease_command,
    start_command,
    unserved,
)

NEAR = 5
"""The maximum number of workers or runs that an explanation names."""


def claim_blockers(facts: RunFacts) -> list[Blocker]:
    """Return the reasons why the run is not claimed; if there are none, the worker that will claim
    it."""
    serving = [
        worker
        for worker in facts.workers
        if worker.life is not Liveness.GONE and not lacks(worker.offer, route_of(facts))
    ]
    by_workers = _busy(facts, serving) if serving else no_worker_blockers(facts)
    return [*_lane(facts), *by_workers] or [_ready(serving)]


def is_served(facts: RunFacts) -> bool:
    """Return whether a live worker serves the route of the run."""
    return any(
        worker.life is not Liveness.GONE and not lacks(worker.offer, route_of(facts))
        for worker in facts.workers
    )


def route_of(facts: RunFacts) -> Route:
    """Return the route that a worker must offer to serve the run."""
    run = facts.run
    return Route(run.namespace, run.workflow, run.version, run.lane, run.capabilities)


def no_worker_blockers(facts: RunFacts) -> list[Blocker]:
    """Return the blockers of a run that no live worker can serve: the missing part of the offers,
    and what each of the nearest workers lacks."""
    route = route_of(facts)
    living = [
        worker
        for worker in facts.workers
        if worker.life is not Liveness.GONE and worker.offer.claims
    ]
    offers = [worker.offer for worker in living]
    if facts.leased:
        remedy = lease_command(route)
        hint = f"(programs can lease it; a worker that knows {route.workflow} would do, too)"
    elif facts.handlers is not None:
        remedy = start_command(offers, route)
        hint = _model_hint(route, facts.handlers)
    else:
        remedy = start_command(offers, route)
        hint = f"(MODULE defines the workflow {route.workflow}, version {route.version})"
    if not living:
        return [
            Blocker(kind="worker", text=f"no worker is alive {hint}", remedy=remedy),
            *_holder_gone(facts),
        ]
    text = f"no live worker serves {unserved(offers, route)} {hint}"
    near = sorted(
        ((lacks(worker.offer, route), worker) for worker in living), key=lambda pair: len(pair[0])
    )
    misses = [_near_miss(worker, why) for why, worker in near[:NEAR]]
    return [Blocker(kind="worker", text=text, remedy=remedy), *misses]


def _model_hint(route: Route, handlers: Sequence[str]) -> str:
    model = f"the model {route.workflow}, version {route.version}"
    if not handlers:
        return f"(every worker can execute {model})"
    return f"(MODULE binds the handlers of {model}: {', '.join(handlers)})"


def _near_miss(worker: WorkerFacts, why: list[str]) -> Blocker:
    return Blocker(
        kind="near miss",
        text=f"{worker.place} is alive, but {' and '.join(why)}",
        holder=worker.name,
    )


def _holder_gone(facts: RunFacts) -> list[Blocker]:
    gone = [worker for worker in facts.workers if worker.life is Liveness.GONE][:NEAR]
    return [
        Blocker(
            kind="near miss",
            text=(
                f"{worker.place} is gone; its last heartbeat was at"
                f" {moment(worker.session.beat_at)}"
            ),
            holder=worker.name,
            since=worker.session.beat_at,
        )
        for worker in gone
    ]


def _lane(facts: RunFacts) -> list[Blocker]:
    """Return the limits of the lane that keep the run from being claimed."""
    lane = facts.lane
    if lane is None:
        return []
    blockers = []
    if lane.paused:
        text = f"the lane {lane.name} is paused"
        blockers.append(
            Blocker(
                kind="lane",
                text=text,
                holder=lane.name,
                remedy=f"holdfast lanes set {lane.name} --unpause",
            )
        )
    if lane.concurrency is not None and len(facts.slots) >= lane.concurrency:
        blockers.append(_full(facts, lane, lane.concurrency))
    if lane.per_share is not None:
        blockers += _full_share(facts, lane, lane.per_share)
    blockers += _rate_used_up(
        facts, lane, claiming.rate_of(lane), lane.free_at, f"the lane {lane.name}", "--rate"
    )
    if facts.run.share is not None:
        named = f"the share {facts.run.share} in the lane {lane.name}"
        blockers += _rate_used_up(
            facts,
            lane,
            claiming.share_rate_of(lane),
            facts.share_free_at,
            named,
            "--rate-per-share",
        )
    return blockers


def _rate_used_up(
    facts: RunFacts,
    lane: Lane,
    limits: rate_limits.RateLimit | None,
    free_at: int,
    named: str,
    option: str,
) -> list[Blocker]:
    if (
        limits is None
        or free_at <= facts.now
        or rate_limits.is_within(limits.per, facts.run.started_at, facts.now)
    ):
        return []
    text = (
        f"{named} has used its rate of {rate_limits.show(limits)}; one more may begin at"
        f" {until(free_at, facts.now)}"
    )
    remedy = (
        f"holdfast lanes set {lane.name} {option}"
        f" {limits.limit * 2}/{rate_limits.show(limits).split('/')[1]}"
    )
    return [Blocker(kind="lane", text=text, holder=lane.name, until=free_at, remedy=remedy)]


def _full(facts: RunFacts, lane: Lane, limit: int) -> Blocker:
    slots = facts.slots
    if limit:
        text = f"all {limit} places of the lane {lane.name} are taken by {_holders(slots)}"
    else:
        text = f"the lane {lane.name} lets no run begin: its concurrency is 0"
    remedy = f"holdfast lanes set {lane.name} --concurrency {max(limit, len(slots)) + 1}"
    return Blocker(
        kind="lane",
        text=text,
        holder=slots[0].run if slots else lane.name,
        since=_since(slots),
        remedy=remedy,
    )


def _full_share(facts: RunFacts, lane: Lane, limit: int) -> list[Blocker]:
    slots = [slot for slot in facts.slots if slot.share == facts.run.share]
    if facts.run.share is None or len(slots) < limit:
        return []
    share = facts.run.share
    if limit:
        text = (
            f"all {limit} places of the share {share} in the lane {lane.name} are taken by"
            f" {_holders(slots)}"
        )
    else:
        text = f"the lane {lane.name} lets no run of a share begin: its limit per share is 0"
    remedy = f"holdfast lanes set {lane.name} --per-share {max(limit, len(slots)) + 1}"
    return [
        Blocker(
            kind="lane",
            text=text,
            holder=slots[0].run if slots else share,
            since=_since(slots),
            remedy=remedy,
        )
    ]


def _holders(slots: Sequence[LanePlace]) -> str:
    """Name the runs that hold places, with their workers and since when."""
    named = ", ".join(_holder_text(slot) for slot in slots[:NEAR])
    if len(slots) > NEAR:
        return f"{named} and {len(slots) - NEAR} more"
    return named


def _holder_text(slot: LanePlace) -> str:
    since = "" if slot.since is None else f", since {moment(slot.since)}"
    return f"{slot.run} (worker {slot.worker}{since})"


def _since(slots: Sequence[LanePlace]) -> int | None:
    return min((slot.since for slot in slots if slot.since is not None), default=None)


def _busy(facts: RunFacts, serving: list[WorkerFacts]) -> list[Blocker]:
    if any(worker.at_work < worker.offer.concurrency for worker in serving):
        return []
    named = ", ".join(
        f"{worker.name} ({worker.at_work} of {worker.offer.concurrency})"
        for worker in serving[:NEAR]
    )
    remedy = start_command([], route_of(facts))
    return [
        Blocker(
            kind="worker",
            text=f"all workers that serve it are busy: {named}",
            holder=serving[0].name,
            remedy=remedy,
        )
    ]


def _ready(serving: list[WorkerFacts]) -> Blocker:
    awake = [worker for worker in serving if worker.life is Liveness.ALIVE]
    if not awake:
        worker = serving[0]
        text = (
            f"it is ready, but {worker.place}, the only one that serves it, has sent no heartbeat"
            f" since {moment(worker.session.beat_at)}"
        )
        return Blocker(
            kind="worker",
            text=text,
            holder=worker.name,
            since=worker.session.beat_at,
            until=worker.session.expires_at,
        )
    others = f" or one of {len(awake) - 1} others" if len(awake) > 1 else ""
    return Blocker(
        kind="ready",
        text=f"it is ready: {awake[0].place}{others} claims it in a moment",
        holder=awake[0].name,
    )
