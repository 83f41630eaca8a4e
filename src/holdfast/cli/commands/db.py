"""``holdfast db``: look after the database itself."""

from __future__ import annotations

import click

from holdfast.cli.commands.copy import copy
from holdfast.cli.commands.rekey import rekey
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
from holdfast.store.contract import ENCRYPTION


@click.group(
    short_help="Check, describe, copy, unseal or rekey the database.",
    epilog="Example: holdfast db check",
    invoke_without_command=True,
)
@click.pass_context
def db(ctx: click.Context) -> None:
    """Look after the database: `db check`, `db info`, `db copy`, `db unseal`, `db rekey`."""
    need_command(ctx)
    command_context().concerns_all("db")


@db.command(epilog="Example: holdfast --db orders.db db check")
@printing
def check() -> None:
    """Check the file, every row of every table, every law that the data must keep, and every value
    that is kept apart; exit 1 when something is wrong.

    It also says which keys data is encrypted with. What is under a key that is not known here is
    not looked into."""
    with command_context().opened() as office:
        with measuring("laws") as progress:
            broken = office.engine._parts.check(progress)
        with counting("{} payloads opened") as progress_payloads:
            payloads = office.engine.check_payloads(progress_payloads)
        broken += payloads.damaged
        keys = office.store.keys_in_use()
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
                known = office.sealer.cipher is not None and office.sealer.cipher.knows(key)
                print(f"key {key}: {count} values{'' if known else ', not known here'}")
        if broken:
            raise click.exceptions.Exit(1)


@db.command(epilog="Example: holdfast db info --json")
@printing
def info() -> None:
    """Say what is known about the database: driver, version, size, settings, how many runs."""
    with command_context().opened() as office:
        facts = {**office.store.facts(), **_about_payloads(office), **_about_seal(office)}
        counts = office.store.counts()
        if command_context().as_json:
            print_json({**facts, "url": without_secret(office.store.url), "runs": counts})
            return
        print_fields([(name, str(value)) for name, value in facts.items()])
        print_fields(
            [("runs", ", ".join(f"{count} {status}" for status, count in counts.items()) or "none")]
        )


def _about_seal(office: OpenDatabase) -> dict[str, object]:
    seal = office.store.seal()
    return (
        {}
        if seal is None
        else {"sealed": f"its runs continue in {seal.moved_to or seal.copied_from}"}
    )


def _about_payloads(office: OpenDatabase) -> dict[str, object]:
    totals, encrypted = office.store.payload_totals(), office.store.setting(ENCRYPTION) is not None
    return {
        "payloads": totals["payloads"],
        "payload_bytes": totals["stored"],
        **({"encrypted": True} if encrypted else {}),
    }


db.add_command(copy)
db.add_command(unseal)
db.add_command(rekey)
