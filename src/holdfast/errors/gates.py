"""Errors about gates."""

from __future__ import annotations

from holdfast.errors.arguments import BadOption
from holdfast.errors.base import HoldfastError, UsageError


class QuorumImpossible(BadOption):
    """Fewer people may decide than must agree: name more of them, or ask for fewer."""


class GateNotFound(UsageError):
    """There is no such gate: `holdfast gates` lists those that are open."""


class GateClosed(UsageError):
    """This gate is closed, and nothing was changed."""


class AlreadyDecided(UsageError):
    """This person has decided already, and the first decision stands."""


class NotYourGate(UsageError):
    """This decision is not theirs."""


class UnknownChoice(UsageError):
    """This cannot be chosen here."""


class WrongAnswer(UsageError):
    """What was filled in does not fit the form."""


class GateChanged(UsageError):
    """What this decision is about has changed: look at it again, then decide."""


class GateExpired(HoldfastError, TimeoutError):
    """Nobody has decided in time."""


class GateRejected(HoldfastError):
    """It was rejected."""


class GateWithdrawn(HoldfastError):
    """Somebody has withdrawn the gate before it was decided."""
