"""Lists in pages: the options ``--limit`` and ``--after``, the JSON object of a page, and the
command that prints the next page.

With --json every list is one object: ``{"items": [...], "next": CURSOR}``, where the cursor is null
on the last page.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from holdfast.cli.context import command_context
from holdfast.cli.output import print_json

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

MOST = 10_000
"""The maximum number of items of a page."""


def paged(*, limit: int, after: str = "01m7ge8gkb9apz") -> Callable[[F], F]:
    """Add --limit and --after to a command that prints a list; *after* is an example of a
    cursor."""

    def add(command: F) -> F:
        with_cursor = click.option(
            "--after",
            metavar="CURSOR",
            help="Continue after this cursor, which the previous page prints."
            f" E.g. --after {after}",
        )(command)
        return click.option(
            "--limit",
            metavar="N",
            type=click.IntRange(1, MOST),
            default=limit,
            show_default=True,
            help="The maximum number of items. E.g. --limit 10",
        )(with_cursor)

    return add


def print_page(
    items: Sequence[T], limit: int, cursor: Callable[[T], str], show: Callable[[Sequence[T]], None]
) -> None:
    """Print the first *limit* of *items*, which has one item more if there is a next page. *cursor*
    returns the place of an item; *show* prints items for people."""
    page = items[:limit]
    following = cursor(page[-1]) if len(items) > limit else None
    if command_context().as_json:
        print_items(page, following)
        return
    show(page)
    print_next(following)


def items_after(
    items: Sequence[T], after: str | None, cursor: Callable[[T], str], limit: int
) -> Sequence[T]:
    """Return the page of a list that is read whole, with one item more if there is a next page:
    the items that follow the cursor *after*. Raises UsageError if no item has it."""
    if after is None:
        return items[: limit + 1]
    places = [cursor(item) for item in items]
    if after not in places:
        raise click.UsageError(
            f"--after {after}: the list has no such item; begin again without --after"
        )
    first = places.index(after) + 1
    return items[first : first + limit + 1]


def print_items(items: Sequence[Any], cursor: str | int | None = None) -> None:
    """Print a list as one JSON object. *cursor* is the place where the next page begins; None on
    the last page."""
    print_json({"items": items, "next": cursor})


def print_next(cursor: str | int | None) -> None:
    """Print the command that prints the next page; nothing on the last page."""
    if cursor is not None:
        print(f"next page: {_next_command(str(cursor))}")


def _next_command(cursor: str) -> str:
    """Return the current command, with ``--after`` set to *cursor*."""
    context = click.get_current_context()
    words = context.command_path.split()
    for option in context.command.params:
        name = option.name or ""
        is_explicit = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if is_explicit and name != "after" and name in context.params:
            words += _words_of(option, context.params[name])
    return command_context().command(" ".join([*words, "--after", shlex.quote(cursor)]))


def _words_of(option: click.Parameter, value: Any) -> list[str]:
    """Return an option, or an argument, with its value as words of a shell command."""
    if value is True:
        return [option.opts[0]]
    values = value if isinstance(value, list | tuple) else [value]
    texts = ["=".join(item) if isinstance(item, tuple) else str(item) for item in values]
    if isinstance(option, click.Argument):
        return [shlex.quote(text) for text in texts]
    return [word for text in texts for word in (option.opts[0], shlex.quote(text))]
