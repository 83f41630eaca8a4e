"""Errors about leases, of tasks and of other runs."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError, UsageError


class BadLease(UsageError):
    """This text is not the proof of a lease: pass the proof that the claim returned."""


class BadWait(UsageError):
    """A task cannot wait like this, and nothing was written: give a time that lies ahead, within
    the horizon."""


class NotReclaimable(UsageError):
    """This run cannot be reclaimed or replayed now, for the reason in the facts."""


class WorkerNotFound(UsageError):
    """There is no worker of this name or session: `holdfast workers` lists them."""


class LeaseLost(HoldfastError):
    """The writer does not hold the lease of this run: the write was refused and changed nothing."""


class Fenced(HoldfastError):
    """A newer holder, or another run, owns the target of this write: the write was refused and
    changed nothing."""
