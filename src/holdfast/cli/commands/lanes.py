"""``holdfast lanes``: the lanes, their limits, and how full they are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click
import msgspec

from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_json, print_table
from holdfast.cli.params import TagValue
from holdfast.core import rate_limits
from holdfast.core.claiming import rate_of, share_rate_of
from holdfast.core.sessions import Lane
from holdfast.service.why import at_work, look_at_workers
from holdfast.store.contract import Store

WEIGHT = TagValue("weight", "gold=3")

EPILOG = """\b
Examples:
  holdfast lanes
  holdfast lanes set mail --concurrency 5 --rate 10/s
  holdfast lanes set mail --pause
  holdfast lanes set llm --concurrency 20 --per-share 2 --rate-per-share 10/m --weight gold=3
  holdfast lanes set llm --drain"""

NONE = "none"


@click.group(
    short_help="List the lanes and set their limits.", epilog=EPILOG, invoke_without_command=True
)
@printing
@click.pass_context
def lanes(ctx: click.Context) -> None:
    """List the lanes with their limits; `lanes set` changes them."""
    command_context().concerns_all("lanes")
    if ctx.invoked_subcommand is None:
        with command_context().opened() as office:
            _print(office.store)


@lanes.command("set", epilog="Example: holdfast lanes set mail --concurrency 5 --rate 10/s")
@click.argument("name", metavar="NAME")
@click.option(
    "--concurrency",
    metavar="N",
    help="How many of its runs work at once, or 'none' for no limit. E.g. --concurrency 5",
)
@click.option(
    "--rate",
    "rate_text",
    metavar="N/TIME",
    help="How many begin per time, or 'none' for no limit. E.g. --rate 10/s",
)
@click.option(
    "--per-share",
    metavar="N",
    help="How many of one share work at once, or 'none' for no limit. E.g. --per-share 2",
)
@click.option(
    "--rate-per-share",
    metavar="N/TIME",
    help="How many of one share begin per time, or 'none'. E.g. --rate-per-share 10/m",
)
@click.option(
    "--weight",
    "weights",
    multiple=True,
    type=WEIGHT,
    help="What a share weighs against the others. E.g. --weight gold=3",
)
@click.option(
    "--pause/--unpause",
    "paused",
    default=None,
    help="Let none of its runs begin, or let them begin again.",
)
@click.option(
    "--drain/--open",
    "draining",
    default=None,
    help="Take no new runs and finish those there are, or take them again.",
)
@printing
def set_lane(
    name: str,
    concurrency: str | None,
    rate_text: str | None,
    per_share: str | None,
    rate_per_share: str | None,
    weights: tuple[tuple[str, str], ...],
    paused: bool | None,
    draining: bool | None,
) -> None:
    """Change the limits of a lane; what is not named stays as it is."""
    if not weights and all(
        one is None for one in (concurrency, rate_text, per_share, rate_per_share, paused, draining)
    ):
        raise click.UsageError(
            "nothing to set: use --concurrency, --rate, --per-share, --weight, --pause, --drain or"
            " the like"
        )
    with command_context().opened(create=True) as office:
        lane = next((lane for lane in office.store.lanes() if lane.name == name), Lane(name=name))
        office.engine.lane(
            name,
            concurrency=_number("--concurrency", concurrency, lane.concurrency),
            rate=_text(rate_text, _rate(rate_of(lane))),
            per_share=_number("--per-share", per_share, lane.per_share),
            rate_per_share=_text(rate_per_share, _rate(share_rate_of(lane))),
            weights=_weights(lane) | {share: _weight(text) for share, text in weights},
            paused=lane.paused if paused is None else paused,
            draining=lane.draining if draining is None else draining,
        )
        _print(office.store, name)


def _number(option: str, text: str | None, now: int | None) -> int | None:
    if text is None or text == NONE:
        return now if text is None else None
    if not text.isascii() or not text.isdigit():
        raise click.BadParameter(f"{text!r} is no number of runs", param_hint=f"'{option}'")
    return int(text)


def _text(text: str | None, now: str | None) -> str | None:
    return now if text is None else None if text == NONE else text


def _weights(lane: Lane) -> dict[str, float]:
    return msgspec.json.decode(lane.weights, type=dict[str, float]) if lane.weights else {}


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no number", param_hint="'--weight'") from None


def _rate(limits: rate_limits.RateLimit | None) -> str | None:
    return None if limits is None else rate_limits.show(limits)


def _print(store: Store, only: str | None = None) -> None:
    busy = Counter(
        run.lane for runs in at_work(store, look_at_workers(store)).values() for run in runs
    )
    set_up = {lane.name: lane for lane in store.lanes()}
    names = sorted({*set_up, *(route.lane for route in store.routes().values())})
    found = [
        _as_data(set_up.get(name, Lane(name=name)), busy[name])
        for name in names
        if only in (None, name)
    ]
    if command_context().as_json:
        print_json(found if only is None else found[0])
        return
    rows = [
        (
            lane["name"],
            str(lane["running"]),
            _or_dash(lane["concurrency"]),
            _or_dash(lane["rate"]),
            _or_dash(lane["per_share"]),
            _or_dash(lane["rate_per_share"]),
            lane["state"],
        )
        for lane in found
    ]
    print_table(
        ("LANE", "RUNNING", "CONCURRENCY", "RATE", "PER SHARE", "RATE PER SHARE", "STATE"), rows
    )


def _as_data(lane: Lane, running: int) -> dict[str, Any]:
    return {
        "name": lane.name,
        "concurrency": lane.concurrency,
        "rate": _rate(rate_of(lane)),
        "per_share": lane.per_share,
        "rate_per_share": _rate(share_rate_of(lane)),
        "weights": _weights(lane),
        "paused": lane.paused,
        "draining": lane.draining,
        "state": "paused" if lane.paused else "draining" if lane.draining else "open",
        "running": running,
    }


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)
