"""Errors about waits and signals."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError, UsageError


class BadCondition(UsageError):
    """This condition cannot be waited for."""


class WaitNotFound(UsageError):
    """The run has no such open wait: `holdfast waits RUN` lists those it has."""


class WaitClosed(UsageError):
    """This wait is closed and takes no more signals."""


class WaitExpired(WaitClosed):
    """This wait has expired and takes no more signals."""


class TooManySignals(UsageError):
    """The run has as many signals as it may have: nothing was written."""


class WaitTimeout(HoldfastError, TimeoutError):
    """What was waited for has not come in time."""
