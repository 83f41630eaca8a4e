"""Limits of expressions: length and depth of a text, steps and size of an evaluation."""

from __future__ import annotations

import msgspec


class ExpressionLimits(msgspec.Struct, frozen=True):
    """The limits of one expression. The defaults suit texts that people write."""

    length: int = 50_000
    """The longest text, in characters."""
    depth: int = 64
    """The deepest nesting of an expression."""
    calls: int = 300
    """The deepest nesting of one evaluation, over all functions that call each other."""
    steps: int = 200_000
    """Iterations, calls and comparisons of elements in one evaluation."""
    size: int = 10_000_000
    """Characters and elements that one evaluation may produce, together."""


DEFAULT_LIMITS = ExpressionLimits()
