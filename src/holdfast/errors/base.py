"""The base classes of all errors. The docstring of a class is its message; the facts follow in
parentheses."""

from __future__ import annotations

from datetime import UTC, datetime

_TIMES = ("at", "until", "since", "deadline")
"""The names of facts that are times, in microseconds since 1970; messages show them as dates."""


class HoldfastError(Exception):
    """Something went wrong in Holdfast."""

    def __init__(self, **facts: object) -> None:
        self.facts = facts
        sentence = " ".join((type(self).__doc__ or "").split())
        details = ", ".join(f"{name}={_shown(name, value)}" for name, value in facts.items())
        super().__init__(f"{sentence} ({details})" if details else sentence)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.facts))


def _rebuild(kind: type[HoldfastError], facts: dict[str, object]) -> HoldfastError:
    return kind(**facts)


def _shown(name: str, value: object) -> str:
    if isinstance(value, int) and name in _TIMES and 10**14 < value < 10**17:
        return f"{datetime.fromtimestamp(value / 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return value if isinstance(value, str) and value and " " in value else shown(value)


def shown(value: object) -> str:
    """Return the text that stands for a value in a message. If its ``repr`` fails, that is the name
    of its type: a fault of the value must not hide the error."""
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


class UsageError(HoldfastError):
    """Holdfast was called in a way that cannot work."""
