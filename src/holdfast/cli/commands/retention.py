"""``holdfast retention``: the rules by which finished runs are deleted."""

from __future__ import annotations

import re
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
    """A number of bytes, like 500MB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = _SIZE.fullmatch(str(value).strip())
        if found is None or found[2].lower() not in _UNITS or float(found[1]) <= 0:
            self.fail(f"{value!r} is no size: say 500MB or 2GB", param, ctx)
        return int(float(found[1]) * _UNITS[found[2].lower()])


@click.group(
    short_help="List and set the rules by which finished runs are deleted.",
    epilog=EPILOG,
    invoke_without_command=True,
)
@printing
@click.pass_context
def retention(ctx: click.Context) -> None:
    """List the retention rules. Workers follow them: a little at a time, one worker for all, never
    a tree that lives."""
    command_context().concerns_all("retention")
    if ctx.invoked_subcommand is None:
        with command_context().opened() as office:
            _print(office.store.retentions())


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
    help="What goes: runs, or only their events or frames; default: runs. E.g. --what events",
)
@click.option(
    "--workflow",
    metavar="NAME",
    help="Only runs of that workflow; default: all. E.g. --workflow checkout",
)
@click.option(
    "--status",
    metavar="A,B",
    type=ListValue(Status),
    help="Only those that ended so. E.g. --status completed,cancelled",
)
@click.option(
    "--older-than", metavar="TIME", help="What ended longer ago goes. E.g. --older-than 30d"
)
@click.option(
    "--keep-last",
    metavar="N",
    type=int,
    help="The newest N of each workflow stay. E.g. --keep-last 1000",
)
@click.option(
    "--max-size",
    metavar="SIZE",
    type=SizeValue(),
    help="The oldest go until all data takes no more. E.g. --max-size 2GB",
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
    """Make the rule NAME, in place of one of that name."""
    with command_context().opened(create=True) as office:
        office.engine.retention(
            name,
            what=what,
            workflow=workflow,
            status=status or (),
            older_than=older_than,
            keep_last=keep_last,
            max_bytes=max_size,
        )
        _print([rule for rule in office.store.retentions() if rule.name == name])


@retention.command("remove", epilog="Example: holdfast retention remove old")
@click.argument("name", metavar="NAME")
@printing
def remove(name: str) -> None:
    """Remove the rule NAME; nothing more is deleted by it."""
    with command_context().opened() as office:
        office.engine.remove_retention(name)
        if command_context().as_json:
            print_json({"removed": name})
        else:
            print(f"rule {name} removed")


@retention.command("preview", epilog="Example: holdfast retention preview --json")
@printing
def preview() -> None:
    """Say how much each rule would delete now; nothing is deleted."""
    with command_context().opened() as office:
        found = office.engine.preview_retention()
        if command_context().as_json:
            print_json(found)
            return
        rows = [
            (one.name, one.what, str(one.trees), str(one.runs), size(one.bytes)) for one in found
        ]
        print_table(("RULE", "WHAT", "TREES", "RUNS", "SIZE"), rows)


@retention.command("run", epilog="Example: holdfast retention run --yes")
@click.option("--yes", is_flag=True, help="Do not ask.")
@printing
def run(yes: bool) -> None:
    """Delete now, here, what the rules say, without waiting for a worker."""
    with command_context().opened() as office:
        if not yes:
            _ask(office)
        with counting("{} runs deleted or trimmed") as progress:
            gone = office.engine.retain(progress)
        if command_context().as_json:
            print_json({"runs": gone})
        else:
            print(f"{gone} {'run' if gone == 1 else 'runs'} deleted or trimmed")


def _ask(office: OpenDatabase) -> None:
    import sys

    if not sys.stdin.isatty():
        raise click.UsageError(
            "nobody can be asked here: say --yes, or look at `holdfast retention preview` first"
        )
    doomed = sum(one.runs for one in office.engine.preview_retention())
    if not click.confirm(f"Delete or trim {doomed} runs?", err=True):
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
    """Write a number of bytes for people."""
    amount, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
