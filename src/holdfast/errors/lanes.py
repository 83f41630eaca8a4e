"""Errors about lanes."""

from __future__ import annotations

from holdfast.errors.base import UsageError


class LaneDraining(UsageError):
    """The lane is being drained and accepts no new runs: `holdfast lanes set LANE --open` ends
    that."""
