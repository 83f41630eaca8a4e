"""The state of an installation in numbers, as a monitoring system asks for it."""

from __future__ import annotations

import msgspec

Place = tuple[str, str]
"""A namespace, and a name within it."""


class GaugesView(msgspec.Struct, kw_only=True):
    """Numbers about the whole database at one instant, or about one namespace. Durations are
    seconds. ``lanes`` are pairs of the runs that a lane executes and its limit, None without a
    limit; ``budgets`` are the shares of hard limits that are used, by budget and dimension."""

    runs: dict[Place, int]
    """The number of live runs, by namespace and status."""
    ready_oldest: dict[Place, float]
    """How long the run that is claimed next has been ready, by namespace and lane."""
    workers: dict[str, int]
    """The number of workers, by state."""
    open_gates: dict[str, int]
    """The number of open gates, by namespace."""
    lanes: dict[str, tuple[int, int | None]]
    budgets: dict[str, dict[str, float]]
    schedules_late: dict[Place, float]
    """How late each schedule is, by namespace and name."""
    webhooks_lag: dict[str, float]
    dead_letters: dict[str, int]
    database_size: int | None
