"""``holdfast db keys``: list and rotate the keys that sign tokens, whose secrets are never shown;
print a new key that encrypts values."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import click

from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_json, print_table
from holdfast.cli.paging import items_after, paged, print_page
from holdfast.cli.params import DURATION
from holdfast.core.envelope import KEY_ID
from holdfast.payloads.codecs import generate_key
from holdfast.service.keys import DEFAULT_GRACE
from holdfast.views.keys import KeyView
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
@paged(limit=100, after="k1")
@printing
@click.pass_context
def keys(ctx: click.Context, limit: int, after: str | None) -> None:
    """List the keys that sign tokens, without their secrets; `db keys rotate` creates a new one.
    `db keys generate` prints a new key of another kind, which encrypts values."""
    command_context().concerns_all("keys")
    if ctx.invoked_subcommand is not None:
        return
    with command_context().opened() as database:
        listed = items_after(database.engine.keys.list(), after, _id, limit)
    print_page(listed, limit, _id, _print_keys)


def _id(key: KeyView) -> str:
    return key.kid


def _print_keys(signing_keys: Sequence[KeyView]) -> None:
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


GENERATE = """\b
Examples:
  export HOLDFAST_KEYS=$(holdfast db keys generate --id k1)
  export HOLDFAST_KEYS=$(holdfast db keys generate --id k2),$HOLDFAST_KEYS && holdfast db rekey"""


@keys.command(short_help="Print a new encryption key.", epilog=GENERATE)
@click.option(
    "--id",
    "key_id",
    metavar="ID",
    help="The id of the key; default: a random one. E.g. --id k2",
)
@printing
def generate(key_id: str | None) -> None:
    """Print a new key that encrypts values, as the environment variable HOLDFAST_KEYS takes it:
    ID=KEY. It is not stored anywhere: keep it, because values that it encrypts cannot be read
    without it."""
    key_id = key_id or f"k{os.urandom(4).hex()}"
    if not re.fullmatch(KEY_ID, key_id):
        raise click.UsageError(
            f"{key_id!r} is not a key id: use letters, digits, '.', '_' and '-', as in k2"
        )
    key = generate_key()
    if command_context().as_json:
        print_json({"id": key_id, "key": key})
    else:
        print(f"{key_id}={key}")


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
        rotation = database.engine.keys.rotate(grace=grace, by=command_context().person())
    if command_context().as_json:
        print_json(rotation)
        return
    print(f"key {rotation.kid} signs all tokens from now on")
    if rotation.previous is not None:
        print(f"key {rotation.previous} is valid until {seconds(rotation.good_until)}")
    if rotation.dropped:
        print(f"expired keys removed: {', '.join(rotation.dropped)}")
