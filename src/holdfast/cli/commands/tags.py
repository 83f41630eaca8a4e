"""``holdfast tags``: show and change the tags of a run."""

from __future__ import annotations

from collections.abc import Sequence

import click

from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_fields, print_json
from holdfast.cli.params import TAGS, many

EPILOG = """\b
Examples:
  holdfast tags last
  holdfast tags last --set customer=7 --remove draft"""


@click.command(short_help="Show and change the tags of a run.", epilog=EPILOG)
@click.argument("run", metavar="RUN")
@many(
    "--set",
    "tags",
    metavar="NAME=VALUE",
    type=TAGS,
    help="Add these tags, or change their values. E.g. --set customer=7",
)
@many(
    "--remove",
    metavar="A,B",
    help="Remove these tags. E.g. --remove draft",
)
@printing
def tags(run: str, tags: Sequence[tuple[str, str]], remove: Sequence[str]) -> None:
    """Show the tags of a run; with --set or --remove, change them first. The run may have ended."""
    with command_context().opened() as database:
        run_view = database.find(run)
        current = run_view.tags
        changes: dict[str, str | None] = {**dict(tags), **dict.fromkeys(remove)}
        if changes:
            current = database.engine.run(run_view.id).set_tags(changes)
    if command_context().as_json:
        print_json({"run": run_view.id, "tags": current})
        return
    print_fields(sorted(current.items()) or [("tags", "none")])
