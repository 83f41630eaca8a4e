"""``holdfast db``: check and describe the database; the group of all commands that maintain it."""

from __future__ import annotations

import click

from holdfast.cli.commands.backup import backup
from holdfast.cli.commands.copy import copy
from holdfast.cli.commands.export import export
from holdfast.cli.commands.keys import keys
from holdfast.cli.commands.prune import prune
from holdfast.cli.commands.rekey import rekey
from holdfast.cli.commands.retention import retention
from holdfast.cli.commands.unseal import unseal
from holdfast.cli.context import (
    command_context,
    need_command,
    printing,
    without_secret,
)
from holdfast.cli.output import print_fields, print_json
from holdfast.cli.progress import counting, measuring

OF_RUNS = ("export", "prune")
"""The commands that concern runs, and not the whole installation."""


@click.group(
    short_help="Check, back up, copy, prune and export the database; rules and keys.",
    epilog="Example: holdfast db check",
    invoke_without_command=True,
)
@click.pass_context
def db(ctx: click.Context) -> None:
    """Maintain the database: check, describe, back up, copy and encrypt it, export and delete runs,
    and manage the keys of tokens."""
    need_command(ctx)
    if ctx.invoked_subcommand not in OF_RUNS:
        command_context().concerns_all("db")


@db.command(epilog="Example: holdfast --db orders.db db check")
@printing
def check() -> None:
    """Check the file, every row of every table, every law that the data must satisfy, every payload
    that is stored outside its row, and the tokens of waiting models, by a replay. The exit code is
    1 if a check fails.

    The command also lists the keys that values are encrypted with. Values under an unknown key are
    not checked."""
    with command_context().opened() as database:
        with measuring("laws") as progress:
            broken = database.check(progress)
        with counting("{} payloads opened") as progress_payloads:
            payloads = database.engine.database.check_payloads(progress_payloads)
        broken += payloads.damaged
        keys = database.keys_in_use()
        if command_context().as_json:
            print_json(
                {
                    "ok": not broken,
                    "broken": broken,
                    "payloads": payloads.payloads,
                    "keys": keys,
                    "unreadable": payloads.unreadable,
                }
            )
        else:
            print("\n".join(broken) or "the database is sound: every law holds")
            for key, count in keys.items():
                known = "" if database.knows_key(key) else ", key unknown"
                print(f"key {key}: {count} values{known}")
        if broken:
            raise click.exceptions.Exit(1)


@db.command(epilog="Example: holdfast db info --json")
@printing
def info() -> None:
    """Show facts about the database: driver, version, size, settings and number of runs."""
    with command_context().opened() as database:
        facts = database.info()
        counts = database.counts()
        if command_context().as_json:
            print_json({**facts, "url": without_secret(command_context().url), "runs": counts})
            return
        print_fields([(name, str(value)) for name, value in facts.items()])
        print_fields(
            [("runs", ", ".join(f"{count} {status}" for status, count in counts.items()) or "none")]
        )


for command in (backup, copy, unseal, rekey, export, prune, retention, keys):
    db.add_command(command)
