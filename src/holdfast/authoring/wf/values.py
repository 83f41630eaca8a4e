"""Values of options, and the readers that turn them into the types of the tree.

A scalar is a text, whether it is written as a string, a number, a name or ``step.field``. A reader
raises ``ValueProblem`` with the offset of the wrong token; the parser turns it into a problem.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from holdfast.authoring.wf.ast import (
    Condition,
    ExpressionCondition,
    FieldRef,
    MarkerCondition,
    RetryRule,
    Target,
    Word,
)
from holdfast.authoring.wf.lexer import is_name
from holdfast.core import duration
from holdfast.core.problems import did_you_mean
from holdfast.errors import BadDuration

LARGEST_NUMBER = 2**32 - 1
_DURATION = re.compile(r"([0-9]{1,20})(ms|s|m|h|d)?")


class Scalar(msgspec.Struct, frozen=True):
    """A string, a number, a name or ``step.field``, as a text."""

    text: str
    start: int
    quoted: bool = False
    dot: int = 0
    """The position of the dot of ``step.field`` in the text; 0 without one."""


class ListValue(msgspec.Struct, frozen=True):
    """``[a, b]``."""

    items: tuple[OptionValue, ...]
    start: int


class MapValue(msgspec.Struct, frozen=True):
    """``{ key = value }``."""

    pairs: tuple[tuple[Word, OptionValue], ...]
    start: int


OptionValue = Scalar | ListValue | MapValue


class ValueProblem(Exception):
    """A value has the wrong kind, or is an unknown word."""

    def __init__(self, start: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.start: int = start
        self.message: str = message
        self.hint: str = hint


Reader = Callable[[OptionValue], object]


def scalar(value: OptionValue, kind: str = "a text") -> Scalar:
    """Return a value that must be a scalar."""
    if isinstance(value, Scalar):
        return value
    shape = "a list" if isinstance(value, ListValue) else "a map"
    raise ValueProblem(value.start, f"the value must be {kind}, not {shape}")


def text(value: OptionValue) -> str:
    return scalar(value).text


def word(value: OptionValue) -> Word:
    """Read a name or a text that must not be empty, with its place."""
    read = scalar(value, "a name")
    if not read.text:
        raise ValueProblem(read.start, "the name must not be empty")
    return Word(read.text, read.start)


def name(value: OptionValue) -> str:
    return word(value).text


def number(value: OptionValue) -> int:
    """Read a whole number of 32 bits."""
    read = scalar(value, "a number")
    digits = read.text
    if not (digits.isascii() and digits.isdigit()):
        raise ValueProblem(read.start, f"the value must be a whole number, not `{digits}`")
    if len(digits) > 20 or int(digits) > LARGEST_NUMBER:
        raise ValueProblem(read.start, f"the number is greater than {LARGEST_NUMBER}")
    return int(digits)


def positive(value: OptionValue) -> int:
    """Read a number that is at least 1."""
    read = number(value)
    if read < 1:
        raise ValueProblem(value.start, "the number must be at least 1")
    return read


def percentage(value: OptionValue) -> int:
    read = number(value)
    if read > 100:
        raise ValueProblem(value.start, "the threshold is a number from 0 to 100")
    return read


def choice(*words: str) -> Reader:
    """Return the reader of a value that is one of some words."""

    def read_choice(value: OptionValue) -> str:
        read = scalar(value, f"one of {', '.join(words)}")
        if read.text not in words:
            expected = " or ".join(f"`{known}`" for known in words)
            hint = did_you_mean(read.text, words) or f"write {expected}"
            raise ValueProblem(read.start, f"`{read.text}` is not {expected}", hint)
        return read.text

    return read_choice


def boolean(value: OptionValue) -> bool:
    """Read ``true`` or ``false``."""
    return choice("true", "false")(value) == "true"


def words(value: OptionValue) -> tuple[Word, ...]:
    """Read a name or a list of names."""
    if isinstance(value, ListValue):
        return tuple(word(item) for item in value.items)
    return (word(value),)


def texts(value: OptionValue) -> tuple[str, ...]:
    return tuple(item.text for item in words(value))


def pairs(value: OptionValue) -> tuple[tuple[str, str], ...]:
    """Read a map whose values are texts. A key that is given twice has its last value."""
    if not isinstance(value, MapValue):
        raise ValueProblem(value.start, 'the value must be a map: `{ key = "value" }`')
    read = {key.text: scalar(item).text for key, item in value.pairs}
    return tuple(read.items())


def time_limit(value: OptionValue) -> int:
    """Read a duration of the language: a number of seconds, or a number with its unit."""
    read = scalar(value, "a duration")
    match = _DURATION.fullmatch(read.text)
    if match is None:
        hint = 'write a number and a unit in quotes, such as "90s", "20m" or "2h"'
        raise ValueProblem(read.start, f"`{read.text}` is not a duration", hint)
    micros = int(match[1]) * duration.UNITS[match[2] or "s"]
    if micros > duration.LONGEST:
        raise ValueProblem(read.start, f"the duration `{read.text}` is too long")
    return micros


def seconds(value: OptionValue) -> int:
    """Read a whole number of seconds."""
    read = scalar(value, "a number of seconds")
    if not (read.text.isascii() and read.text.isdigit()):
        hint = "write the number of seconds: `timeout = 600`"
        raise ValueProblem(
            read.start, f"the time limit of a script is in whole seconds, not `{read.text}`", hint
        )
    return number(value) * duration.SECOND


def delay(value: OptionValue) -> int:
    """Read a duration as Python workflows write it: ``50ms``, ``90s``, ``2d``, ISO 8601."""
    read = scalar(value, "a duration")
    try:
        if read.text.isascii() and read.text.isdigit():
            return duration.parse(int(read.text[:20]))
        return duration.parse(read.text)
    except BadDuration as error:
        hint = 'write a number and a unit in quotes, such as "90s", "20m" or "2d"'
        message = f"`{read.text}` is not a duration: {error.facts.get('why', '')}"
        raise ValueProblem(read.start, message, hint) from None


def target(value: OptionValue) -> Target:
    """Read a target of a call in an option: a quoted text with a slash is a path."""
    read = scalar(value, "a name or a path")
    return target_of(read.text, read.start, is_path=read.quoted and "/" in read.text)


def target_of(written: str, start: int, *, is_path: bool) -> Target:
    """Return the target of a call. A path must not leave its root."""
    if not written.strip():
        raise ValueProblem(start, "the target of a call must not be empty")
    if is_path and ".." in written.replace("\\", "/").split("/"):
        hint = "write a path below the folder of the workflows"
        raise ValueProblem(start, f"the path `{written}` contains `..`", hint)
    return Target(written, is_path, start)


def on_fail(value: OptionValue) -> Target | None:
    """Read ``on_fail``: None for ``continue``."""
    read = scalar(value, "`continue` or the handler of the failure")
    if read.text == "continue":
        return None
    return target(value)


def gate_options(value: OptionValue) -> tuple[tuple[str, str], ...] | FieldRef:
    """Read the options of a gate: pairs of value and label, or a field of a step's output."""
    if isinstance(value, ListValue):
        return tuple((item.text, item.text) for item in words(value))
    if isinstance(value, MapValue):
        return pairs(value)
    if not value.dot:
        hint = 'write a list (`["yes", "no"]`), a map (`{ yes = "Yes" }`) or `step.field`'
        raise ValueProblem(value.start, f"`{value.text}` is not a list of options", hint)
    return FieldRef(value.text[: value.dot], value.text[value.dot + 1 :], value.start)


