"""``holdfast subscriptions``: list subscriptions, add webhooks, and redeliver dead letters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from holdfast.cli.commands.events import filtering, filters_from
from holdfast.cli.context import OpenDatabase, command_context, printing
from holdfast.cli.output import iso, payload, print_fields, print_json, print_table, seconds, short
from holdfast.core.subscriptions import DeadLetter, EventFilter, Subscription, cursor_of

EPILOG = """\b
Examples:
  holdfast subscriptions
  holdfast subscriptions add billing https://example.org/hook --kind completions
  holdfast subscriptions dead billing
  holdfast subscriptions replay billing
  holdfast subscriptions remove billing"""


@click.group(
    short_help="List subscriptions; add and remove webhooks.",
    epilog=EPILOG,
    invoke_without_command=True,
)
@printing
@click.pass_context
def subscriptions(ctx: click.Context) -> None:
    """List named cursors and webhooks, with their positions and last errors."""
    if ctx.invoked_subcommand is None:
        with command_context().opened() as database:
            _list(database)


@subscriptions.command(
    "add",
    epilog=(
        "Example: holdfast subscriptions add billing https://example.org/hook --kind completions"
    ),
)
@click.argument("name", metavar="NAME")
@click.argument("url", metavar="URL")
@click.option(
    "--after",
    metavar="CURSOR",
    help="Begin after this cursor, or at the 'beginning'. E.g. --after beginning. [default: now]",
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
@filtering
@printing
def add(
    name: str,
    url: str,
    after: str | None,
    attempts: int | None,
    secret_file: str | None,
    kinds: tuple[str, ...],
    workflow: str | None,
    namespace: str | None,
    run: str | None,
    tags: tuple[str, ...],
) -> None:
    """Deliver events to a URL, and print the secret that signs them. It is shown only once."""
    secret = None if secret_file is None else Path(secret_file).read_text("utf-8").strip()
    with command_context().opened(create=True) as database:
        run_id = None if run is None else database.find(run).id
        filters = filters_from(kinds, tags, workflow=workflow, namespace=namespace, run=run_id)
        signing_secret = database.engine.add_webhook(
            name, url, secret=secret, after=after, attempts=attempts, **filters
        )
        if command_context().as_json:
            print_json({"name": name, "url": url, "secret": signing_secret})
        else:
            print_fields([("webhook", name), ("url", url), ("secret", signing_secret)])


@subscriptions.command("remove", epilog="Example: holdfast subscriptions remove billing")
@click.argument("name", metavar="NAME")
@printing
def remove(name: str) -> None:
    """Remove a named cursor, or a webhook with its dead letters."""
    with command_context().opened() as database:
        database.engine.unsubscribe(name)
        if command_context().as_json:
            print_json({"removed": name})
        else:
            print(f"subscription {name} removed")


@subscriptions.command("dead", epilog="Example: holdfast subscriptions dead billing --json")
@click.argument("name", metavar="NAME")
@printing
def dead(name: str) -> None:
    """List the dead letters of a webhook: events that could not be delivered, oldest first."""
    with command_context().opened() as database:
        letters = database.engine.dead_letters(name)
        if command_context().as_json:
            print_json([_letter_as_data(letter) for letter in letters])
            return
        rows = [
            (
                letter.run_id,
                str(letter.seq),
                str(letter.attempts),
                seconds(letter.at),
                "yes" if letter.again else "-",
                short(letter.error),
            )
            for letter in letters
        ]
        print_table(("RUN", "SEQ", "ATTEMPTS", "SINCE", "REPLAY", "ERROR"), rows)


@subscriptions.command("replay", epilog="Example: holdfast subscriptions replay billing")
@click.argument("name", metavar="NAME")
@printing
def replay(name: str) -> None:
    """Queue the dead letters of a webhook for another delivery by a worker."""
    with command_context().opened() as database:
        count = database.engine.replay_dead_letters(name)
        if command_context().as_json:
            print_json({"name": name, "letters": count})
        else:
            print(f"{count} dead letters queued for another delivery")


def _list(database: OpenDatabase) -> None:
    workers = {session.id: session.worker for session in database.engine.workers()}
    installation = database.store.installation.id()
    listed = [
        _as_data(subscription, workers, installation)
        for subscription in database.engine.subscriptions()
    ]
    if command_context().as_json:
        print_json(listed)
        return
    rows = [
        (
            data["name"],
            data["kind"],
            _filter_text(data["which"]),
            data["url"] or "-",
            data["worker"] or "-",
            str(data["attempts"]),
            short(data["error"]) or "-",
        )
        for data in listed
    ]
    print_table(("NAME", "KIND", "EVENTS", "URL", "WORKER", "FAILED", "ERROR"), rows)


def _as_data(
    subscription: Subscription, workers: dict[str, str], installation: str
) -> dict[str, Any]:
    return {
        "name": subscription.name,
        "kind": subscription.kind,
        "which": _filter_as_data(subscription.which),
        "cursor": cursor_of(subscription.place, installation),
        "url": subscription.url,
        "worker": workers.get(subscription.session_id or ""),
        "attempts": subscription.attempts,
        "attempt_limit": subscription.attempt_limit or None,
        "next_at": iso(subscription.next_at),
        "error": subscription.error,
        "created_at": iso(subscription.created_at),
        "moved_at": iso(subscription.moved_at),
    }


def _filter_as_data(which: EventFilter) -> dict[str, Any]:
    """Return the conditions that a filter sets."""
    names = {"workflow": which.workflow, "namespace": which.namespace, "run": which.run_id}
    data: dict[str, Any] = {name: value for name, value in names.items() if value is not None}
    if which.kinds is not None:
        data["kind"] = list(which.kinds)
    if which.tags:
        data["tags"] = which.tags
    return data


def _filter_text(which: dict[str, Any]) -> str:
    parts = [
        f"{name}={','.join(value) if isinstance(value, list) else value}"
        for name, value in which.items()
        if name != "tags"
    ]
    parts += [f"{name}={value}" for name, value in which.get("tags", {}).items()]
    return short(" ".join(parts), 60) or "all"


def _letter_as_data(letter: DeadLetter) -> dict[str, Any]:
    return {
        "run": letter.run_id,
        "seq": letter.seq,
        "attempts": letter.attempts,
        "error": letter.error,
        "at": iso(letter.at),
        "again": letter.again,
        "body": payload(letter.body),
    }
