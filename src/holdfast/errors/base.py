"""The base classes of all errors. The docstring of a class is its message; the facts follow in
parentheses. An error that passes on an exception of user code names that exception first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

_TIMES = ("at", "until", "since", "deadline")
"""The names of facts that are times, in microseconds since 1970; messages show them as dates."""

_LONGEST_WORD = 300
_LONGEST_TEXT = 1000
"""The characters of a fact in a message: an error stays one line that can be read, whatever value
was passed. ``facts`` has all of it."""


class HoldfastError(Exception):
    """Something went wrong in Holdfast."""

    def __init__(self, **facts: object) -> None:
        self.facts = facts
        super().__init__(self._text())

    def _text(self) -> str:
        """Return the message: the docstring of the class, and the facts."""
        return with_facts(sentence_of(type(self)), self.facts)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.facts))


def _rebuild(kind: type[HoldfastError], facts: dict[str, object]) -> HoldfastError:
    return kind(**facts)


def sentence_of(kind: type[HoldfastError]) -> str:
    """Return the docstring of an error as one line."""
    return " ".join((kind.__doc__ or "").split())


def with_facts(text: str, facts: Mapping[str, object]) -> str:
    """Return a text with facts in parentheses."""
    details = ", ".join(f"{name}={_fact_text(name, value)}" for name, value in facts.items())
    return f"{text} ({details})" if details else text


def raised_of(facts: Mapping[str, object]) -> str:
    """Return the exception of user code that facts describe, as Python prints it: its type and its
    message."""
    words = [text_of(facts, name) for name in ("type", "message")]
    return ": ".join(word for word in words if word)


def cause_first(facts: Mapping[str, object], places: Sequence[str], unknown: str = "") -> str:
    """Return the root cause of an error, and its context in parentheses: ``ValueError: card expired
    (raised as OrderFailed: order 7, in step charge)``.

    The root cause is the exception at the bottom of a chain of ``raise ... from``, else the
    exception itself, else *unknown*. *places* say where it was raised."""
    raised = raised_of(facts)
    cause = text_of(facts, "cause")
    context = []
    if cause and raised:
        context.append(f"raised as {raised}")
    if places:
        context.append(f"in {', '.join(places)}")
    text = cause or raised or unknown
    if not context:
        return text
    return f"{text} ({', '.join(context)})"


def places_of(facts: Mapping[str, object]) -> list[str]:
    """Return the step that raised an exception, and the run, if that is a descendant of the run
    that failed."""
    named = [(word, text_of(facts, name)) for word, name in (("step", "step"), ("run", "origin"))]
    return [f"{word} {name}" for word, name in named if name]


def raised_at(facts: Mapping[str, object]) -> list[str]:
    """Return the step and the run that raised the exception which a step or a child has passed on;
    empty for other errors, whose facts are part of their message."""
    if "attempts" not in facts and "origin" not in facts:
        return []
    return places_of(facts)


def text_of(facts: Mapping[str, object], name: str) -> str:
    """Return a fact that is a text; an empty text if it is missing or of another type, which user
    code may pass."""
    value = facts.get(name)
    return value if isinstance(value, str) else ""


def _fact_text(name: str, value: object) -> str:
    if isinstance(value, int) and name in _TIMES and 10**14 < value < 10**17:
        return f"{datetime.fromtimestamp(value / 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if isinstance(value, str) and " " in value:
        return _shortened(value, _LONGEST_TEXT)
    return _shortened(safe_repr(value), _LONGEST_WORD if isinstance(value, str) else _LONGEST_TEXT)


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text)} characters)"


def safe_repr(value: object) -> str:
    """Return the text that stands for a value in a message. If its ``repr`` fails, that is the name
    of its type: a fault of the value must not hide the error."""
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


class UsageError(HoldfastError):
    """Holdfast was called in a way that cannot work."""