def call_condition(value: OptionValue) -> Condition:
    """Read the condition of a call in a parallel block: ``step.marker`` or ``(EXPR)``."""
    read = scalar(value, "a condition")
    stripped = read.text.strip()
    if stripped.startswith("(") and stripped.endswith(")"):
        leading = len(read.text) - len(read.text.lstrip())
        # An escape in the string makes its text shorter than its token.
        exact = read.quoted and not any(character in read.text for character in '"\\\n\t')
        start = read.start + leading + 2 if exact else read.start
        return ExpressionCondition(stripped[1:-1], start, exact)
    step, dot, marker = stripped.partition(".")
    if not (dot and is_name(step) and is_name(marker)):
        hint = 'write `if = "step.marker"` or `if = "(expression)"`'
        raise ValueProblem(read.start, f"`{read.text}` is not a condition", hint)
    return MarkerCondition(step, marker, read.start)


_RETRY_KEYS = ("max", "backoff", "on")


def retry_rule(value: OptionValue) -> RetryRule:
    """Read ``retry = { max backoff on }``."""
    if not isinstance(value, MapValue):
        raise ValueProblem(value.start, '`retry` is a map: `retry = { max = 5 backoff = "10s" }`')
    options: dict[str, OptionValue] = {}
    for key, item in value.pairs:
        if key.text not in _RETRY_KEYS:
            hint = did_you_mean(key.text, _RETRY_KEYS) or "it has `max`, `backoff` and `on`"
            raise ValueProblem(key.start, f"`retry` has no key `{key.text}`", hint)
        options[key.text] = item
    if "max" not in options:
        hint = "`max` is the number of attempts after the first"
        raise ValueProblem(value.start, "`retry` has no `max`", hint)
    backoff = delay(options["backoff"]) if "backoff" in options else 0
    names = texts(options["on"]) if "on" in options else ()
    return RetryRule(number(options["max"]), backoff, names)
