"""Errors about gates."""

from __future__ import annotations

from holdfast.errors.arguments import BadOption
from holdfast.errors.base import HoldfastError, UsageError


class QuorumImpossible(BadOption):
    """Fewer people may decide than must agree: name more of them, or ask for fewer."""


class GateNotFound(UsageError):
    """There is no such gate: `holdfast gates` lists the open gates."""


class GateClosed(UsageError):
    """This gate is closed already: it was decided, expired or withdrawn, and nothing was
    changed."""


class AlreadyDecided(UsageError):
    """This person has decided this gate already: the first decision stands."""


class NotYourGate(UsageError):
    """This person may not decide this gate: ask one of the people who may."""


class UnknownChoice(UsageError):
    """The gate has no such choice: use one of the choices that it offers."""


class WrongAnswer(UsageError):
    """The answer does not match the form of the gate: correct the fields that the facts name."""


class GateChanged(UsageError):
    """The subject of this decision has changed: read the gate again, then decide."""


class GateExpired(HoldfastError, TimeoutError):
    """The gate expired: it was not decided before its deadline."""


class GateRejected(HoldfastError):
    """The gate was rejected."""


class GateWithdrawn(HoldfastError):
    """The gate was withdrawn before it was decided."""
