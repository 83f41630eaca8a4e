"""``holdfast audit``: list what operators did, and under which name."""

from __future__ import annotations

from collections.abc import Sequence

import click

from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_table
from holdfast.cli.paging import paged, print_page
from holdfast.views.audit import AuditEntryView
from holdfast.views.text import payload, seconds, short

EPILOG = """\b
Examples:
  holdfast audit
  holdfast audit --person ann --action run.cancel
  holdfast audit --subject order-7 --json"""


@click.command(short_help="List what operators did.", epilog=EPILOG)
@click.option("--person", metavar="NAME", help="Only actions of this name. E.g. --person ann")
@click.option(
    "--action", metavar="METHOD", help="Only actions of this kind. E.g. --action budgets.set"
)
@click.option(
    "--subject",
    metavar="TEXT",
    help="Only actions on this run, lane, budget ... E.g. --subject order-7",
)
@paged(limit=50)
@printing
def audit(
    person: str | None, action: str | None, subject: str | None, limit: int, after: str | None
) -> None:
    """List the audit log, newest first: actions of operators, with the person or the API key that
    asked for them. Entries are kept for 400 days."""
    with command_context().opened() as database:
        entries = database.engine.audit.list(
            person=person, action=action, subject=subject, before=after, limit=limit + 1
        )
    print_page(entries, limit, lambda entry: entry.id, _print)


def _print(entries: Sequence[AuditEntryView]) -> None:
    rows = [
        (
            seconds(entry.at),
            entry.by,
            entry.action,
            short(entry.subject),
            payload(entry.details) if entry.details else "",
        )
        for entry in entries
    ]
    print_table(("AT", "BY", "ACTION", "SUBJECT", "DETAILS"), rows)
