"""The options of commands that filter events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.cli.params import TAGS, many
from holdfast.core.subscriptions import SOURCES

F = TypeVar("F", bound=Callable[..., Any])


def filtering(command: F) -> F:
    """Add the options that filter events to a command."""
    for option in (
        many(
            "--tag",
            "tags",
            type=TAGS,
            metavar="NAME=VALUE",
            help="Only runs with these tags. E.g. --tag customer=7",
        ),
        click.option(
            "--source",
            type=click.Choice(SOURCES),
            help="Events of graphs or flows instead of runs. E.g. --source graphs",
        ),
        click.option("--run", "run", metavar="RUN", help="Only this run. E.g. --run last"),
        click.option(
            "--namespace", metavar="NAME", help="Only runs of this namespace. E.g. --namespace shop"
        ),
        click.option(
            "--workflow",
            metavar="NAME",
            help="Only runs of this workflow. E.g. --workflow checkout",
        ),
        many(
            "--kind",
            "kinds",
            metavar="A,B",
            help="Only events of these kinds or topics. E.g. --kind completions",
        ),
    ):
        command = option(command)
    return command


def filters_from(
    kinds: list[str], tags: list[tuple[str, str]], **named: str | None
) -> dict[str, Any]:
    """Return the filters of the engine for the options of the command line."""
    filters: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    if kinds:
        filters["kind"] = kinds
    if tags:
        filters["tags"] = dict(tags)
    return filters
