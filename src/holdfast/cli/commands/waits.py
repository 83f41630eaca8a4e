"""``holdfast waits``: list waits, print their tokens, and release runs from them."""

from __future__ import annotations

import shlex
from typing import Any

import click

from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_json, print_table
from holdfast.cli.params import DURATION, JSON
from holdfast.views.text import seconds, short

EPILOG = """\b
Examples:
  holdfast waits                       all open waits
  holdfast waits --escalated           waits that need an operator
  holdfast waits --run last            the waits of a run, open and closed
  holdfast waits token 01m7ge8gkb...   the token of a wait
  holdfast waits release last          let a run continue without what it waits for"""


@click.group(
    short_help="List what runs wait for, print tokens, release runs.",
    epilog=EPILOG,
    invoke_without_command=True,
)
@click.option(
    "--run", metavar="RUN", help="The waits of this run, open and closed. E.g. --run last"
)
@click.option("--escalated", is_flag=True, help="Only waits that timed out and need an operator.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="The maximum number of waits. E.g. --limit 1000",
)
@click.option(
    "--after",
    metavar="CURSOR",
    help="Continue after this cursor, which the previous page prints. E.g. --after WzE3OTQ",
)
@printing
@click.pass_context
def waits(
    ctx: click.Context, run: str | None, escalated: bool, limit: int, after: str | None
) -> None:
    """List all open waits, the next to time out first, or the waits of a run. Tokens are not shown,
    only their fingerprints and the names of their keys."""
    if ctx.invoked_subcommand is not None:
        return
    with command_context().opened() as database:
        run_id = None if run is None else database.find(run).id
        listed = database.engine.waits.list(run_id, escalated=escalated, after=after, limit=limit)
    if command_context().as_json:
        print_json(listed.as_object())
        return
    rows = [
        (
            wait.run_id,
            wait.step,
            wait.state,
            short(wait.name, 50),
            wait.id or "-",
            seconds(wait.until) or "-",
            short(wait.reason, 30) if wait.reason else "-",
            wait.asked_by or "-",
            wait.fingerprint or "-",
        )
        for wait in listed
    ]
    heads = ("RUN", "STEP", "STATE", "WAITS FOR", "WAIT", "UNTIL", "REASON", "BY", "FINGERPRINT")
    print_table(heads, rows)
    if listed.next is not None:
        print(f"more: {_next_page(run, listed.next, limit, escalated=escalated)}")


def _next_page(run: str | None, cursor: str, limit: int, *, escalated: bool) -> str:
    words = ["waits", "--limit", str(limit)]
    if run is not None:
        words += ["--run", shlex.quote(run)]
    if escalated:
        words.append("--escalated")
    return command_context().command(" ".join([*words, "--after", cursor]))


@waits.command("token", epilog="Example: holdfast waits token 01m7ge8gkb...")
@click.argument("wait", metavar="WAIT")
@printing
def print_token(wait: str) -> None:
    """Print the token of a wait, for an outside program."""
    with command_context().opened() as database:
        token = database.engine.waits.token(wait)
    if command_context().as_json:
        print_json({"wait": wait, "token": str(token)})
    else:
        print(token)


@waits.command("release", epilog="Example: holdfast waits release last --by ann --payload true")
@click.argument("run", metavar="RUN")
@click.option(
    "--step", metavar="STEP", help="The waiting step, if there are several. E.g. --step wait"
)
@click.option(
    "--payload",
    metavar="JSON",
    type=JSON,
    help="The value that the workflow receives. E.g. --payload '{\"ok\": true}'",
)
@click.option("--by", metavar="NAME", help="Who releases it. E.g. --by ann")
@click.option(
    "--delay",
    metavar="DURATION",
    type=DURATION,
    help="Resume a suspended task, or start a delayed run, after this time. E.g. --delay 5m",
)
@printing
def release(run: str, step: str | None, **options: Any) -> None:
    """Release a run: end a wait_for without its signals, end a sleep early, retry a failed step
    now, or start a delayed run now."""
    with command_context().opened() as database:
        run_id = database.find(run).id
        released_step = database.engine.waits.release(run_id, step=step, **options)
    if command_context().as_json:
        print_json({"run": run_id, "step": released_step})
    elif released_step:
        print(f"run {run_id} continues at step {released_step}")
    else:
        print(f"run {run_id} may start now")
