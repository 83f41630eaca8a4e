"""``holdfast db``: look after the database itself."""

from __future__ import annotations

import click

from holdfast.cli.copy import copy
from holdfast.cli.desk import desk, need_command, printing, without_secret
from holdfast.cli.output import print_fields, print_json


@click.group(short_help="Check, describe or copy the database.", epilog="Example: holdfast db check", invoke_without_command=True)
@click.pass_context
def db(ctx: click.Context) -> None:
    """Look after the database: `db check`, `db info`, `db copy`."""
    need_command(ctx)


@db.command(epilog="Example: holdfast --db orders.db db check")
@printing
def check() -> None:
    """Check the file and every law that the data must keep; exit 1 when one is broken."""
    with desk().opened() as office:
        broken = office.store.check()
        if desk().as_json:
            print_json({"ok": not broken, "broken": broken})
        else:
            print("\n".join(broken) or "the database is sound: every law holds")
        if broken:
            raise click.exceptions.Exit(1)


@db.command(epilog="Example: holdfast db info --json")
@printing
def info() -> None:
    """Say what is known about the database: driver, version, size, settings, how many runs."""
    with desk().opened() as office:
        facts, counts = office.store.facts(), office.store.counts()
        if desk().as_json:
            print_json({**facts, "url": without_secret(office.store.url), "runs": counts})
            return
        print_fields([(name, str(value)) for name, value in facts.items()])
        print_fields([("runs", ", ".join(f"{count} {status}" for status, count in counts.items()) or "none")])


db.add_command(copy)
