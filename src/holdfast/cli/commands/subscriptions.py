"""``holdfast events subscriptions, unsubscribe, webhooks``: list named cursors and webhooks, set
webhooks, and redeliver dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from holdfast.cli.commands.event_filters import filtering, filters_from
from holdfast.cli.context import command_context, confirm, deleting, printing
from holdfast.cli.output import print_fields, print_json, print_table
from holdfast.cli.paging import items_after, paged, print_page
from holdfast.core.subscriptions import RUNS, WEBHOOK
from holdfast.views.subscriptions import DeadLetterView, SubscriptionView, conditions_line
from holdfast.views.text import seconds, short

EPILOG = """\b
Examples:
  holdfast events webhooks
  holdfast events webhooks set billing https://example.org/hook --kind completions
  holdfast events webhooks dead-letters billing
  holdfast events webhooks redeliver billing
  holdfast events webhooks remove billing"""


@click.command(
    short_help="List named cursors and webhooks.", epilog="Example: holdfast events subscriptions"
)
@paged(limit=100, after="billing")
@printing
def subscriptions(limit: int, after: str | None) -> None:
    """List named cursors and webhooks, with their positions and last errors."""
    _list(None, limit, after)


@click.command(
    short_help="Remove a named cursor.", epilog="Example: holdfast events unsubscribe mirror --yes"
)
@click.argument("name", metavar="NAME")
@deleting
@printing
def unsubscribe(name: str, yes: bool) -> None:
    """Remove a named cursor; a reader of that name then starts like a new one."""
    _remove(name, f"Remove the cursor {name}?", yes)


@click.group(
    short_help="List, set and remove webhooks.",
    epilog=EPILOG,
    invoke_without_command=True,
)
@paged(limit=100, after="billing")
@printing
@click.pass_context
def webhooks(ctx: click.Context, limit: int, after: str | None) -> None:
    """List webhooks, with their positions and last errors."""
    if ctx.invoked_subcommand is None:
        _list(WEBHOOK, limit, after)


@webhooks.command(
    "set",
    epilog=(
        "Example: holdfast events webhooks set billing https://example.org/hook --kind completions"
    ),
)
@click.argument("name", metavar="NAME")
@click.argument("url", metavar="[URL]", required=False)
@click.option(
    "--after",
    metavar="CURSOR",
    help="Continue after this cursor, or 'beginning'. E.g. --after beginning. [default: now]",
)
@click.option(
    "--attempts",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Failed attempts until an event is a dead letter. E.g. --attempts 5. [default: 12]",
)
@click.option(
    "--secret-file",
    type=click.Path(exists=True, dir_okay=False),
    help="A file with the signing secret. E.g. --secret-file key.txt. [default: a new secret]",
)
@click.option(
    "--with-result/--without-result",
    default=None,
    help="Deliver the results of completed runs with their events. [default: without]",
)
@filtering
@printing
def set_webhook(
    name: str,
    url: str | None,
    after: str | None,
    attempts: int | None,
    secret_file: str | None,
    with_result: bool | None,
    kinds: list[str],
    workflow: str | None,
    namespace: str | None,
    run: str | None,
    source: str | None,
    tags: list[tuple[str, str]],
) -> None:
    """Create or change a webhook, which delivers events to a URL, and print the secret that signs
    them. Settings that are not named keep their value; a new webhook needs a URL."""
    secret = None if secret_file is None else Path(secret_file).read_text("utf-8").strip()
    with command_context().opened(create=True) as database:
        if run is not None and source in (None, RUNS):
            run = database.find(run).id
        filters = filters_from(
            kinds, tags, workflow=workflow, namespace=namespace, run=run, source=source
        )
        if with_result is not None:
            filters["with_result"] = with_result
        signing_secret = database.engine.webhooks.set(
            name,
            url,
            secret=secret,
            after=after,
            attempts=attempts,
            by=command_context().person(),
            **filters,
        )
        address = url or database.engine.webhooks.get(name).url or ""
        if command_context().as_json:
            print_json({"name": name, "url": address, "secret": signing_secret})
        else:
            print_fields([("webhook", name), ("url", address), ("secret", signing_secret)])


@webhooks.command("remove", epilog="Example: holdfast events webhooks remove billing --yes")
@click.argument("name", metavar="NAME")
@deleting
@printing
def remove(name: str, yes: bool) -> None:
    """Remove a webhook with its dead letters."""
    _remove(name, f"Remove the webhook {name} with its dead letters?", yes)


def _remove(name: str, question: str, yes: bool) -> None:
    with command_context().opened() as database:
        confirm(question, yes=yes)
        database.engine.events.unsubscribe(name, by=command_context().person())
    if command_context().as_json:
        print_json({"removed": name})
    else:
        print(f"subscription {name} removed")


@webhooks.command(
    "dead-letters", epilog="Example: holdfast events webhooks dead-letters billing --json"
)
@click.argument("name", metavar="NAME")
@paged(limit=100, after="01m7ge8gkb9apz:3")
@printing
def dead_letters(name: str, limit: int, after: str | None) -> None:
    """List the dead letters of a webhook: events that could not be delivered, oldest first."""
    with command_context().opened() as database:
        letters = database.engine.webhooks.dead_letters(name)
    print_page(items_after(letters, after, _place, limit), limit, _place, _print_letters)


def _place(letter: DeadLetterView) -> str:
    return f"{letter.run}:{letter.seq}"


def _print_letters(page: Sequence[DeadLetterView]) -> None:
    rows = [
        (
            letter.run,
            str(letter.seq),
            str(letter.attempts),
            seconds(letter.at),
            "yes" if letter.again else "-",
            short(letter.error),
        )
        for letter in page
    ]
    print_table(("RUN", "SEQ", "ATTEMPTS", "SINCE", "QUEUED", "ERROR"), rows)


@webhooks.command("redeliver", epilog="Example: holdfast events webhooks redeliver billing")
@click.argument("name", metavar="NAME")
@printing
def redeliver(name: str) -> None:
    """Queue the dead letters of a webhook for another delivery by a worker."""
    with command_context().opened() as database:
        count = database.engine.webhooks.redeliver(name, by=command_context().person())
        if command_context().as_json:
            print_json({"name": name, "letters": count})
        else:
            print(f"{count} dead letters queued for another delivery")


def _list(kind: str | None, limit: int, after: str | None) -> None:
    """Print a page of the subscriptions of a kind, or of all."""
    with command_context().opened() as database:
        listed = [
            subscription
            for subscription in database.engine.events.subscriptions()
            if kind in (None, subscription.kind)
        ]
    print_page(items_after(listed, after, _name, limit), limit, _name, _print_subscriptions)


def _name(subscription: SubscriptionView) -> str:
    return subscription.name


def _print_subscriptions(listed: Sequence[SubscriptionView]) -> None:
    rows = [
        (
            subscription.name,
            subscription.kind,
            conditions_line(subscription.which),
            subscription.url or "-",
            subscription.worker or "-",
            str(subscription.attempts),
            short(subscription.error) or "-",
        )
        for subscription in listed
    ]
    print_table(("NAME", "KIND", "EVENTS", "URL", "WORKER", "FAILED", "ERROR"), rows)
