"""``holdfast lanes``: the lanes, their limits, and how full they are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from holdfast.cli.desk import Office, desk, printing
from holdfast.cli.output import print_json, print_table
from holdfast.core import rate
from holdfast.core.claims import rate_of
from holdfast.core.records import Lane
from holdfast.engine.why import at_work, look_at_workers
from holdfast.store.contract import Store

EPILOG = """\b
Examples:
  holdfast lanes
  holdfast lanes set mail --concurrency 5 --rate 10/s
  holdfast lanes set mail --pause"""

NONE = "none"


@click.group(short_help="List the lanes and set their limits.", epilog=EPILOG, invoke_without_command=True)
@printing
@click.pass_context
def lanes(ctx: click.Context) -> None:
    """List the lanes with their limits; `lanes set` changes them."""
    if ctx.invoked_subcommand is None:
        with desk().opened() as office:
            _print(office.store)


@lanes.command("set", epilog="Example: holdfast lanes set mail --concurrency 5 --rate 10/s")
@click.argument("name", metavar="NAME")
@click.option(
    "--concurrency", metavar="N", help="How many of its runs work at once, or 'none' for no limit. E.g. --concurrency 5"
)
@click.option("--rate", "rate_text", metavar="N/TIME", help="How many begin per time, or 'none' for no limit. E.g. --rate 10/s")
@click.option("--pause/--unpause", "paused", default=None, help="Let none of its runs begin, or let them begin again.")
@printing
def set_lane(name: str, concurrency: str | None, rate_text: str | None, paused: bool | None) -> None:
    """Change the limits of a lane; what is not named stays as it is."""
    if concurrency is None and rate_text is None and paused is None:
        raise click.UsageError("nothing to set: use --concurrency, --rate, --pause or --unpause")
    with desk().opened() as office:
        _change(office, name, _concurrency(concurrency), rate_text, paused)
        _print(office.store, name)


def _concurrency(text: str | None) -> int | str | None:
    if text is None or text == NONE:
        return text
    if not text.isascii() or not text.isdigit():
        raise click.BadParameter(f"{text!r} is no number of runs", param_hint="'--concurrency'")
    return int(text)


def _change(office: Office, name: str, concurrency: int | str | None, rate_text: str | None, paused: bool | None) -> None:
    lane = next((lane for lane in office.store.lanes() if lane.name == name), Lane(name=name))
    wanted = lane.concurrency if concurrency is None else concurrency
    limit = _rate(lane) if rate_text is None else rate_text
    office.engine.lane(
        name,
        concurrency=wanted if isinstance(wanted, int) else None,
        rate=None if limit in (None, NONE) else limit,
        paused=lane.paused if paused is None else paused,
    )


def _rate(lane: Lane) -> str | None:
    limits = rate_of(lane)
    return None if limits is None else rate.show(limits)


def _print(store: Store, only: str | None = None) -> None:
    busy = Counter(run.lane for runs in at_work(store, look_at_workers(store)).values() for run in runs)
    set_up = {lane.name: lane for lane in store.lanes()}
    names = sorted({*set_up, *(route.lane for route in store.routes().values())})
    found = [_as_data(set_up.get(name, Lane(name=name)), busy[name]) for name in names if only in (None, name)]
    if desk().as_json:
        print_json(found if only is None else found[0])
        return
    rows = [
        (
            lane["name"], str(lane["running"]), _or_dash(lane["concurrency"]), _or_dash(lane["rate"]),
            "paused" if lane["paused"] else "open",
        )
        for lane in found
    ]  # fmt: skip
    print_table(("LANE", "RUNNING", "CONCURRENCY", "RATE", "STATE"), rows)


def _as_data(lane: Lane, running: int) -> dict[str, Any]:
    return {
        "name": lane.name,
        "concurrency": lane.concurrency,
        "rate": _rate(lane),
        "paused": lane.paused,
        "running": running,
    }


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)
