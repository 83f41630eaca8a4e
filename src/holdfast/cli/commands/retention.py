"""``holdfast retention``: list, set, preview and apply the rules that delete finished runs."""

from __future__ import annotations

import re
import sys
from typing import Any

import click

from holdfast.cli.context import OpenDatabase, command_context, printing
from holdfast.cli.output import print_json, print_table
from holdfast.cli.params import ListValue
from holdfast.cli.progress import counting
from holdfast.core import duration
from holdfast.core.retention import RetentionRule
from holdfast.core.status import Status

EPILOG = """\b
Examples:
  holdfast retention set old --older-than 30d
  holdfast retention set mails --workflow send_mail --status completed --keep-last 1000
  holdfast retention set room --max-size 2GB
  holdfast retention set thin --what events --older-than 7d
  holdfast retention preview"""

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)


class SizeValue(click.ParamType["int"]):
    """A number of bytes such as 500MB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = _SIZE.fullmatch(str(value).strip())
        if match is None or match[2].lower() not in _UNITS or float(match[1]) <= 0:
            self.fail(f"{value!r} is not a size such as 500MB or 2GB", param, ctx)
        return int(float(match[1]) * _UNITS[match[2].lower()])


@click.group(
    short_help="List and set the rules that delete finished runs.",
    epilog=EPILOG,
    invoke_without_command=True,
)
@printing
@click.pass_context
def retention(ctx: click.Context) -> None:
    """List the retention rules. One worker of the installation applies them in small batches. A
    tree of runs with a live run is never deleted."""
    command_context().concerns_all("retention")
    if ctx.invoked_subcommand is None:
        with command_context().opened() as database:
            _print(database.store.retention.rules())


@retention.command(
    "set",
    epilog=(
        "Example: holdfast retention set old --workflow checkout --older-than 30d --keep-last 100"
    ),
)
@click.argument("name", metavar="NAME")
@click.option(
    "--what",
    metavar="WHAT",
    default="runs",
    help="What is deleted: runs, or only their events or frames; default: runs. E.g. --what events",
)
@click.option(
    "--workflow",
    metavar="NAME",
    help="Only runs of this workflow; default: all. E.g. --workflow checkout",
)
@click.option(
    "--status",
    metavar="A,B",
    type=ListValue(Status),
    help="Only runs with these final statuses. E.g. --status completed,cancelled",
)
@click.option(
    "--older-than",
    metavar="TIME",
    help="Delete runs that ended longer ago than this. E.g. --older-than 30d",
)
@click.option(
    "--keep-last",
    metavar="N",
    type=int,
    help="Keep the newest N runs of each workflow. E.g. --keep-last 1000",
)
@click.option(
    "--max-size",
    metavar="SIZE",
    type=SizeValue(),
    help="Delete the oldest runs until the data is no larger than this. E.g. --max-size 2GB",
)
@printing
def set_rule(
    name: str,
    what: str,
    workflow: str | None,
    status: list[str] | None,
    older_than: str | None,
    keep_last: int | None,
    max_size: int | None,
) -> None:
    """Create the rule NAME, or replace it."""
    with command_context().opened(create=True) as database:
        database.engine.retention(
            name,
            what=what,
            workflow=workflow,
            status=status or (),
            older_than=older_than,
            keep_last=keep_last,
            max_bytes=max_size,
        )
        _print([rule for rule in database.store.retention.rules() if rule.name == name])


@retention.command("remove", epilog="Example: holdfast retention remove old")
@click.argument("name", metavar="NAME")
@printing
def remove(name: str) -> None:
    """Remove the rule NAME. Data that it has deleted does not come back."""
    with command_context().opened() as database:
        database.engine.remove_retention(name)
        if command_context().as_json:
            print_json({"removed": name})
        else:
            print(f"rule {name} removed")


@retention.command("preview", epilog="Example: holdfast retention preview --json")
@printing
def preview() -> None:
    """Show how much each rule would delete now; nothing is deleted."""
    with command_context().opened() as database:
        previews = database.engine.preview_retention()
        if command_context().as_json:
            print_json(previews)
            return
        rows = [
            (preview.name, preview.what, str(preview.trees), str(preview.runs), size(preview.bytes))
            for preview in previews
        ]
        print_table(("RULE", "WHAT", "TREES", "RUNS", "SIZE"), rows)


@retention.command("run", epilog="Example: holdfast retention run --yes")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@printing
def run(yes: bool) -> None:
    """Apply the rules now, in this process, without waiting for a worker."""
    with command_context().opened() as database:
        if not yes:
            _confirm(database)
        with counting("{} runs deleted or trimmed") as progress:
            deleted = database.engine.retain(progress)
        if command_context().as_json:
            print_json({"runs": deleted})
        else:
            print(f"{deleted} {'run' if deleted == 1 else 'runs'} deleted or trimmed")


def _confirm(database: OpenDatabase) -> None:
    """Ask for confirmation. Raises ClickException if the answer is no, UsageError without a
    terminal."""

    if not sys.stdin.isatty():
        raise click.UsageError(
            "stdin is not a terminal, so you cannot be asked for confirmation: use --yes, or"
            " `holdfast retention preview` for a preview"
        )
    runs = sum(preview.runs for preview in database.engine.preview_retention())
    if not click.confirm(f"Delete or trim {runs} runs?", err=True):
        raise click.ClickException("nothing was deleted")


def _print(rules: list[RetentionRule]) -> None:
    if command_context().as_json:
        print_json([_as_data(rule) for rule in rules])
        return
    rows = [
        (
            rule.name,
            rule.what,
            rule.workflow or "all",
            ", ".join(rule.statuses) or "all finished",
            "-" if rule.older_than is None else duration.show(rule.older_than),
            "-" if rule.keep_last is None else str(rule.keep_last),
            "-" if rule.max_bytes is None else size(rule.max_bytes),
        )
        for rule in rules
    ]
    print_table(("RULE", "WHAT", "WORKFLOW", "STATUS", "OLDER THAN", "KEEP LAST", "MAX SIZE"), rows)


def _as_data(rule: RetentionRule) -> dict[str, Any]:
    return {
        "name": rule.name,
        "what": rule.what,
        "workflow": rule.workflow,
        "status": list(rule.statuses),
        "older_than": None if rule.older_than is None else duration.show(rule.older_than),
        "keep_last": rule.keep_last,
        "max_bytes": rule.max_bytes,
    }


def size(count: int) -> str:
    """Format a number of bytes for people."""
    amount = float(count)
    unit = "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
