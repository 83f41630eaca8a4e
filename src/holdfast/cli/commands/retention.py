"""``holdfast db retention``: list, set and apply the rules that delete finished runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click

from holdfast.cli.context import command_context, confirm, deleting, printing
from holdfast.cli.output import print_json, print_table
from holdfast.cli.paging import items_after, paged, print_page
from holdfast.cli.params import STATUSES, many
from holdfast.cli.progress import counting
from holdfast.views.retention import RetentionPreviewView, RetentionRuleView
from holdfast.views.text import brief, size

EPILOG = """\b
Examples:
  holdfast db retention set old --older-than 30d
  holdfast db retention set mails --workflow send_mail --status completed --keep-last 1000
  holdfast db retention set room --max-size 2GB
  holdfast db retention set thin --target events --older-than 7d
  holdfast db retention apply --dry-run"""

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
@paged(limit=100, after="old")
@printing
@click.pass_context
def retention(ctx: click.Context, limit: int, after: str | None) -> None:
    """List the retention rules. One worker of the installation applies them in small batches. A
    tree of runs with a live run is never deleted."""
    command_context().concerns_all("retention")
    if ctx.invoked_subcommand is None:
        with command_context().opened() as database:
            listed = items_after(database.engine.retention.list(), after, _name, limit)
        print_page(listed, limit, _name, _print)


@retention.command(
    "set",
    epilog=("Example: holdfast db retention set old --workflow checkout --older-than 30d"),
)
@click.argument("name", metavar="NAME")
@click.option(
    "--target",
    metavar="PART",
    help=(
        "The data that the rule deletes: runs (the default), events or frames. E.g. --target events"
    ),
)
@click.option(
    "--workflow",
    metavar="NAME",
    help="Only runs of this workflow; default: all. E.g. --workflow checkout",
)
@many(
    "--status",
    metavar="A,B",
    type=STATUSES,
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
def set_rule(name: str, status: list[str], max_size: int | None, **options: Any) -> None:
    """Create or change the rule NAME; settings that are not named keep their value."""
    named = {**options, "status": status or None, "max_bytes": max_size}
    settings = {option: value for option, value in named.items() if value is not None}
    with command_context().opened(create=True) as database:
        database.engine.retention.set(name, by=command_context().person(), **settings)
        rule = database.engine.retention.get(name)
    if command_context().as_json:
        print_json(rule)
    else:
        _print([rule])


@retention.command("remove", epilog="Example: holdfast db retention remove old --yes")
@click.argument("name", metavar="NAME")
@deleting
@printing
def remove(name: str, yes: bool) -> None:
    """Remove the rule NAME. Data that it has deleted does not come back."""
    with command_context().opened() as database:
        confirm(f"Remove the rule {name}?", yes=yes)
        database.engine.retention.remove(name, by=command_context().person())
        if command_context().as_json:
            print_json({"removed": name})
        else:
            print(f"rule {name} removed")


@retention.command("apply", epilog="Example: holdfast db retention apply --dry-run")
@click.option("--dry-run", is_flag=True, help="Only show how much each rule would delete now.")
@deleting
@printing
def apply(dry_run: bool, yes: bool) -> None:
    """Apply the rules now, in this process, without waiting for a worker."""
    with command_context().opened() as database:
        previews = database.engine.retention.preview() if dry_run or not yes else []
        if dry_run:
            _print_previews(previews)
            return
        runs = sum(preview.runs for preview in previews)
        confirm(f"Delete or trim {runs} runs?", yes=yes, preview="--dry-run")
        with counting("{} runs deleted or trimmed") as progress:
            deleted = database.engine.retention.apply(
                progress=progress, by=command_context().person()
            )
    if command_context().as_json:
        print_json({"runs": deleted})
    else:
        print(f"{deleted} {'run' if deleted == 1 else 'runs'} deleted or trimmed")


def _print_previews(previews: Sequence[RetentionPreviewView]) -> None:
    if command_context().as_json:
        print_json(previews)
        return
    rows = [
        (preview.name, preview.target, str(preview.trees), str(preview.runs), size(preview.bytes))
        for preview in previews
    ]
    print_table(("RULE", "TARGET", "TREES", "RUNS", "SIZE"), rows)


def _name(rule: RetentionRuleView) -> str:
    return rule.name


def _print(rules: Sequence[RetentionRuleView]) -> None:
    rows = [
        (
            rule.name,
            rule.target,
            rule.workflow or "all",
            ", ".join(rule.status) or "all finished",
            "-" if rule.older_than is None else brief(rule.older_than),
            "-" if rule.keep_last is None else str(rule.keep_last),
            "-" if rule.max_bytes is None else size(rule.max_bytes),
        )
        for rule in rules
    ]
    print_table(
        ("RULE", "TARGET", "WORKFLOW", "STATUS", "OLDER THAN", "KEEP LAST", "MAX SIZE"), rows
    )
