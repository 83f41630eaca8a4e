"""``holdfast why``: what holds a run up, and the command that unblocks it."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from holdfast.cli.context import OpenDatabase, command_context, printing
from holdfast.cli.output import iso, print_json
from holdfast.core.why.model import Blocker, Why, until
from holdfast.errors import FlowNotFound, RunNotFound
from holdfast.service.why import why as explain

EPILOG = """\b
Examples:
  holdfast why last
  holdfast why 01m7ge8gkb --json"""


@click.command(short_help="Say what holds a run up.", epilog=EPILOG)
@click.argument("run", metavar="RUN")
@printing
def why(run: str) -> None:
    """Say why a run, or a managed flow, stands where it stands: the exact blocker, who holds it,
    since when, and the command that unblocks it."""
    with command_context().opened() as office:
        print_why(_explained(office, run), office.store.now())


def _explained(office: OpenDatabase, name: str) -> Why:
    if office.store.member(name) is not None:
        return explain(office.store, name, only=command_context().namespace)
    try:
        run = office.find(name)
    except RunNotFound:
        try:
            return office.engine.flows.why(name)
        except FlowNotFound:
            pass
        raise
    return explain(office.store, run, only=command_context().namespace)


def print_why(found: Why, now: int) -> None:
    """Print an explanation, for people or as data."""
    if command_context().as_json:
        print_json(_as_data(found))
    else:
        _print(found, now)


def _as_data(found: Why) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(found)
    data["since"] = iso(found.since)
    for blocker in data["blockers"]:
        blocker["since"], blocker["until"] = iso(blocker["since"]), iso(blocker["until"])
    return data


def _print(found: Why, now: int) -> None:
    since = f" since {until(found.since, now)}" if found.since is not None else ""
    print(f"{found.workflow} {found.run} is {found.status}{since}")
    if found.blockers and found.blockers[0].text != found.reason:
        print(f"  {found.reason}")
    for blocker in found.blockers:
        _print_blocker(blocker)


def _print_blocker(blocker: Blocker) -> None:
    print(f"  {blocker.text}")
    if blocker.remedy is not None:
        print(f"    $ {command_context().command(blocker.remedy)}")
