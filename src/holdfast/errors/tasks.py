"""Errors about leased tasks."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError, UsageError


class BadLease(UsageError):
    """This is no proof of a lease."""


class BadWait(UsageError):
    """A task cannot wait like this; nothing was written."""


class NotReclaimable(UsageError):
    """This run cannot be reclaimed, or replayed, now."""


class LeaseLost(HoldfastError):
    """Whoever wrote does not hold this run: the write was refused and changed nothing."""


class Fenced(HoldfastError):
    """Somebody newer, or another run, owns what was to be written: the write was refused and
    changed nothing."""
