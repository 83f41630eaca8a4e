"""What keeps a run that nobody holds from being claimed: its lane, or that no worker can serve
it."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core import claiming, rate_limits
from holdfast.core.runs import Route
from holdfast.core.sessions import Lane
from holdfast.core.why.model import Blocker, LanePlace, RunFacts, moment, until
from holdfast.core.why.workers import (
    Liveness,
    WorkerView,
    lacks,
    lease_command,
    start_command,
    unserved,
)

NEAR = 5
"""How many of the workers that almost serve a run are named."""


def claim_blockers(facts: RunFacts) -> list[Blocker]:
    """Say what keeps the run from being claimed; when nothing does, who will."""
    serving = [
        seen
        for seen in facts.workers
        if seen.life is not Liveness.GONE and not lacks(seen.offer, route_of(facts))
    ]
    found = [*_lane(facts), *(_busy(facts, serving) if serving else nobody(facts))]
    return found or [_soon(serving)]


def is_served(facts: RunFacts) -> bool:
    """Say whether a live worker could go on with the run."""
    return any(
        seen.life is not Liveness.GONE and not lacks(seen.offer, route_of(facts))
        for seen in facts.workers
    )


def route_of(facts: RunFacts) -> Route:
    """Return what a worker must offer to serve the run."""
    run = facts.run
    return Route(run.namespace, run.workflow, run.version, run.lane, run.capabilities)


def nobody(facts: RunFacts) -> list[Blocker]:
    """No live worker can serve the run: say what nobody offers, and what those who are near
    lack."""
    route = route_of(facts)
    living = [
        seen for seen in facts.workers if seen.life is not Liveness.GONE and seen.offer.claims
    ]
    offers = [seen.offer for seen in living]
    remedy = lease_command(route) if facts.leased else start_command(offers, route)
    hint = f"(MODULE defines the workflow {route.workflow}, version {route.version})"
    hint = (
        f"(programs can lease it; a worker that knows {route.workflow} would do, too)"
        if facts.leased
        else hint
    )
    if not living:
        return [
            Blocker(kind="worker", text=f"no worker is alive {hint}", remedy=remedy),
            *_gone(facts),
        ]
    text = f"no live worker serves {unserved(offers, route)} {hint}"
    near = sorted(
        ((lacks(seen.offer, route), seen) for seen in living), key=lambda pair: len(pair[0])
    )
    misses = [_miss(seen, why) for why, seen in near[:NEAR]]
    return [Blocker(kind="worker", text=text, remedy=remedy), *misses]


def _miss(seen: WorkerView, why: list[str]) -> Blocker:
    return Blocker(
        kind="near miss", text=f"{seen.place} is alive, but {' and '.join(why)}", holder=seen.name
    )


def _gone(facts: RunFacts) -> list[Blocker]:
    gone = [seen for seen in facts.workers if seen.life is Liveness.GONE][:NEAR]
    return [
        Blocker(
            kind="near miss",
            text=f"{seen.place} is gone; it last beat at {moment(seen.session.beat_at)}",
            holder=seen.name,
            since=seen.session.beat_at,
        )
        for seen in gone
    ]


def _lane(facts: RunFacts) -> list[Blocker]:
    lane = facts.lane
    if lane is None:
        return []
    found = []
    if lane.paused:
        text = f"the lane {lane.name} is paused"
        found.append(
            Blocker(
                kind="lane",
                text=text,
                holder=lane.name,
                remedy=f"holdfast lanes set {lane.name} --unpause",
            )
        )
    if lane.concurrency is not None and len(facts.slots) >= lane.concurrency:
        found.append(_full(facts, lane, lane.concurrency))
    if lane.per_share is not None:
        found += _full_share(facts, lane, lane.per_share)
    found += _spent(
        facts, lane, claiming.rate_of(lane), lane.free_at, f"the lane {lane.name}", "--rate"
    )
    if facts.run.share is not None:
        named = f"the share {facts.run.share} in the lane {lane.name}"
        found += _spent(
            facts,
            lane,
            claiming.share_rate_of(lane),
            facts.share_free_at,
            named,
            "--rate-per-share",
        )
    return found


def _spent(
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
    taken = f"all {limit} places of the lane {lane.name} are taken by {_holders(slots)}"
    text = taken if limit else f"the lane {lane.name} lets no run begin: its concurrency is 0"
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
    taken = (
        f"all {limit} places of the share {share} in the lane {lane.name} are taken by"
        f" {_holders(slots)}"
    )
    text = (
        taken
        if limit
        else f"the lane {lane.name} lets no run of a share begin: its limit per share is 0"
    )
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
    """Name those who hold places, and since when."""
    named = [
        f"{slot.run} (worker"
        f" {slot.worker}{'' if slot.since is None else f', since {moment(slot.since)}'})"
        for slot in slots
    ]
    return ", ".join(named[:NEAR]) + (f" and {len(slots) - NEAR} more" if len(slots) > NEAR else "")


def _since(slots: Sequence[LanePlace]) -> int | None:
    return min((slot.since for slot in slots if slot.since is not None), default=None)


def _busy(facts: RunFacts, serving: list[WorkerView]) -> list[Blocker]:
    if any(seen.at_work < seen.offer.concurrency for seen in serving):
        return []
    named = ", ".join(
        f"{seen.name} ({seen.at_work} of {seen.offer.concurrency})" for seen in serving[:NEAR]
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


def _soon(serving: list[WorkerView]) -> Blocker:
    awake = [seen for seen in serving if seen.life is Liveness.ALIVE]
    if not awake:
        seen = serving[0]
        text = (
            f"it is ready, but {seen.place}, the only one that serves it, has not beaten since"
            f" {moment(seen.session.beat_at)}"
        )
        return Blocker(
            kind="worker",
            text=text,
            holder=seen.name,
            since=seen.session.beat_at,
            until=seen.session.expires_at,
        )
    others = f" or one of {len(awake) - 1} others" if len(awake) > 1 else ""
    return Blocker(
        kind="ready",
        text=f"it is ready: {awake[0].place}{others} claims it in a moment",
        holder=awake[0].name,
    )
