"""DMN files and FEEL expressions, evaluated without an engine, with the clock of this machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from holdfast.authoring.dmn.decisions import DecisionModel, load_model
from holdfast.core.expressions.evaluate import evaluate
from holdfast.core.expressions.feel import parse_feel
from holdfast.core.expressions.feel_names import special_names
from holdfast.core.expressions.limits import DEFAULT_LIMITS, ExpressionLimits
from holdfast.core.validation import checked_many
from holdfast.errors import BadOption


def current_time() -> datetime:
    """Return the current time, in UTC."""
    return datetime.now(UTC)


def load(source: Any, *, imports: Iterable[Any] = ()) -> DecisionModel:
    """Read a DMN file: a path, bytes or an open file.

    Files that it imports are looked for among *imports* and beside it. Raises ModelUnreadable if
    the source is not DMN, BadOption; everything else is in the ``problems`` of the model.
    """
    return load_model(source, imports=checked_many("imports", imports), clock=current_time)


def feel(
    text: str,
    variables: Mapping[str, Any] | None = None,
    *,
    now: datetime | None = None,
    limits: ExpressionLimits = DEFAULT_LIMITS,
) -> Any:
    """Return the value of a FEEL expression; null is None.

    *now* is the time of ``now()`` and ``today()``, by default the current time in UTC. Raises
    BadExpression for a text that cannot be read and for an evaluation that exceeds a limit, and
    BadOption.
    """
    if not isinstance(now, datetime | None):
        raise BadOption(option="now", value=now, why="it must be a datetime")
    if not isinstance(limits, ExpressionLimits):
        raise BadOption(option="limits", value=limits, why="it must be an ExpressionLimits")
    if not isinstance(variables, Mapping | None):
        raise BadOption(option="variables", why="give a mapping of names to values")
    values = variables or {}
    expression = parse_feel(text, special_names(values), limits)
    return evaluate(expression, values, limits=limits, now=now or current_time())
