"""Limits by key: S2 in a lane with a hundred limited shares, and with a budget, each beside S2
without, in turn."""

from __future__ import annotations

import statistics
from typing import Any

from bench.place import Place, check
from bench.scenario import Scenario, Target

SCENARIO = Scenario(
    "shares",
    "S2 with 100 limited shares, and with a budget",
    "with_shares",
    "times the time",
    size={"n": 1000, "steps": 5, "shares": 100, "turns": 7},
    targets=tuple(
        Target(store, "with_shares", 1.1, at_most=True) for store in ("sqlite", "postgres")
    ),
)

LIMITS = {"concurrency": 5000, "per_share": 100, "rate_per_share": "100000/s"}


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import ours
    from holdfast import Engine

    with Engine(place.url) as engine:
        engine.lanes.set("limited", **LIMITS)
        engine.budgets.set("bench", {"steps": 10**9})
        kinds: dict[str, dict[str, Any]] = {
            "plain": {},
            "shares": {"lane": "limited"},
            "budget": {"budget": "bench"},
        }
        walls: dict[str, list[float]] = {name: [] for name in kinds}
        cpus: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(place.turns):  # in turn, so that all see the same machine
            for name, options in kinds.items():
                workflow = ours.spender if name == "budget" else ours.steps
                with place.meter() as meter:
                    _at_once(engine, workflow, place, options, shared=name == "shares")
                walls[name].append(meter.wall)
                cpus[name].append(meter.cpu + meter.server)
    found = {}
    for name in ("shares", "budget"):
        found[f"with_{name}"] = _ratio(walls[name], walls["plain"])
        found[f"cpu_with_{name}"] = _ratio(cpus[name], cpus["plain"])
    return found


def _ratio(ours: list[float], plain: list[float]) -> float:
    """Return the median of the ratios of the turns but the first, which warms up."""
    return statistics.median(one / other for one, other in zip(ours[1:], plain[1:], strict=True))


def _at_once(
    engine: Any, workflow: Any, place: Place, options: dict[str, Any], *, shared: bool
) -> None:
    """Start them as many customers would, a few each, and see that each has its result."""
    items = [place.steps] * (place.n // place.shares)
    told = [
        {**options, "share": f"s{number}"} if shared else options for number in range(place.shares)
    ]
    for run in [run for one in told for run in engine.start_many(workflow, items, **one)]:
        check(run.result(timeout=60), place.steps)
