"""``holdfast keys``: the keys that sign tokens. Secrets are never shown."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from holdfast.cli.context import command_context, printing
from holdfast.cli.output import iso, print_json, print_table, seconds
from holdfast.cli.params import DURATION
from holdfast.service.keys import DEFAULT_GRACE, KeyInfo

EPILOG = """\b
Examples:
  holdfast keys
  holdfast keys rotate --grace 7d
  holdfast keys rotate --grace 0s    after a leak: all tokens made so far are worth nothing"""


@click.group(
    short_help="List the keys that sign tokens, and replace them.",
    epilog=EPILOG,
    invoke_without_command=True,
)
@printing
@click.pass_context
def keys(ctx: click.Context) -> None:
    """List the keys that sign tokens, without their secrets; `keys rotate` makes a new one."""
    command_context().concerns_all("keys")
    if ctx.invoked_subcommand is not None:
        return
    with command_context().opened() as office:
        found = office.engine.keys()
    if command_context().as_json:
        print_json([_as_data(key) for key in found])
        return
    rows = [
        (
            key.kid,
            "current" if key.current else "in grace",
            seconds(key.created_at),
            seconds(key.expires_at),
        )
        for key in found
    ]
    print_table(("KEY", "STATE", "MADE", "GOOD UNTIL"), rows)


@keys.command(epilog="Example: holdfast keys rotate --grace 7d")
@click.option(
    "--grace",
    metavar="TIME",
    type=DURATION,
    default=DEFAULT_GRACE,
    show_default=True,
    help="For how long the tokens of the key before it are still taken. E.g. --grace 7d",
)
@printing
def rotate(grace: str) -> None:
    """Make a new key, with which all tokens are signed from now on."""
    with command_context().opened(create=True) as office:
        done = office.engine.rotate_key(grace=grace)
    if command_context().as_json:
        print_json({**msgspec.to_builtins(done), "good_until": iso(done.good_until)})
        return
    print(f"key {done.kid} signs from now on")
    if done.previous is not None:
        print(f"key {done.previous} is good until {seconds(done.good_until)}")
    if done.dropped:
        print(f"gone, for their time was over: {', '.join(done.dropped)}")


def _as_data(key: KeyInfo) -> dict[str, Any]:
    return {
        "kid": key.kid,
        "current": key.current,
        "created_at": iso(key.created_at),
        "expires_at": iso(key.expires_at),
    }
