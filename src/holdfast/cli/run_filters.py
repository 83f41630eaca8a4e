"""The options that select runs, for ``holdfast runs`` and for commands that change many runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from holdfast.cli.context import command_context
from holdfast.cli.params import MOMENT, STATUSES, TAGS, TEXT, many
from holdfast.connect.blocking.runs import RunQuery
from holdfast.connect.open_database import OpenDatabase

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "--status": many(
        "--status",
        metavar="A,B",
        type=STATUSES,
        help="Only these statuses. E.g. --status failed,stuck",
    ),
    "--live": click.option("--live", is_flag=True, help="Only runs that have not ended."),
    "--workflow": many(
        "--workflow",
        metavar="A,B",
        help="Only runs of these workflows. E.g. --workflow checkout,refund",
    ),
    "--version": many(
        "--version", metavar="A,B", help="Only runs of these versions. E.g. --version 2"
    ),
    "--lane": many("--lane", metavar="A,B", help="Only runs in these lanes. E.g. --lane reports"),
    "--share": click.option(
        "--share", metavar="NAME", type=TEXT, help="Only runs of this share. E.g. --share tenant-7"
    ),
    "--tag": many(
        "--tag",
        "tags",
        metavar="NAME=VALUE",
        type=TAGS,
        help="Only runs with these tags. E.g. --tag customer=7",
    ),
    "--key": click.option(
        "--key", metavar="TEXT", type=TEXT, help="Only runs with this key. E.g. --key order-7"
    ),
    "--id-prefix": click.option(
        "--id-prefix",
        metavar="TEXT",
        type=TEXT,
        help="Only runs whose ids begin with this text. E.g. --id-prefix order-",
    ),
    "--since": click.option(
        "--since",
        metavar="WHEN",
        type=MOMENT,
        help="Only runs created since then. E.g. --since 1h or 2026-11-15",
    ),
    "--until": click.option(
        "--until",
        metavar="WHEN",
        type=MOMENT,
        help="Only runs created before then. E.g. --until 30m",
    ),
    "--worker": click.option(
        "--worker",
        metavar="NAME",
        type=TEXT,
        help="Only runs that this worker holds. E.g. --worker gpu-1",
    ),
    "--namespace": click.option(
        "--namespace",
        metavar="NAME",
        type=TEXT,
        help="Only runs of this namespace. E.g. --namespace acme",
    ),
    "--parent": click.option(
        "--parent", metavar="RUN", type=TEXT, help="Only children of this run. E.g. --parent last"
    ),
    "--roots": click.option("--roots", is_flag=True, help="Only runs without a parent."),
}
"""The options, in the order of ``--help``."""


def filtering(command: F) -> F:
    """Add the options that select runs to a command; ``query_of`` reads them."""
    return filtering_without()(command)


def filtering_without(*names: str) -> Callable[[F], F]:
    """Return the same without some options, because the command has others of these names."""

    def add(command: F) -> F:
        for name, option in reversed(_OPTIONS.items()):
            if name not in names:
                command = option(command)
        return command

    return add


def query_of(
    database: OpenDatabase, *, tags: Sequence[tuple[str, str]], parent: str | None, **filters: Any
) -> RunQuery:
    """Return the query for the runs that the options select."""
    filters["namespace"] = filters["namespace"] or command_context().namespace
    for name in ("status", "workflow", "version", "lane"):
        filters[name] = filters[name] or None
    if parent is not None:
        filters["parent_id"] = database.find(parent).id
    return database.engine.runs(tags=dict(tags), **filters)


def are_given(**filters: Any) -> bool:
    """Return whether any of the options that select runs was given."""
    return any(filters.values())
