"""``holdfast why``: explain what blocks a run, and print the command that unblocks it."""

from __future__ import annotations

from datetime import datetime
from itertools import groupby

import click

from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_json
from holdfast.views.text import until
from holdfast.views.why import BlockerView, WhyView

EPILOG = """\b
Examples:
  holdfast why last
  holdfast why 01m7ge8gkb --json"""


@click.command(short_help="Explain what blocks a run.", epilog=EPILOG)
@click.argument("run", metavar="RUN")
@printing
def why(run: str) -> None:
    """Explain the status of a run or a managed flow: the exact blocker, its holder, since when, and
    the command that unblocks it."""
    with command_context().opened() as database:
        print_why(database.why(run), database.now)


def print_why(explanation: WhyView, now: datetime) -> None:
    """Print an explanation, for people or as JSON."""
    if command_context().as_json:
        print_json(explanation)
    else:
        _print(explanation, now)


def _print(explanation: WhyView, now: datetime) -> None:
    since = ""
    if explanation.since is not None:
        since = f", since {until(explanation.since, now)}"
    print(f"{explanation.workflow} {explanation.run} is {explanation.status}{since}")
    blockers = explanation.blockers
    if blockers and blockers[0].text != explanation.reason:
        print(f"  {explanation.reason}")
    for _, alike in groupby(blockers, key=lambda blocker: (blocker.text, blocker.remedy)):
        _print_blocker(*alike)


def _print_blocker(blocker: BlockerView, *alike: BlockerView) -> None:
    """Print a blocker once, with the number of others that read the same."""
    times = f" ({1 + len(alike)} times)" if alike else ""
    print(f"  {blocker.text}{times}")
    if blocker.remedy is not None:
        print(f"    $ {command_context().command(blocker.remedy)}")
