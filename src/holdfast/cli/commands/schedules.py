"""``holdfast schedules``: list, set, pause, trigger and backfill schedules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from holdfast.cli.context import command_context, confirm, deleting, printing, refuse_code
from holdfast.cli.loading import load_workflow
from holdfast.cli.output import print_json, print_table
from holdfast.cli.paging import paged, print_page
from holdfast.cli.params import DURATION, JSON, MOMENT, NEGATIVE_NUMBERS, TAGS, many
from holdfast.connect.blocking.engine import Engine
from holdfast.connect.open_database import OpenDatabase
from holdfast.core.schedules.model import MISFIRES, OVERLAPS
from holdfast.core.schedules.plan import MOST_TICKS
from holdfast.views.schedules import ScheduleView, TickView
from holdfast.views.text import brief, seconds

EPILOG = """\b
Examples:
  holdfast schedules
  holdfast schedules set nightly shop.py:report --cron "0 2 * * *" --zone Europe/Berlin
  holdfast schedules next nightly
  holdfast schedules pause nightly --reason "the printer is broken"
  holdfast schedules backfill nightly --since 2026-12-01 --until 2026-12-24 --dry-run"""


@click.group(
    short_help="List and change schedules.",
    epilog=EPILOG,
    invoke_without_command=True,
)
@paged(limit=50, after="nightly")
@printing
@click.pass_context
def schedules(ctx: click.Context, limit: int, after: str | None) -> None:
    """List the schedules by name; the commands below change them."""
    if ctx.invoked_subcommand is None:
        _list(limit, after)


@schedules.command(
    "set",
    epilog='Example: holdfast schedules set nightly shop.py:report --cron "0 2 * * *"',
    context_settings=NEGATIVE_NUMBERS,
)
@click.argument("name", metavar="NAME")
@click.argument("target", metavar="[MODULE:WORKFLOW]", required=False)
@click.argument("args", metavar="[ARGS_JSON]...", nargs=-1, type=JSON)
@click.option(
    "--cron",
    metavar="TEXT",
    help='A cron rule: five fields, or six with seconds first. E.g. --cron "0 9 * * 1-5"',
)
@click.option(
    "--interval",
    metavar="TIME",
    help="A fixed interval, counted from now. E.g. --interval 15m",
)
@many(
    "--date",
    "dates",
    metavar="WHEN",
    help="Single times. E.g. --date 2026-12-24T18:00,2026-12-31T23:59",
)
@click.option(
    "--repeat",
    metavar="TEXT",
    help="An ISO 8601 repeating interval. E.g. --repeat R5/2026-12-24T18:00:00/P1D",
)
@click.option(
    "--zone",
    metavar="NAME",
    help="The time zone of the rule. E.g. --zone Europe/Berlin",
)
@click.option(
    "--overlap",
    type=click.Choice(OVERLAPS),
    help="What a tick does while the last run has not ended. E.g. --overlap queue",
)
@click.option(
    "--queue-limit",
    metavar="N",
    type=int,
    help="The maximum number of queued ticks. E.g. --queue-limit 10",
)
@click.option(
    "--misfire",
    type=click.Choice(MISFIRES),
    help="What happens to ticks that were missed while no worker ran. E.g. --misfire all",
)
@click.option(
    "--catch-up",
    metavar="N",
    type=int,
    help="The maximum number of missed ticks that are made up for. E.g. --catch-up 10",
)
@click.option(
    "--grace",
    metavar="TIME",
    type=DURATION,
    help="How late a tick may start with --misfire none. E.g. --grace 5m",
)
@click.option(
    "--jitter",
    metavar="TIME",
    type=DURATION,
    help="Delay each tick by a random part of this. E.g. --jitter 5m",
)
@click.option("--lane", metavar="NAME", help="The lane of the runs. E.g. --lane slow")
@click.option(
    "--priority",
    metavar="N",
    type=int,
    help="Runs with a higher priority start first; -1000 to 1000. E.g. --priority 10",
)
@click.option(
    "--deadline",
    metavar="TIME",
    type=DURATION,
    help="The maximum duration of each run. E.g. --deadline 1h",
)
@many(
    "--tag",
    "tags",
    metavar="NAME=VALUE",
    type=TAGS,
    help="The tags of the runs. E.g. --tag team=7",
)
@click.option("--paused", is_flag=True, default=None, help="Create the schedule paused.")
@printing
def set_schedule(
    name: str,
    target: str | None,
    args: Sequence[Any],
    dates: Sequence[str],
    tags: Sequence[tuple[str, str]],
    **options: Any,
) -> None:
    """Create or change the schedule NAME, which starts runs of MODULE:WORKFLOW with arguments.

    A new schedule needs MODULE:WORKFLOW, and one of --cron, --interval, --date and --repeat. An
    existing schedule keeps the settings that are not given. Over HTTP, give the name of the
    workflow alone."""
    many_values = {"args": args, "tags": dict(tags), "dates": dates}
    settings = {option: value for option, value in options.items() if value is not None}
    settings |= {option: values for option, values in many_values.items() if values}
    if command_context().is_remote:
        refuse_code(target or "", "schedules set nightly report")
        with command_context().opened() as database:
            database.engine.schedules.set(name, target, **settings)
            _show(database.engine, name)
        return
    workflow = None if target is None else load_workflow(target)
    engine = Engine(
        command_context().url,
        codec=command_context().codec(),
        namespace=command_context().namespace,
    )
    try:
        engine.schedules.set(name, workflow, by=command_context().person(), **settings)
        _show(engine, name)
    finally:
        engine.close()


@schedules.command("show", epilog="Example: holdfast schedules show nightly")
@click.argument("name", metavar="NAME")
@printing
def show(name: str) -> None:
    """Show a schedule, its next ticks, and what prevents it from starting a run."""
    with command_context().opened() as database:
        _show(database.engine, name)


@schedules.command("next", epilog="Example: holdfast schedules next nightly --count 20")
@click.argument("name", metavar="NAME")
@click.option(
    "--count",
    metavar="N",
    type=click.IntRange(1, MOST_TICKS),
    default=10,
    help="The number of ticks. E.g. --count 20",
)
@printing
def next_ticks(name: str, count: int) -> None:
    """Show the next ticks of a schedule, in its time zone."""
    with command_context().opened() as database:
        ticks = [tick.isoformat() for tick in database.engine.schedules.next(name, count)]
        if command_context().as_json:
            print_json(ticks)
        else:
            print("\n".join(ticks) if ticks else f"schedule {name} has no further ticks")


@schedules.command(
    "pause", epilog='Example: holdfast schedules pause nightly --reason "the printer is broken"'
)
@click.argument("name", metavar="NAME")
@click.option(
    "--reason",
    metavar="TEXT",
    default="paused by request",
    help="The reason, shown in the list. E.g. --reason inventory",
)
@printing
def pause(name: str, reason: str) -> None:
    """Pause a schedule: it starts no runs until it is resumed."""
    with command_context().opened() as database:
        database.engine.schedules.pause(name, reason, by=command_context().person())
        _show(database.engine, name)


@schedules.command("resume", epilog="Example: holdfast schedules resume nightly")
@click.argument("name", metavar="NAME")
@printing
def resume(name: str) -> None:
    """Resume a paused schedule with its next tick; `backfill` makes up for the ticks during the
    pause."""
    with command_context().opened() as database:
        database.engine.schedules.resume(name, by=command_context().person())
        _show(database.engine, name)


@schedules.command("trigger", epilog="Example: holdfast schedules trigger nightly")
@click.argument("name", metavar="NAME")
@printing
def trigger(name: str) -> None:
    """Start a run of a schedule now, as for a tick, and print its id."""
    with command_context().opened() as database:
        tick = database.engine.schedules.trigger(name, by=command_context().person())
        if command_context().as_json:
            print_json(tick)
        else:
            print(
                tick.run
                or "not started yet: the tick is queued until the previous run has ended; see"
                f" `holdfast schedules show {name}`"
            )


@schedules.command(
    "backfill",
    epilog="Example: holdfast schedules backfill nightly --since 2026-12-01 --until 1d --dry-run",
)
@click.argument("name", metavar="NAME")
@click.option(
    "--since",
    metavar="WHEN",
    type=MOMENT,
    required=True,
    help="The start of the period. E.g. --since 2026-12-01 or 7d",
)
@click.option(
    "--until",
    metavar="WHEN",
    type=MOMENT,
    default="0s",
    help="The end of the period; default: now. E.g. --until 1d",
)
@click.option("--dry-run", is_flag=True, help="Only show which runs would be started.")
@printing
def backfill(name: str, since: str | datetime, until: str | datetime, dry_run: bool) -> None:
    """Start a run for each tick of a period that has none."""
    with command_context().opened() as database:
        ticks = database.engine.schedules.backfill(
            name, since, until, dry_run=dry_run, by=command_context().person()
        )
        if command_context().as_json:
            print_json(ticks)
        else:
            print_table(
                ("TICK", "RUN", ""),
                [
                    (seconds(tick.at), tick.run or "-", _outcome(tick, dry_run=dry_run))
                    for tick in ticks
                ],
            )


@schedules.command("remove", epilog="Example: holdfast schedules remove nightly --yes")
@click.argument("name", metavar="NAME")
@deleting
@printing
def remove(name: str, yes: bool) -> None:
    """Remove a schedule; its runs are kept."""
    with command_context().opened() as database:
        confirm(f"Remove the schedule {name}?", yes=yes)
        database.engine.schedules.remove(name, by=command_context().person())
    if command_context().as_json:
        print_json({"removed": name})
    else:
        print(f"schedule {name} removed")


def _outcome(tick: TickView, *, dry_run: bool) -> str:
    if tick.run is None:
        return "would start" if dry_run else "not started"
    return "started" if tick.created else "has a run"


def _list(limit: int, after: str | None) -> None:
    with command_context().opened() as database:
        listed = database.engine.schedules.list(after=after, limit=limit + 1)
        print_page(listed, limit, _name, lambda page: _print_schedules(database, page))


def _name(schedule: ScheduleView) -> str:
    return schedule.name


def _print_schedules(database: OpenDatabase, page: Sequence[ScheduleView]) -> None:
    rows = [
        (
            schedule.name,
            schedule.workflow,
            schedule.text,
            schedule.zone,
            _state(database, schedule),
        )
        for schedule in page
    ]
    print_table(("SCHEDULE", "WORKFLOW", "RULE", "ZONE", "NEXT"), rows)


def _state(database: OpenDatabase, schedule: ScheduleView) -> str:
    if schedule.paused is not None:
        return f"paused: {schedule.paused}"
    ticks = database.engine.schedules.next(schedule.name, 1)
    return ticks[0].isoformat() if ticks else "never"


def _show(engine: Engine, name: str) -> None:
    schedule = engine.schedules.get(name)
    blockers = engine.schedules.why(name)
    ticks = [tick.isoformat() for tick in engine.schedules.next(name)]
    if command_context().as_json:
        fields = {field: getattr(schedule, field) for field in schedule.__struct_fields__}
        print_json({**fields, "next": ticks, "why": blockers})
        return
    print(
        f"{schedule.name}: {schedule.text}, time zone {schedule.zone}, starts {schedule.workflow}"
    )
    jitter = f", jitter {brief(schedule.jitter)}" if schedule.jitter else ""
    print(f"overlap {schedule.overlap}, misfire {schedule.misfire}{jitter}")
    print(f"{schedule.started} runs started, {schedule.skipped} ticks skipped")
    if schedule.note:
        print(schedule.note)
    for blocker in blockers:
        remedy = f" -> {command_context().command(blocker.remedy)}" if blocker.remedy else ""
        print(f"{blocker.text}{remedy}")
    for tick in ticks:
        print(f"  {tick}")
