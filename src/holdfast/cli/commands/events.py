"""``holdfast events``: print the events of all runs from a cursor on; the group of subscriptions
and webhooks."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from holdfast.cli.commands.event_filters import filtering, filters_from
from holdfast.cli.commands.subscriptions import subscriptions, unsubscribe, webhooks
from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_line
from holdfast.core.subscriptions import RUNS, TOPICS
from holdfast.views.events import RunEventView
from holdfast.views.text import error_line, payload, seconds

EPILOG = f"""\b
Examples:
  holdfast events --kind completions
  holdfast events -f --after now --workflow checkout
  holdfast events --after 4745103fbb6706ee.1.4 --json
Topics for --kind: {", ".join(TOPICS)}; or a kind of event, such as step_completed."""


@click.group(
    short_help="Show the events of all runs; manage cursors and webhooks.",
    epilog=EPILOG,
    invoke_without_command=True,
)
@click.option("-f", "--follow", is_flag=True, help="Wait for further events until interrupted.")
@click.option(
    "--after",
    metavar="CURSOR",
    help="Continue after this cursor, or 'now'. E.g. --after now. [default: the first event]",
)
@click.option(
    "--name",
    metavar="NAME",
    help="Continue from the stored cursor of this name, and update it. E.g. --name mirror",
)
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N events. E.g. --limit 10"
)
@click.option(
    "--with-result", is_flag=True, help="Show the results of completed runs with their events."
)
@filtering
@printing
@click.pass_context
def events(
    ctx: click.Context,
    /,
    follow: bool,
    after: str | None,
    name: str | None,
    limit: int | None,
    with_result: bool,
    kinds: list[str],
    workflow: str | None,
    namespace: str | None,
    run: str | None,
    source: str | None,
    tags: list[tuple[str, str]],
) -> None:
    """Show the events of all runs; events of one run are in order. Each line ends with the cursor
    from which to continue. With --json each event is one line of JSON."""
    if ctx.invoked_subcommand is not None:
        return
    with command_context().opened() as database:
        if run is not None and source in (None, RUNS):
            run = database.find(run).id
        filters = filters_from(
            kinds, tags, workflow=workflow, namespace=namespace, run=run, source=source
        )
        events = database.engine.events
        read = events.follow if follow else events.read
        # No variable refers to the iterator: it must end before the database is closed, because
        # its end stores the cursor of *name*.
        _show_some(
            read(after=after, name=name, with_result=with_result, **filters),
            limit,
            stores_cursor=name is not None and not follow,
        )


def _show_some(shown: Iterator[RunEventView], limit: int | None, *, stores_cursor: bool) -> None:
    """Show at most *limit* events. Reading one more event stores the cursor behind the last event
    that was shown."""
    for number, event in enumerate(shown, start=1):
        if limit is not None and number > limit:
            return
        _show(event)
        if number == limit and not stores_cursor:
            return


def _show(event: RunEventView) -> None:
    if command_context().as_json:
        print_line(event)
    else:
        value = "" if event.data is None else payload(event.data, 60)
        if event.result is not None:
            value = payload(event.result, 60)
        details = [event.kind, event.step or "", error_line(event.error) or value]
        parts = [
            seconds(event.at),
            event.run_id,
            event.workflow,
            *(detail for detail in details if detail),
            event.cursor,
        ]
        print("  ".join(parts))
    sys.stdout.flush()


events.add_command(subscriptions)
events.add_command(unsubscribe)
events.add_command(webhooks)
