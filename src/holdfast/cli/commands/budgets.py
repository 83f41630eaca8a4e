"""``holdfast budgets``: what may be spent, what is spent, and who waits for room."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from holdfast.cli.context import OpenDatabase, command_context, printing
from holdfast.cli.output import iso, print_fields, print_json, print_table, seconds
from holdfast.core.budgets import rules as core
from holdfast.core.budgets.model import Budget, BudgetLine
from holdfast.service.budgets import get_budget
from holdfast.store.contract import RunFilter

EPILOG = """\b
Examples:
  holdfast budgets
  holdfast budgets set team tokens=1000000 money=25.50 --soft tokens=800000 --reset day
  holdfast budgets raise team tokens=500000
  holdfast budgets report last"""

NONE = "none"


class AmountValue(click.ParamType):  # type: ignore[type-arg]
    """An amount of a dimension: tokens=1000."""

    name = "dimension=amount"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str | None]:
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not name or not equals or not text:
            self.fail(f"{value!r} is no amount such as tokens=1000", param, ctx)
        return name, None if text == NONE else text


AMOUNT = AmountValue()


@click.group(
    short_help="List the budgets, set, raise and reset them.",
    epilog=EPILOG,
    invoke_without_command=True,
)
@printing
@click.pass_context
def budgets(ctx: click.Context) -> None:
    """List the budgets with their limits and what is used of them."""
    if ctx.invoked_subcommand != "report":
        command_context().concerns_all("budgets")
    if ctx.invoked_subcommand is None:
        with command_context().opened() as office:
            _print_all(office.store.budgets())


@budgets.command("show", epilog="Example: holdfast budgets show team")
@click.argument("name", metavar="NAME")
@printing
def show(name: str) -> None:
    """Show a budget: what is used, what is set aside and by whom, and which runs wait for room in
    it."""
    with command_context().opened() as office:
        _print_one(office, name)


@budgets.command(
    "set",
    epilog="Example: holdfast budgets set team tokens=1000000 --reset day --zone Europe/Berlin",
)
@click.argument("name", metavar="NAME")
@click.argument("limits", metavar="[DIMENSION=LIMIT]...", nargs=-1, type=AMOUNT)
@click.option(
    "--soft",
    "soft",
    multiple=True,
    type=AMOUNT,
    help="A limit that is only counted when it is passed. E.g. --soft tokens=800",
)
@click.option(
    "--on-breach",
    type=click.Choice(core.ON_BREACH),
    help="What happens to a run past a hard limit. E.g. --on-breach fail",
)
@click.option(
    "--reset", metavar="WHEN", help="hour, day, week, month, a duration, or never. E.g. --reset day"
)
@click.option(
    "--zone", metavar="ZONE", help="The time zone of the calendar. E.g. --zone Europe/Berlin"
)
@printing
def set_budget(
    name: str,
    limits: tuple[tuple[str, str | None], ...],
    soft: tuple[tuple[str, str | None], ...],
    on_breach: str | None,
    reset: str | None,
    zone: str | None,
) -> None:
    """Create a budget or change it; what is not named stays as it is. 'none' counts a dimension and
    does not limit it."""
    with command_context().opened(create=True) as office:
        office.engine.budget(
            name, dict(limits), soft=dict(soft) or None, on_breach=on_breach, reset=reset, zone=zone
        )
        _print_one(office, name)


@budgets.command("raise", epilog="Example: holdfast budgets raise team tokens=500000")
@click.argument("name", metavar="NAME")
@click.argument("amounts", metavar="DIMENSION=AMOUNT...", nargs=-1, required=True, type=AMOUNT)
@click.option(
    "--key",
    metavar="TEXT",
    help="Do it once, however often it is said with this key. E.g. --key invoice-7",
)
@printing
def raise_budget(name: str, amounts: tuple[tuple[str, str | None], ...], key: str | None) -> None:
    """Add to the limits of a budget; runs that wait for room in it go on."""
    with command_context().opened() as office:
        office.engine.raise_budget(name, dict(amounts), key=key)
        _print_one(office, name)


@budgets.command("spend", epilog="Example: holdfast budgets spend team money=0.75 --key invoice-7")
@click.argument("name", metavar="NAME")
@click.argument("amounts", metavar="DIMENSION=AMOUNT...", nargs=-1, required=True, type=AMOUNT)
@click.option(
    "--key",
    metavar="TEXT",
    help="Count it once, however often it is said with this key. E.g. --key invoice-7",
)
@printing
def spend_budget(name: str, amounts: tuple[tuple[str, str | None], ...], key: str | None) -> None:
    """Count what was spent outside any run: all of it, or nothing when there is no room."""
    with command_context().opened() as office:
        office.engine.spend_budget(name, dict(amounts), key=key)
        _print_one(office, name)


@budgets.command("reset", epilog="Example: holdfast budgets reset team")
@click.argument("name", metavar="NAME")
@printing
def reset_budget(name: str) -> None:
    """Begin anew with nothing used; runs that wait for room in it go on."""
    with command_context().opened() as office:
        office.engine.reset_budget(name)
        _print_one(office, name)


@budgets.command("report", epilog="Example: holdfast budgets report last")
@click.argument("run", metavar="RUN")
@printing
def report(run: str) -> None:
    """Say what a run, and each below it, has spent."""
    with command_context().opened() as office:
        found = office.engine.spending(office.find(run).id)
    if command_context().as_json:
        print_json(found)
        return
    rows = [
        (one, name, str(amount))
        for one, spent in found.runs.items()
        for name, amount in spent.items()
    ]
    rows += [("all", name, str(amount)) for name, amount in found.total.items()]
    print_table(("RUN", "DIMENSION", "SPENT"), rows)


def _print_all(found: list[Budget]) -> None:
    if command_context().as_json:
        print_json([_as_data(one) for one in found])
        return
    rows = [
        (one.name, *_cells(line), core.show_reset(one.resets, one.zone) or "-")
        for one in found
        for line in one.allowances
    ]
    print_table(("BUDGET", "DIMENSION", "USED", "SET ASIDE", "SOFT", "HARD", "RESETS"), rows)


def _print_one(office: OpenDatabase, name: str) -> None:
    found = get_budget(office.store, name)
    aside = office.store.reservations(name)
    waiting = _waiting(office, name)
    if command_context().as_json:
        held = [
            {"run": run, "dimension": dimension, "amount": core.amount(amount), "since": iso(at)}
            for run, _, dimension, amount, at in aside
        ]
        print_json({**_as_data(found), "set_aside": held, "waiting": waiting})
        return
    print_fields(
        [
            ("budget", found.name),
            ("on breach", found.on_breach),
            ("resets", core.show_reset(found.resets, found.zone) or "never"),
            ("next reset", seconds(found.reset_at)),
            ("breaches", f"{found.breaches} hard, {found.soft_breaches} soft"),
            (
                "last breach",
                f"{found.breached}, {seconds(found.breached_at)}" if found.breached else "",
            ),
            ("waiting", ", ".join(waiting)),
        ]
    )
    print_table(
        ("DIMENSION", "USED", "SET ASIDE", "SOFT", "HARD"),
        [_cells(line) for line in found.allowances],
    )
    if aside:
        rows = [
            (run, dimension, core.show(amount), seconds(at))
            for run, _, dimension, amount, at in aside
        ]
        print_table(("SET ASIDE BY", "DIMENSION", "AMOUNT", "SINCE"), rows)


def _waiting(office: OpenDatabase, name: str) -> list[str]:
    blocked = office.store.runs(RunFilter(statuses=["blocked"], limit=1000))
    return [
        run.id for run in blocked if name in core.names(msgspec.json.decode(run.waits or b"[]"))
    ]


def _cells(line: BudgetLine) -> tuple[str, str, str, str, str]:
    limits = tuple("-" if limit is None else core.show(limit) for limit in (line.soft, line.hard))
    return (line.dimension, core.show(line.used), core.show(line.reserved), *limits)  # type: ignore[return-value]


def _as_data(found: Budget) -> dict[str, Any]:
    return {
        "name": found.name,
        "run": found.run_id,
        "on_breach": found.on_breach,
        "resets": core.show_reset(found.resets, found.zone),
        "next_reset": iso(found.reset_at),
        "reset_count": found.reset_count,
        "breaches": found.breaches,
        "soft_breaches": found.soft_breaches,
        "last_breach": iso(found.breached_at),
        "breached": found.breached,
        "dimensions": {line.dimension: _line(line) for line in found.allowances},
    }


def _line(line: BudgetLine) -> dict[str, Any]:
    return {
        "used": core.amount(line.used),
        "reserved": core.amount(line.reserved),
        "soft": None if line.soft is None else core.amount(line.soft),
        "hard": None if line.hard is None else core.amount(line.hard),
    }
