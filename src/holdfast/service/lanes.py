"""Requests about lanes: set their limits, and read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.core.fairness import merged_weights
from holdfast.core.rate_limits import parse_rate
from holdfast.core.sessions import Lane
from holdfast.core.unset import UNSET
from holdfast.core.validation import checked_count, checked_flag, checked_text
from holdfast.errors import BadOption
from holdfast.service.requests import Request
from holdfast.service.runs import RunService
from holdfast.store.lanes.operations import RemoveLane, SetLane
from holdfast.store.store import Store


def set_lane(
    client: RunService,
    name: str,
    *,
    concurrency: int | None = UNSET,
    rate: str | None = UNSET,
    paused: bool = UNSET,
    per_share: int | None = UNSET,
    rate_per_share: str | None = UNSET,
    weights: Mapping[str, Any] | None = UNSET,
    draining: bool = UNSET,
) -> Request[None]:
    """Create a lane or change the given settings of it. Raises BadOption, NamespaceBound."""
    client.require_unbound("lanes.set")
    changes: dict[str, Any] = {}
    if paused is not UNSET:
        changes["paused"] = checked_flag("paused", paused)
    if draining is not UNSET:
        changes["draining"] = checked_flag("draining", draining)
    if concurrency is not UNSET:
        changes["concurrency"] = _checked_count("concurrency", concurrency)
    if per_share is not UNSET:
        changes["per_share"] = _checked_count("per_share", per_share)
    if rate is not UNSET:
        changes["rate_limit"], changes["rate_per"] = _parsed_rate(rate, "rate")
    if rate_per_share is not UNSET:
        limit, per = _parsed_rate(rate_per_share, "rate_per_share")
        changes["share_rate_limit"] = limit
        changes["share_rate_per"] = per
    stored = _stored_lane(client, name)
    if weights is not UNSET:
        changes["weights"] = merged_weights(stored.weights, weights)
    lane = msgspec.structs.replace(stored, **changes)
    return Request(SetLane(lane, expected=stored), lambda answer: None)


def get_lane(client: RunService, name: str) -> Lane:
    """Return a lane; a lane without settings has no limits. Raises BadOption, NamespaceBound."""
    client.require_unbound("lanes.get")
    return _stored_lane(client, name)


def remove_lane(client: RunService, name: str, *, force: bool) -> Request[None]:
    """Delete the settings of a lane. Raises BadOption, NamespaceBound."""
    client.require_unbound("lanes.remove")
    op = RemoveLane(_checked_name(name), checked_flag("force", force))
    return Request(op, lambda answer: None)


def known_lanes(store: Store, after: str | None, limit: int) -> list[Lane]:
    """Return a page of the lanes that have settings or that runs were started in, by name: those
    after the name *after*. Raises BadOption."""
    most = checked_count("limit", limit)
    first = checked_text("after", after)
    configured = {lane.name: lane for lane in store.lanes.all()}
    used = {route.lane for route in store.runs.routes().values()}
    names = sorted(name for name in {*configured, *used} if first is None or name > first)
    return [configured.get(name) or Lane(name=name) for name in names[:most]]


def _stored_lane(client: RunService, name: str) -> Lane:
    """Return a lane as it is stored; a lane without settings has no limits."""
    checked = _checked_name(name)
    lanes = (lane for lane in client.store.lanes.all() if lane.name == checked)
    return next(lanes, None) or Lane(name=checked)


def _checked_name(name: str) -> str:
    checked = checked_text("lane", name)
    if checked is None:
        raise BadOption(option="lane", value=name, why="give the name of the lane")
    return checked


def _parsed_rate(rate: str | None, option: str) -> tuple[int | None, int | None]:
    """Return the limit of a rate and its period in microseconds; None for both without a rate."""
    if rate is None:
        return None, None
    parsed = parse_rate(rate, option)
    return parsed.limit, parsed.per


def _checked_count(option: str, value: int | None) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise BadOption(option=option, value=value, why="give a number of runs, 0 or more")
    return value
