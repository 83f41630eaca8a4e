"""Types of command line parameters: JSON, durations, points in time, tags and lists."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from holdfast.core import duration
from holdfast.core.status import Status
from holdfast.errors import BadDuration

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:
    _Type = click.ParamType[Any]
else:  # in older versions of click ParamType is not generic
    _Type = click.ParamType


class JsonValue(_Type):
    """A JSON value."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return msgspec.json.decode(value)
        except UnicodeEncodeError:
            self.fail(f"{value!r} is not JSON: it is not valid Unicode", param, ctx)
        except RecursionError:
            self.fail("the JSON value is nested too deeply", param, ctx)
        except msgspec.DecodeError as error:
            if str(value).startswith("--"):
                raise click.NoSuchOption(str(value), ctx=ctx) from None
            self.fail(
                f"{value!r} is not JSON ({error}); a string needs quotes, as in '\"abc\"'",
                param,
                ctx,
            )


class JsonObject(JsonValue):
    """A JSON object, such as the variables of a model."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, dict):
            return value
        decoded = super().convert(value, param, ctx)
        if not isinstance(decoded, dict):
            self.fail(f"{value!r} is not a JSON object such as '{{\"x\": 1}}'", param, ctx)
        return decoded


class DurationValue(_Type):
    """A duration such as 30s, 1h30m or 2d; it is checked and passed on as text."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            duration.parse(value)
        except BadDuration as error:
            self.fail(
                f"{value!r} is not a duration such as 50ms, 1h30m or 2d: {error.facts['why']}",
                param,
                ctx,
            )
        return str(value)


class MomentValue(_Type):
    """A duration, or a time such as 2026-12-24T18:00 (UTC unless it has an offset)."""

    name = "moment"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | datetime:
        try:
            duration.parse(value)
            return str(value)
        except BadDuration:
            pass
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is neither a duration such as 1h nor a time such as 2026-12-24T18:00",
                param,
                ctx,
            )


class TagValue(_Type):
    """A name=value pair: a tag, or another *kind* of pair."""

    name = "name=value"

    def __init__(self, kind: str = "tag", example: str = "customer=7") -> None:
        self._kind = kind
        self._example = example

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not name or not equals:
            self.fail(f"{value!r} is not a {self._kind} such as {self._example}", param, ctx)
        return name, text


class PairsValue(TagValue):
    """OLD=NEW pairs, separated by commas."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if isinstance(value, list):
            return value
        pair = super().convert
        return [pair(part, param, ctx) for part in str(value).split(",")]


class WordsValue(_Type):
    """Words separated by commas, optionally limited to the values of an enum."""

    name = "a,b"

    def __init__(self, known: type[Status] | None = None) -> None:
        self.known = None if known is None else [str(member) for member in known]

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[str]:
        if isinstance(value, list):
            return value
        words = [word.strip() for word in str(value).split(",") if word.strip()]
        unknown = [] if self.known is None else [word for word in words if word not in self.known]
        if unknown or not words:
            remedy = f"use {', '.join(self.known)}" if self.known else "name at least one"
            self.fail(f"{unknown[0] if unknown else value!r} is not valid: {remedy}", param, ctx)
        return words


class TagsValue(_Type):
    """Tags separated by commas: a text without an equals sign belongs to the value before it."""

    name = "name=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[tuple[str, str]]:
        if isinstance(value, list):
            return value
        parts: list[str] = []
        for part in str(value).split(","):
            if parts and "=" not in part:
                parts[-1] += f",{part}"
            else:
                parts.append(part)
        return [TAG.convert(part, param, ctx) for part in parts]


class TextValue(_Type):
    """A text that is not empty: an option whose variable was not set must not select all runs."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not str(value).strip():
            self.fail("it is empty: leave the option out to select by the others alone", param, ctx)
        return str(value)


class SeveralValues(_Type):
    """Values of another type, separated by commas."""

    name = "a,b"

    def __init__(self, item: click.ParamType[Any]) -> None:
        self._item = item

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[Any]:
        if isinstance(value, list):
            return value
        return [self._item.convert(part, param, ctx) for part in str(value).split(",")]


def many(*names: str, type: click.ParamType[Any] | None = None, **options: Any) -> Callable[[F], F]:
    """Return an option that takes several values, repeated or separated by commas. The command
    receives one list, empty if the option is missing."""
    return click.option(*names, type=type or WORDS, multiple=True, callback=_flatten, **options)


def _flatten(_: click.Context, __: click.Parameter, values: tuple[list[Any], ...]) -> list[Any]:
    return [item for value in values for item in value]


NEGATIVE_NUMBERS = {"ignore_unknown_options": True}
"""Settings of a command whose arguments may begin with a minus sign: -5 is JSON, not an option."""

JSON = JsonValue()
OBJECT = JsonObject()
DURATION = DurationValue()
MOMENT = MomentValue()
TAG = TagValue()
TAGS = TagsValue()
TEXT = TextValue()
WORDS = WordsValue()
STATUSES = WordsValue(Status)
