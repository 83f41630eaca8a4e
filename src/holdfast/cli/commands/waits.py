"""``holdfast waits``, ``holdfast release``: what runs wait for, who may resume them, and a person
who lets one go."""

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
  holdfast waits --escalated           those that need a person
  holdfast waits last                  the waits of a run, open and closed
  holdfast waits --token 01m7ge8gkb... the token of a wait, once more"""


@click.command(
    short_help="List what runs wait for, and the waits that were handed out.", epilog=WAITS
)
@click.argument("run", metavar="[RUN]", required=False)
@click.option("--escalated", is_flag=True, help="Only those that need a person.")
@click.option(
    "--token",
    "wait",
    metavar="WAIT",
    help="Print the token of a wait that was handed out. E.g. --token 01m7ge8gkb...",
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="E.g. --limit 1000",
)
@printing
def waits(run: str | None, escalated: bool, wait: str | None, limit: int) -> None:
    """List the waits of a run, or all open ones. Tokens are not shown, only the name of their key
    and a fingerprint."""
    with command_context().opened() as office:
        if wait is not None:
            _print_token(office, wait)
            return
        run_id = None if run is None else office.find(run).id
        found = office.engine.waits(run_id, escalated=escalated, limit=limit)
    if command_context().as_json:
        print_json([_as_data(one) for one in found])
        return
    rows = [
        (
            one.run_id,
            one.step,
            one.state,
            short(one.name, 50),
            one.id or "-",
            seconds(one.until) or "-",
            one.fingerprint or "-",
        )
        for one in found
    ]
    print_table(("RUN", "STEP", "STATE", "WAITS FOR", "WAIT", "UNTIL", "FINGERPRINT"), rows)


def _print_token(office: OpenDatabase, wait: str) -> None:
    token = office.engine.wait_token(wait)
    if command_context().as_json:
        print_json({"wait": wait, "token": str(token)})
    else:
        print(token)


def _as_data(wait: WaitInfo) -> dict[str, Any]:
    times = ("opened_at", "until", "escalated_at", "closed_at")
    return {**msgspec.to_builtins(wait), **{name: iso(getattr(wait, name)) for name in times}}


@click.command(
    short_help="Let a run that waits or sleeps go on, try again, or begin.",
    epilog="Example: holdfast release last --by ann --payload true",
)
@click.argument("run", metavar="RUN")
@click.option(
    "--step", metavar="STEP", help="Which of its waits, if there are several. E.g. --step wait"
)
@click.option(
    "--payload",
    metavar="JSON",
    type=JSON,
    help="What the workflow gets. E.g. --payload '{\"ok\": true}'",
)
@click.option("--by", metavar="NAME", help="Who lets it go. E.g. --by ann")
@printing
def release(run: str, step: str | None, payload: Any, by: str | None) -> None:
    """Let a run that waits with wait_for go on without its signals, one that sleeps before its
    time, a step that failed be tried again at once, or a run begin now that was to begin later."""
    with command_context().opened() as office:
        found = office.find(run)
        released = office.engine.release(found.id, step=step, payload=payload, by=by)
    if command_context().as_json:
        print_json({"run": found.id, "step": released})
    else:
        print(
            f"run {found.id} goes on at step {released}"
            if released
            else f"run {found.id} may begin now"
        )
