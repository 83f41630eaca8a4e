"""What a scenario is. Each module of ``bench.scenarios`` has one, called SCENARIO, and one function
per contestant; to add one is to add a module there. A function is named after its peer, or after
peer and store (``raw_sqlite``), and takes a Place."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

STORES = ("sqlite", "postgres")
OWN = "own"
"""The store of a peer that brings its own."""

PEERS = {
    "holdfast": STORES,
    "async": STORES,
    "before": STORES,
    "before_async": STORES,
    "raw": STORES,
    "dbos": STORES,
    "absurd": ("postgres",),
    "procrastinate": ("postgres",),
    "spiff": ("sqlite",),
    "restate": (OWN,),
    "openworkflow": ("sqlite",),
}
"""Who may take part, and on which stores. "async" is Holdfast's AsyncEngine; "before" is an earlier
revision of Holdfast."""

FUNCTIONS = {"async": "holdfast_async", "before": "holdfast", "before_async": "holdfast_async"}
"""Whose functions a peer calls, where they are not its own."""

KEPT = {"holdfast": ("before", 0.97), "async": ("before_async", 0.8)}
"""How much of its speed each engine must have kept since the earlier revision."""


@dataclass(frozen=True)
class Target:
    """What is promised: a figure of Holdfast, or its ratio to the same figure of a peer."""

    store: str
    metric: str
    bound: float
    peer: str = ""
    """Whose figure it is divided by; none for a figure that stands alone."""
    at_most: bool = False
    baseline: str = ""
    """The figure of the peer, where it is another one."""
    ours: str = "holdfast"
    """Whose figure is promised."""

    def holds(self, value: float) -> bool:
        return value <= self.bound if self.at_most else value >= self.bound


@dataclass(frozen=True)
class Scenario:
    """One kind of work, the same for everybody."""

    name: str
    title: str
    metric: str
    """The figure that the table and the picture show."""
    unit: str
    size: dict[str, Any] = field(default_factory=dict)
    share: dict[str, float] = field(default_factory=dict)
    """Peers that get only a part of ``size["n"]``, because all of it would take too long; their
    rates do not depend on it."""
    targets: tuple[Target, ...] = ()
    timeout: float = 180.0
    rounds: int | None = None
    """How many rounds at most, where one is long."""


def scenarios() -> dict[str, tuple[Scenario, ModuleType]]:
    """Return every scenario by its name, with its module."""
    import bench.scenarios as folder

    modules = [
        importlib.import_module(f"bench.scenarios.{found.name}")
        for found in pkgutil.iter_modules(folder.__path__)
    ]
    return {module.SCENARIO.name: (module.SCENARIO, module) for module in modules}


def function_of(module: ModuleType, peer: str, store: str) -> str | None:
    """Return the name of a contestant's function in a scenario, if it takes part."""
    name = FUNCTIONS.get(peer, peer)
    return next((each for each in (f"{name}_{store}", name) if hasattr(module, each)), None)


def kept_speed(scenario: Scenario) -> tuple[Target, ...]:
    """Return what is promised beside an earlier revision: nearly the same figure."""
    is_time = scenario.metric == "seconds" or scenario.metric.endswith("_ms")
    return tuple(
        Target(
            store, scenario.metric, 1 / kept if is_time else kept, peer, at_most=is_time, ours=ours
        )
        for ours, (peer, kept) in KEPT.items()
        for store in STORES
    )
