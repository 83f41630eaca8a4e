"""``holdfast db keys``: list and rotate the keys that sign tokens. Secrets are never shown."""

from __future__ import annotations

import click

from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_json, print_table
from holdfast.cli.params import DURATION
from holdfast.service.keys import DEFAULT_GRACE
from holdfast.views.text import seconds

EPILOG = """\b
Examples:
  holdfast db keys
  holdfast db keys rotate --grace 7d
  holdfast db keys rotate --grace 0s    after a leak: all existing tokens become invalid"""


@click.group(
    short_help="List and rotate the keys that sign tokens.",
    epilog=EPILOG,
    invoke_without_command=True,
)
@printing
@click.pass_context
def keys(ctx: click.Context) -> None:
    """List the keys that sign tokens, without their secrets; `db keys rotate` creates a new one."""
    command_context().concerns_all("keys")
    if ctx.invoked_subcommand is not None:
        return
    with command_context().opened() as database:
        signing_keys = database.engine.keys.list()
    if command_context().as_json:
        print_json(signing_keys)
        return
    rows = [
        (
            key.kid,
            "current" if key.current else "in grace",
            seconds(key.created_at),
            seconds(key.expires_at),
        )
        for key in signing_keys
    ]
    print_table(("KEY", "STATE", "CREATED", "VALID UNTIL"), rows)


@keys.command(epilog="Example: holdfast db keys rotate --grace 7d")
@click.option(
    "--grace",
    metavar="TIME",
    type=DURATION,
    default=DEFAULT_GRACE,
    show_default=True,
    help="How long tokens of the previous key stay valid. E.g. --grace 7d",
)
@printing
def rotate(grace: str) -> None:
    """Create a new key that signs all tokens from now on."""
    with command_context().opened(create=True) as database:
        rotation = database.engine.keys.rotate(grace=grace)
    if command_context().as_json:
        print_json(rotation)
        return
    print(f"key {rotation.kid} signs all tokens from now on")
    if rotation.previous is not None:
        print(f"key {rotation.previous} is valid until {seconds(rotation.good_until)}")
    if rotation.dropped:
        print(f"expired keys removed: {', '.join(rotation.dropped)}")
