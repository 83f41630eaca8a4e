"""FEEL, the expression language of DMN and of `=...` in models."""

from __future__ import annotations

from functools import lru_cache

from holdfast.core.expressions.cursor import check_length, made
from holdfast.core.expressions.feel_parser import FeelParser
from holdfast.core.expressions.limits import DEFAULT_LIMITS, ExpressionLimits
from holdfast.core.expressions.tree import Expression

LANGUAGE = "feel"
TESTS = "feel tests"


def parse_feel(
    text: str,
    names: frozenset[str] = frozenset(),
    limits: ExpressionLimits = DEFAULT_LIMITS,
) -> Expression:
    """Parse an expression. *names* are the known names that are not a single word. Raises
    BadExpression."""
    check_length(text, limits)
    return _parsed(text, names, limits)


@lru_cache(maxsize=2048)
def _parsed(text: str, names: frozenset[str], limits: ExpressionLimits) -> Expression:
    parser = FeelParser(text, names, limits)
    return made(LANGUAGE, text, parser.whole, limits, names)


@lru_cache(maxsize=2048)
def _parsed_tests(text: str, names: frozenset[str], limits: ExpressionLimits) -> Expression:
    parser = FeelParser(text, names, limits)
    return made(TESTS, text, parser.whole_tests, limits, names)


def parse_unary_tests(
    text: str,
    names: frozenset[str] = frozenset(),
    limits: ExpressionLimits = DEFAULT_LIMITS,
) -> Expression:
    """Parse the tests of an input of a decision table: ``-``, ``< 10``, ``"a", "b"``,
    ``not(...)``. The tested value is the variable ``?``. Raises BadExpression."""
    check_length(text, limits)
    return _parsed_tests(text, names, limits)
