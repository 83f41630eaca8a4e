"""``UNSET``: the default of a parameter for which None has a meaning of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final


class Unset:
    """The type of UNSET."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final[Any] = Unset()
"""The value of a parameter that a call does not name. In a setter such a setting keeps its value;
None removes it."""


def without_unset(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a call has named."""
    return {name: value for name, value in values.items() if value is not UNSET}
