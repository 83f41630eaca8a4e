"""``holdfast events``: print the events of all runs, from a cursor on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.cli.context import command_context, printing
from holdfast.cli.output import error_line, iso, payload, print_line, seconds, short
from holdfast.core.subscriptions import TOPICS, RunEvent

F = TypeVar("F", bound=Callable[..., Any])

EPILOG = f"""\b
Examples:
  holdfast events --kind completions
  holdfast events -f --after now --workflow checkout
  holdfast events --after 4745103fbb6706ee.1.4 --json
Topics for --kind: {", ".join(TOPICS)}; or a kind of event, such as step_completed."""


def filtering(command: F) -> F:
    """Add the options that filter events to a command."""
    for option in (
        click.option(
            "--tag",
            "tags",
            multiple=True,
            metavar="NAME=VALUE",
            help="Only runs with this tag. E.g. --tag customer=7",
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
        click.option(
            "--kind",
            "kinds",
            multiple=True,
            metavar="KIND",
            help="Only events of this kind or topic; repeatable. E.g. --kind completions",
        ),
    ):
        command = option(command)
    return command


def filters_from(
    kinds: tuple[str, ...], tags: tuple[str, ...], **named: str | None
) -> dict[str, Any]:
    """Return the filters of the engine for the options of the command line."""
    invalid = [tag for tag in tags if "=" not in tag]
    if invalid:
        raise click.BadParameter(
            f"{invalid[0]!r} is not a tag such as customer=7", param_hint="'--tag'"
        )
    filters: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    if kinds:
        filters["kind"] = list(kinds)
    if tags:
        filters["tags"] = dict(tag.split("=", 1) for tag in tags)
    return filters


@click.command(short_help="Show the events of all runs.", epilog=EPILOG)
@click.option("-f", "--follow", is_flag=True, help="Wait for further events until interrupted.")
@click.option(
    "--after",
    metavar="CURSOR",
    help="Begin after this cursor, or 'now'. E.g. --after now. [default: the first event]",
)
@click.option(
    "--name",
    metavar="NAME",
    help="Continue from the stored cursor of this name, and update it. E.g. --name mirror",
)
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N events. E.g. --limit 10"
)
@filtering
@printing
def events(
    follow: bool,
    after: str | None,
    name: str | None,
    limit: int | None,
    kinds: tuple[str, ...],
    workflow: str | None,
    namespace: str | None,
    run: str | None,
    tags: tuple[str, ...],
) -> None:
    """Show the events of all runs; events of one run are in order. Each line ends with the cursor
    from which to continue. With --json each event is one line of JSON."""
    with command_context().opened() as database:
        run_id = None if run is None else database.find(run).id
        filters = filters_from(kinds, tags, workflow=workflow, namespace=namespace, run=run_id)
        for number, event in enumerate(
            database.engine.events(after=after, name=name, follow=follow, **filters), start=1
        ):
            if limit is not None and number > limit:
                return  # reading one more event has stored the cursor behind the last one shown
            _show(event)
            if number == limit and (name is None or follow):
                return


def _show(event: RunEvent) -> None:
    if command_context().as_json:
        fields = {name: getattr(event, name) for name in event.__struct_fields__}
        print_line(
            {
                **fields,
                "at": iso(event.at),
                "data": payload(event.data),
                "error": payload(event.error),
            }
        )
    else:
        details = [event.kind, event.step or "", error_line(event.error) or short(event.data, 60)]
        parts = [
            seconds(event.at),
            event.run_id,
            event.workflow,
            *(detail for detail in details if detail),
            event.cursor,
        ]
        print("  ".join(parts))
    sys.stdout.flush()
