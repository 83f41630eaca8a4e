"""``holdfast lanes``: list lanes with their limits and running runs, and change the limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from holdfast.cli.context import command_context, confirm, deleting, printing
from holdfast.cli.output import print_json, print_table
from holdfast.cli.paging import paged, print_page
from holdfast.cli.params import SeveralValues, TagValue, many
from holdfast.core.unset import UNSET
from holdfast.views.lanes import LaneView

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
    short_help="List lanes and set their limits.", epilog=EPILOG, invoke_without_command=True
)
@paged(limit=50, after="mail")
@printing
@click.pass_context
def lanes(ctx: click.Context, after: str | None, limit: int) -> None:
    """List the lanes with their limits; `lanes set` changes them."""
    command_context().concerns_all("lanes")
    if ctx.invoked_subcommand is None:
        with command_context().opened() as database:
            listed = database.engine.lanes.list(after=after, limit=limit + 1)
        print_page(listed, limit, lambda lane: lane.name, _print)


@lanes.command("set", epilog="Example: holdfast lanes set mail --concurrency 5 --rate 10/s")
@click.argument("name", metavar="NAME")
@click.option(
    "--concurrency",
    metavar="N",
    help="The maximum number of running runs, or 'none' for no limit. E.g. --concurrency 5",
)
@click.option(
    "--rate",
    "rate_text",
    metavar="N/TIME",
    help="The maximum rate of starting runs, or 'none' for no limit. E.g. --rate 10/s",
)
@click.option(
    "--per-share",
    metavar="N",
    help="The maximum number of running runs of one share, or 'none'. E.g. --per-share 2",
)
@click.option(
    "--rate-per-share",
    metavar="N/TIME",
    help="The maximum rate of starting runs of one share, or 'none'. E.g. --rate-per-share 10/m",
)
@many(
    "--weight",
    "weights",
    metavar="SHARE=N",
    type=SeveralValues(WEIGHT),
    help="The weight of a share, or 'none' for 1, the default. E.g. --weight gold=3",
)
@click.option(
    "--pause/--unpause",
    "paused",
    default=None,
    help="Stop starting runs of the lane, or start them again.",
)
@click.option(
    "--drain/--open",
    "draining",
    default=None,
    help="Refuse new runs and finish the existing ones, or accept new runs again.",
)
@printing
def set_lane(
    name: str,
    concurrency: str | None,
    rate_text: str | None,
    per_share: str | None,
    rate_per_share: str | None,
    weights: list[tuple[str, str]],
    paused: bool | None,
    draining: bool | None,
) -> None:
    """Change the limits of a lane; settings that are not named keep their value."""
    if not weights and all(
        option is None
        for option in (concurrency, rate_text, per_share, rate_per_share, paused, draining)
    ):
        raise click.UsageError(
            "nothing to set: use an option such as --concurrency, --rate, --per-share, --weight,"
            " --pause or --drain"
        )
    with command_context().opened(create=True) as database:
        new_weights = {share: _weight(text) for share, text in weights}
        database.engine.lanes.set(
            name,
            by=command_context().person(),
            concurrency=_number("--concurrency", concurrency),
            rate=_text(rate_text),
            per_share=_number("--per-share", per_share),
            rate_per_share=_text(rate_per_share),
            weights=new_weights or UNSET,
            paused=UNSET if paused is None else paused,
            draining=UNSET if draining is None else draining,
        )
        _print_one(database.engine.lanes.get(name))


@lanes.command("remove", epilog="Example: holdfast lanes remove mail --yes")
@click.argument("name", metavar="NAME")
@click.option(
    "--force",
    is_flag=True,
    help="Remove the settings although runs of the lane have not ended; they have no limits then.",
)
@deleting
@printing
def remove_lane(name: str, force: bool, yes: bool) -> None:
    """Remove the settings of the lane NAME, so that it has no limits."""
    with command_context().opened() as database:
        confirm(f"Remove the settings of the lane {name}?", yes=yes)
        database.engine.lanes.remove(name, force=force, by=command_context().person())
    if command_context().as_json:
        print_json({"removed": name})
    else:
        print(f"lane {name} removed")


def _number(option: str, text: str | None) -> Any:
    """Return the new limit: UNSET without *text*, None for 'none'. Raises BadParameter."""
    if text is None:
        return UNSET
    if text == NONE:
        return None
    if not text.isascii() or not text.isdigit():
        raise click.BadParameter(
            f"{text!r} is neither a number nor 'none'", param_hint=f"'{option}'"
        )
    return int(text)


def _text(text: str | None) -> Any:
    """Return the new setting: UNSET without *text*, None for 'none'."""
    if text is None:
        return UNSET
    return None if text == NONE else text


def _weight(text: str) -> float | None:
    if text == NONE:
        return None
    try:
        return float(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a number", param_hint="'--weight'") from None


def _print_one(lane: LaneView) -> None:
    if command_context().as_json:
        print_json(lane)
    else:
        _print([lane])


def _print(listed: Sequence[LaneView]) -> None:
    rows = [
        (
            lane.name,
            str(lane.running),
            _or_dash(lane.concurrency),
            _or_dash(lane.rate),
            _or_dash(lane.per_share),
            _or_dash(lane.rate_per_share),
            lane.state,
        )
        for lane in listed
    ]
    print_table(
        ("LANE", "RUNNING", "CONCURRENCY", "RATE", "PER SHARE", "RATE PER SHARE", "STATE"), rows
    )


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)
