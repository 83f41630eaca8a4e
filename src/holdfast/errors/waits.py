"""Errors about waits and signals."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError, UsageError


class BadCondition(UsageError):
    """This condition is not valid or can never be met: correct it as the facts say."""


class WaitNotFound(UsageError):
    """The run has no such open wait: `holdfast waits --run RUN` lists its open waits."""


class WaitClosed(UsageError):
    """This wait is closed and accepts no more signals: request a new one."""


class WaitExpired(WaitClosed):
    """This wait has expired and accepts no more signals: request a new one."""


class TooManySignals(UsageError):
    """The run has reached its maximum number of signals, and nothing was written: raise
    max_signals, or find the sender."""


class WaitTimeout(HoldfastError, TimeoutError):
    """The condition of a wait was not met before its timeout."""
