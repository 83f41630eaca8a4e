"""Errors about expressions."""

from __future__ import annotations

from holdfast.errors.base import UsageError


class BadExpression(UsageError):
    """The expression cannot be read, or exceeds a limit: correct it as the facts say."""


class ExpressionFailed(BadExpression):
    """The expression has no usable result with these values: correct the expression or the
    values."""


class VariableMissing(ExpressionFailed):
    """The expression uses a variable that has no value: set the variable, or test for it first."""
