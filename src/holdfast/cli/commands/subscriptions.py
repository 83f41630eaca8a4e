"""``holdfast subscriptions``: who reads events under a name, and the webhooks to which they are
delivered."""

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
    short_help="List who reads events; add and remove webhooks.",
    epilog=EPILOG,
    invoke_without_command=True,
)
@printing
@click.pass_context
def subscriptions(ctx: click.Context) -> None:
    """List named cursors and webhooks, how far they have come, and what went wrong last."""
    if ctx.invoked_subcommand is None:
        with command_context().opened() as office:
            _list(office)


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
    help="After so many an event is a dead letter. E.g. --attempts 5. [default: 12]",
)
@click.option(
    "--secret-file",
    type=click.Path(exists=True, dir_okay=False),
    help="A file with the secret. E.g. --secret-file key.txt. [default: a new one]",
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
    """Deliver events to a URL, and print the secret that signs them: it is shown only now."""
    secret = None if secret_file is None else Path(secret_file).read_text("utf-8").strip()
    with command_context().opened(create=True) as office:
        run_id = None if run is None else office.find(run).id
        given = filters_from(kinds, tags, workflow=workflow, namespace=namespace, run=run_id)
        signed = office.engine.add_webhook(
            name, url, secret=secret, after=after, attempts=attempts, **given
        )
        if command_context().as_json:
            print_json({"name": name, "url": url, "secret": signed})
        else:
            print_fields([("webhook", name), ("url", url), ("secret", signed)])


@subscriptions.command("remove", epilog="Example: holdfast subscriptions remove billing")
@click.argument("name", metavar="NAME")
@printing
def remove(name: str) -> None:
    """Forget a named cursor or a webhook, with its dead letters."""
    with command_context().opened() as office:
        office.engine.unsubscribe(name)
        if command_context().as_json:
            print_json({"removed": name})
        else:
            print(f"removed {name}")


@subscriptions.command("dead", epilog="Example: holdfast subscriptions dead billing --json")
@click.argument("name", metavar="NAME")
@printing
def dead(name: str) -> None:
    """List what a webhook could not deliver, oldest first."""
    with command_context().opened() as office:
        found = office.engine.dead_letters(name)
        if command_context().as_json:
            print_json([_letter(letter) for letter in found])
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
            for letter in found
        ]
        print_table(("RUN", "SEQ", "ATTEMPTS", "SINCE", "AGAIN", "ERROR"), rows)


@subscriptions.command("replay", epilog="Example: holdfast subscriptions replay billing")
@click.argument("name", metavar="NAME")
@printing
def replay(name: str) -> None:
    """Let a webhook deliver its dead letters once more: a worker does it."""
    with command_context().opened() as office:
        count = office.engine.replay_dead_letters(name)
        if command_context().as_json:
            print_json({"name": name, "letters": count})
        else:
            print(f"{count} to be delivered once more")


def _list(office: OpenDatabase) -> None:
    workers = {session.id: session.worker for session in office.engine.workers()}
    installation = office.store.installation()
    found = [_as_data(one, workers, installation) for one in office.engine.subscriptions()]
    if command_context().as_json:
        print_json(found)
        return
    rows = [
        (
            one["name"],
            one["kind"],
            _shown(one["which"]),
            one["url"] or "-",
            one["worker"] or "-",
            str(one["attempts"]),
            short(one["error"]) or "-",
        )
        for one in found
    ]
    print_table(("NAME", "KIND", "EVENTS", "URL", "WORKER", "FAILED", "ERROR"), rows)


def _as_data(one: Subscription, workers: dict[str, str], installation: str) -> dict[str, Any]:
    return {
        "name": one.name,
        "kind": one.kind,
        "which": _which(one.which),
        "cursor": cursor_of(one.place, installation),
        "url": one.url,
        "worker": workers.get(one.session_id or ""),
        "attempts": one.attempts,
        "attempt_limit": one.attempt_limit or None,
        "next_at": iso(one.next_at),
        "error": one.error,
        "created_at": iso(one.created_at),
        "moved_at": iso(one.moved_at),
    }


def _which(which: EventFilter) -> dict[str, Any]:
    told = {"workflow": which.workflow, "namespace": which.namespace, "run": which.run_id}
    found: dict[str, Any] = {name: value for name, value in told.items() if value is not None}
    if which.kinds is not None:
        found["kind"] = list(which.kinds)
    return {**found, **({"tags": which.tags} if which.tags else {})}


def _shown(which: dict[str, Any]) -> str:
    parts = [
        f"{name}={','.join(value) if isinstance(value, list) else value}"
        for name, value in which.items()
        if name != "tags"
    ]
    parts += [f"{name}={value}" for name, value in which.get("tags", {}).items()]
    return short(" ".join(parts), 60) or "all"


def _letter(letter: DeadLetter) -> dict[str, Any]:
    return {
        "run": letter.run_id,
        "seq": letter.seq,
        "attempts": letter.attempts,
        "error": letter.error,
        "at": iso(letter.at),
        "again": letter.again,
        "body": payload(letter.body),
    }
