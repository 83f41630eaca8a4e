"""How the words of a command line are read: JSON, durations, moments, tags, lists."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.core import duration
from holdfast.core.status import Status
from holdfast.errors import BadDuration

if TYPE_CHECKING:
    _Type = click.ParamType[Any]
else:  # older versions of click do not know what a type is a type of
    _Type = click.ParamType


class JsonValue(_Type):
    """A JSON value."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return msgspec.json.decode(value)
        except UnicodeEncodeError:
            self.fail(f"{value!r} is no JSON: it is no Unicode", param, ctx)
        except RecursionError:
            self.fail("it is nested too deeply to be read", param, ctx)
        except msgspec.DecodeError as error:
            if str(value).startswith("--"):
                raise click.NoSuchOption(str(value), ctx=ctx) from None
            self.fail(
                f"{value!r} is no JSON ({error}); a text needs its quotes, as in '\"abc\"'",
                param,
                ctx,
            )


class DurationValue(_Type):
    """A duration such as 30s, 1h30m or 2d; it stays a text."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            duration.parse(value)
        except BadDuration as error:
            self.fail(
                f"{value!r} is no duration such as 50ms, 1h30m or 2d: {error.facts['why']}",
                param,
                ctx,
            )
        return str(value)


class MomentValue(_Type):
    """A duration, or a moment such as 2026-12-24T18:00 (UTC unless it says otherwise)."""

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
                f"{value!r} is neither a duration such as 1h nor a moment such as 2026-12-24T18:00",
                param,
                ctx,
            )


class TagValue(_Type):
    """A tag: name=value, or something else that has a name and a value."""

    name = "name=value"

    def __init__(self, what: str = "tag", example: str = "customer=7") -> None:
        self._what, self._example = what, example

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not name or not equals:
            self.fail(f"{value!r} is no {self._what} such as {self._example}", param, ctx)
        return name, text


class ListValue(_Type):
    """Words separated by commas."""

    name = "a,b"

    def __init__(self, known: type[Status] | None = None) -> None:
        self.known = None if known is None else [str(one) for one in known]

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[str]:
        found = (
            value
            if isinstance(value, list)
            else [word.strip() for word in str(value).split(",") if word.strip()]
        )
        unknown = [] if self.known is None else [word for word in found if word not in self.known]
        if unknown or not found:
            there_are = f"there are {', '.join(self.known)}" if self.known else "name at least one"
            self.fail(
                f"{unknown[0] if unknown else value!r} cannot be used: {there_are}", param, ctx
            )
        return found


NEGATIVE_NUMBERS = {"ignore_unknown_options": True}
"""Settings of a command whose arguments may begin with a minus: -5 is JSON, not an option."""

JSON = JsonValue()
DURATION = DurationValue()
MOMENT = MomentValue()
TAG = TagValue()
LIST = ListValue()
STATUSES = ListValue(Status)
