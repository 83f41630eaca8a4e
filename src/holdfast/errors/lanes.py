"""Errors about lanes."""

from __future__ import annotations

from holdfast.errors.base import UsageError


class LaneDraining(UsageError):
    """The lane is being drained and accepts no new runs: `holdfast lanes set LANE --open` ends
    that."""


class LaneNotFound(UsageError):
    """The lane has no settings: `holdfast lanes` lists the lanes."""


class LaneInUse(UsageError):
    """Runs of the lane have not ended: wait for them, or remove its settings with --force
    (force=True), and they continue without limits."""
