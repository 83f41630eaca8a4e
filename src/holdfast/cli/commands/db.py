"""``holdfast db``: check and describe the database; the group of all commands that maintain it."""

from __future__ import annotations

import click

from holdfast.cli.commands.copy import copy
from holdfast.cli.commands.export import export
from holdfast.cli.commands.keys import keys
from holdfast.cli.commands.prune import prune
from holdfast.cli.commands.rekey import rekey
from holdfast.cli.commands.retention import retention
from holdfast.cli.commands.unseal import unseal
from holdfast.cli.context import (
    OpenDatabase,
    command_context,
    need_command,
    printing,
    without_secret,
)
from holdfast.cli.output import print_fields, print_json
from holdfast.cli.progress import counting, measuring
from holdfast.store.payloads.operations import ENCRYPTION

OF_RUNS = ("export", "prune")
"""The commands that concern runs, and not the whole installation."""


@click.group(
    short_help="Check, copy, prune and export the database; rules and keys.",
    epilog="Example: holdfast db check",
    invoke_without_command=True,
)
@click.pass_context
def db(ctx: click.Context) -> None:
    """Maintain the database: check, describe, copy and encrypt it, export and delete runs, and
    manage the keys of tokens."""
    need_command(ctx)
    if ctx.invoked_subcommand not in OF_RUNS:
        command_context().concerns_all("db")


@db.command(epilog="Example: holdfast --db orders.db db check")
@printing
def check() -> None:
    """Check the file, every row of every table, every law that the data must satisfy, and every
    payload that is stored outside its row. The exit code is 1 if a check fails.

    The command also lists the keys that values are encrypted with. Values under an unknown key are
    not checked."""
    with command_context().opened() as database:
        with measuring("laws") as progress:
            broken = database.engine._parts.check(progress)
        with counting("{} payloads opened") as progress_payloads:
            payloads = database.engine.check_payloads(progress_payloads)
        broken += payloads.damaged
        keys = database.store.payloads.keys_in_use()
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
                known = database.sealer.cipher is not None and database.sealer.cipher.knows(key)
                print(f"key {key}: {count} values{'' if known else ', key unknown'}")
        if broken:
            raise click.exceptions.Exit(1)


@db.command(epilog="Example: holdfast db info --json")
@printing
def info() -> None:
    """Show facts about the database: driver, version, size, settings and number of runs."""
    with command_context().opened() as database:
        facts = {**database.store.info(), **_payload_facts(database), **_seal_facts(database)}
        counts = database.store.runs.counts()
        if command_context().as_json:
            print_json({**facts, "url": without_secret(database.store.url), "runs": counts})
            return
        print_fields([(name, str(value)) for name, value in facts.items()])
        print_fields(
            [("runs", ", ".join(f"{count} {status}" for status, count in counts.items()) or "none")]
        )


def _seal_facts(database: OpenDatabase) -> dict[str, object]:
    seal = database.store.installation.seal()
    if seal is None:
        return {}
    return {"sealed": f"its runs continue in {seal.moved_to or seal.copied_from}"}


def _payload_facts(database: OpenDatabase) -> dict[str, object]:
    totals = database.store.payloads.totals()
    facts: dict[str, object] = {
        "payloads": totals["payloads"],
        "payload_bytes": totals["stored"],
    }
    if database.store.installation.setting(ENCRYPTION) is not None:
        facts["encrypted"] = True
    return facts


for command in (copy, unseal, rekey, export, prune, retention, keys):
    db.add_command(command)
