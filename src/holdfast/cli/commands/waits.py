"""``holdfast waits``, ``holdfast release``: list waits, print their tokens, and release them."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from holdfast.cli.context import OpenDatabase, command_context, printing
from holdfast.cli.output import iso, print_json, print_table, seconds, short
from holdfast.cli.params import JSON
from holdfast.service.waits import WaitInfo

WAITS = """\b
Examples:
  holdfast waits                       all open waits
  holdfast waits --escalated           waits that need an operator
  holdfast waits last                  the waits of a run, open and closed
  holdfast waits --token 01m7ge8gkb... the token of a wait"""


@click.command(short_help="List what runs wait for; print tokens of waits.", epilog=WAITS)
@click.argument("run", metavar="[RUN]", required=False)
@click.option("--escalated", is_flag=True, help="Only waits that timed out and need an operator.")
@click.option(
    "--token",
    "wait",
    metavar="WAIT",
    help="Print the token of this wait, for an outside program. E.g. --token 01m7ge8gkb...",
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="The maximum number of waits. E.g. --limit 1000",
)
@printing
def waits(run: str | None, escalated: bool, wait: str | None, limit: int) -> None:
    """List the waits of a run, or all open waits. Tokens are not shown, only their fingerprints and
    the names of their keys."""
    with command_context().opened() as database:
        if wait is not None:
            _print_token(database, wait)
            return
        run_id = None if run is None else database.find(run).id
        listed = database.engine.waits(run_id, escalated=escalated, limit=limit)
    if command_context().as_json:
        print_json([_as_data(info) for info in listed])
        return
    rows = [
        (
            info.run_id,
            info.step,
            info.state,
            short(info.name, 50),
            info.id or "-",
            seconds(info.until) or "-",
            info.fingerprint or "-",
        )
        for info in listed
    ]
    print_table(("RUN", "STEP", "STATE", "WAITS FOR", "WAIT", "UNTIL", "FINGERPRINT"), rows)


def _print_token(database: OpenDatabase, wait: str) -> None:
    token = database.engine.wait_token(wait)
    if command_context().as_json:
        print_json({"wait": wait, "token": str(token)})
    else:
        print(token)


def _as_data(wait: WaitInfo) -> dict[str, Any]:
    times = ("opened_at", "until", "escalated_at", "closed_at")
    return {**msgspec.to_builtins(wait), **{name: iso(getattr(wait, name)) for name in times}}


@click.command(
    short_help="Release a run from its wait, sleep, retry delay or start delay.",
    epilog="Example: holdfast release last --by ann --payload true",
)
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
@printing
def release(run: str, step: str | None, payload: Any, by: str | None) -> None:
    """Release a run: end a wait_for without its signals, end a sleep early, retry a failed step
    now, or start a delayed run now."""
    with command_context().opened() as database:
        run_id = database.find(run).id
        released_step = database.engine.release(run_id, step=step, payload=payload, by=by)
    if command_context().as_json:
        print_json({"run": run_id, "step": released_step})
    elif released_step:
        print(f"run {run_id} continues at step {released_step}")
    else:
        print(f"run {run_id} may start now")
