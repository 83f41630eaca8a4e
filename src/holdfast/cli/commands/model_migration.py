"""``holdfast models migrate``: move runs to another version of their model."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from holdfast.cli.bulk import apply_to, is_single, selecting
from holdfast.cli.context import command_context, printing, user_name
from holdfast.cli.output import print_json
from holdfast.cli.params import PairsValue, many
from holdfast.connect.blocking.runs import RunQuery
from holdfast.connect.open_database import OpenDatabase
from holdfast.core.operations import BulkVerb
from holdfast.views.model_runs import MigrationView

MIGRATE = """\b
Examples:
  holdfast models migrate last --to 2 --map approve=review --dry-run
  holdfast models migrate --workflow order --version 1 --live --to 2"""


@click.command("migrate", epilog=MIGRATE)
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option("--to", metavar="VERSION", required=True, help="The version to move to. E.g. --to 2")
@many(
    "--map",
    "mapped",
    metavar="OLD=NEW",
    type=PairsValue("map", "approve=review"),
    help="Where an element or flow of the old version is in the new one; the others keep their ids."
    " E.g. --map approve=review",
)
@click.option("--reason", metavar="TEXT", help="The reason. E.g. --reason 'the form has changed'")
@selecting()
@printing
def migrate(
    runs: tuple[str, ...],
    to: str,
    mapped: list[tuple[str, str]],
    reason: str | None,
    dry_run: bool,
    yes: bool,
    by: str | None,
    **filters: Any,
) -> None:
    """Move a run to another version of its model, all of its tokens or none. Without RUN, move all
    runs that the options select; a run with a token that cannot move stays as it is. A worker
    applies it."""
    is_single(runs, dry_run=dry_run, filters=filters)
    mapping = dict(mapped)
    person = by or user_name()
    with command_context().opened() as database:
        if len(runs) == 1:
            run_id = database.find(runs[0]).id
            _migrate_one(database, run_id, to, mapping, person, reason, dry_run=dry_run)
            return
        call = partial(RunQuery.migrate, to=to, mapping=mapping, reason=reason)
        apply_to(
            database, BulkVerb.MIGRATE, call, runs, filters, dry_run=dry_run, yes=yes, by=person
        )


def _migrate_one(
    database: OpenDatabase,
    run_id: str,
    to: str,
    mapping: dict[str, str],
    by: str,
    reason: str | None,
    *,
    dry_run: bool,
) -> None:
    migration = database.engine.models.migrate(
        run_id, to, mapping, by=by, reason=reason, dry_run=dry_run
    )
    if command_context().as_json:
        print_json(migration)
    else:
        _print(migration, dry_run=dry_run)
    if migration.refused:
        click.get_current_context().exit(1)


def _print(migration: MigrationView, *, dry_run: bool) -> None:
    if migration.refused:
        print(f"run {migration.run_id} stays in its version:")
        for place, why in migration.refused.items():
            print(f"  {place}: {why}")
        for problem in migration.problems:
            print(f"  mapping: {problem}")
        return
    verb = "would move" if dry_run else "moved"
    tokens = ", ".join(migration.moved) or "no token"
    print(f"run {migration.run_id} {verb} to version {migration.version}: {tokens}")
