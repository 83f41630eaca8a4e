"""Errors about DMN decisions."""

from __future__ import annotations

from holdfast.errors.base import UsageError


class DecisionNotFound(UsageError):
    """The file has no such decision: name one of its decisions by its name or id."""


class RulesOverlap(UsageError):
    """Several rules of a decision table with hit policy UNIQUE match: make their tests exclude each
    other, or choose another hit policy."""


class RulesDisagree(UsageError):
    """Several rules of a decision table with hit policy ANY match and have different outputs: give
    them the same outputs, or choose another hit policy."""
