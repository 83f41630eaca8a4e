"""Check the variables of a process, which callers give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.errors import BadOption
from holdfast.errors.base import safe_repr


def check_variables(variables: Any) -> None:
    """Check that variables are a mapping from names to values. Raises BadOption."""
    if not isinstance(variables, Mapping) or not all(isinstance(name, str) for name in variables):
        why = "pass a dict from names to values"
        raise BadOption(option="variables", value=safe_repr(variables), why=why)


def check_start_variables(args: Sequence[Any]) -> None:
    """Check the arguments of a run of a deployed process: its variables, and for a start by an
    event that event. Raises BadOption."""
    if len(args) > 2 or not all(isinstance(more, Mapping) for more in args[1:]):
        why = "a process is started with one dict of variables"
        raise BadOption(option="variables", value=safe_repr(args), why=why)
    if args and args[0] is not None:
        check_variables(args[0])
