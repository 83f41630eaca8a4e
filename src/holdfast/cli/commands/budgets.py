"""``holdfast budgets``: list, set, raise and reset budgets, and report the spending of runs."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from holdfast.cli.context import OpenDatabase, command_context, printing
from holdfast.cli.output import iso, print_fields, print_json, print_table, seconds
from holdfast.core.budgets import rules as core
from holdfast.core.budgets.model import Budget, BudgetLine
from holdfast.service.budgets import get_budget
from holdfast.store.runs.list_query import RunFilter

EPILOG = """\b
Examples:
  holdfast budgets
  holdfast budgets set team tokens=1000000 money=25.50 --soft tokens=800000 --reset day
  holdfast budgets raise team tokens=500000
  holdfast budgets report last"""

NONE = "none"


class AmountValue(click.ParamType):  # type: ignore[type-arg]
    """A DIMENSION=AMOUNT pair such as tokens=1000; the amount none means no limit."""

    name = "dimension=amount"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str | None]:
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not name or not equals or not text:
            self.fail(f"{value!r} is not an amount such as tokens=1000", param, ctx)
        return name, None if text == NONE else text


AMOUNT = AmountValue()


@click.group(
    short_help="List, set, raise and reset budgets.",
    epilog=EPILOG,
    invoke_without_command=True,
)
@printing
@click.pass_context
def budgets(ctx: click.Context) -> None:
    """List the budgets with their limits and the amounts used."""
    if ctx.invoked_subcommand != "report":
        command_context().concerns_all("budgets")
    if ctx.invoked_subcommand is None:
        with command_context().opened() as database:
            _print_all(database.store.budgets.all())


@budgets.command("show", epilog="Example: holdfast budgets show team")
@click.argument("name", metavar="NAME")
@printing
def show(name: str) -> None:
    """Show a budget: the amounts used, the reservations with their runs, and the runs that wait for
    room."""
    with command_context().opened() as database:
        _print_one(database, name)


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
    help="A soft limit: exceeding it is only counted. E.g. --soft tokens=800",
)
@click.option(
    "--on-breach",
    type=click.Choice(core.ON_BREACH),
    help="What happens to a run that would exceed a hard limit. E.g. --on-breach fail",
)
@click.option(
    "--reset",
    metavar="WHEN",
    help="The period: hour, day, week, month, a duration, or never. E.g. --reset day",
)
@click.option(
    "--zone", metavar="ZONE", help="The time zone of calendar periods. E.g. --zone Europe/Berlin"
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
    """Create or change a budget; settings that are not named keep their value. The limit 'none'
    counts a dimension without limiting it."""
    with command_context().opened(create=True) as database:
        database.engine.budget(
            name, dict(limits), soft=dict(soft) or None, on_breach=on_breach, reset=reset, zone=zone
        )
        _print_one(database, name)


@budgets.command("raise", epilog="Example: holdfast budgets raise team tokens=500000")
@click.argument("name", metavar="NAME")
@click.argument("amounts", metavar="DIMENSION=AMOUNT...", nargs=-1, required=True, type=AMOUNT)
@click.option(
    "--key",
    metavar="TEXT",
    help="Raise it at most once with this key; a repeated call has no effect. E.g. --key invoice-7",
)
@printing
def raise_budget(name: str, amounts: tuple[tuple[str, str | None], ...], key: str | None) -> None:
    """Raise the limits of a budget by these amounts; runs that wait for room in it continue."""
    with command_context().opened() as database:
        database.engine.raise_budget(name, dict(amounts), key=key)
        _print_one(database, name)


@budgets.command("spend", epilog="Example: holdfast budgets spend team money=0.75 --key invoice-7")
@click.argument("name", metavar="NAME")
@click.argument("amounts", metavar="DIMENSION=AMOUNT...", nargs=-1, required=True, type=AMOUNT)
@click.option(
    "--key",
    metavar="TEXT",
    help="Count it at most once with this key; a repeated call has no effect. E.g. --key invoice-7",
)
@printing
def spend_budget(name: str, amounts: tuple[tuple[str, str | None], ...], key: str | None) -> None:
    """Record spending outside any run: all amounts, or none if one of them does not fit."""
    with command_context().opened() as database:
        database.engine.spend_budget(name, dict(amounts), key=key)
        _print_one(database, name)


@budgets.command("reset", epilog="Example: holdfast budgets reset team")
@click.argument("name", metavar="NAME")
@printing
def reset_budget(name: str) -> None:
    """Set the amounts used to zero; runs that wait for room in the budget continue."""
    with command_context().opened() as database:
        database.engine.reset_budget(name)
        _print_one(database, name)


@budgets.command("report", epilog="Example: holdfast budgets report last")
@click.argument("run", metavar="RUN")
@printing
def report(run: str) -> None:
    """Show what a run and each of its descendants has spent."""
    with command_context().opened() as database:
        spending = database.engine.spending(database.find(run).id)
    if command_context().as_json:
        print_json(spending)
        return
    rows = [
        (run_id, dimension, str(amount))
        for run_id, amounts in spending.runs.items()
        for dimension, amount in amounts.items()
    ]
    rows += [("all", dimension, str(amount)) for dimension, amount in spending.total.items()]
    print_table(("RUN", "DIMENSION", "SPENT"), rows)


def _print_all(budgets: list[Budget]) -> None:
    if command_context().as_json:
        print_json([_as_data(budget) for budget in budgets])
        return
    rows = [
        (budget.name, *_cells(line), core.show_reset(budget.resets, budget.zone) or "-")
        for budget in budgets
        for line in budget.lines
    ]
    print_table(("BUDGET", "DIMENSION", "USED", "RESERVED", "SOFT", "HARD", "RESETS"), rows)


def _print_one(database: OpenDatabase, name: str) -> None:
    budget = get_budget(database.store, name)
    reservations = database.store.budgets.reservations(name)
    waiting = _waiting_runs(database, name)
    if command_context().as_json:
        reserved = [
            {"run": run, "dimension": dimension, "amount": core.amount(amount), "since": iso(at)}
            for run, _, dimension, amount, at in reservations
        ]
        print_json({**_as_data(budget), "set_aside": reserved, "waiting": waiting})
        return
    last_breach = f"{budget.breached}, {seconds(budget.breached_at)}" if budget.breached else ""
    print_fields(
        [
            ("budget", budget.name),
            ("on breach", budget.on_breach),
            ("resets", core.show_reset(budget.resets, budget.zone) or "never"),
            ("next reset", seconds(budget.reset_at)),
            ("breaches", f"{budget.breaches} hard, {budget.soft_breaches} soft"),
            ("last breach", last_breach),
            ("waiting", ", ".join(waiting)),
        ]
    )
    print_table(
        ("DIMENSION", "USED", "RESERVED", "SOFT", "HARD"),
        [_cells(line) for line in budget.lines],
    )
    if reservations:
        rows = [
            (run, dimension, core.show(amount), seconds(at))
            for run, _, dimension, amount, at in reservations
        ]
        print_table(("RESERVED BY", "DIMENSION", "AMOUNT", "SINCE"), rows)


def _waiting_runs(database: OpenDatabase, name: str) -> list[str]:
    """Return the ids of the runs that wait for room in a budget; looks at 1000 blocked runs."""
    blocked = database.store.runs.find(RunFilter(statuses=["blocked"], limit=1000))
    return [
        run.id for run in blocked if name in core.names(msgspec.json.decode(run.waits or b"[]"))
    ]


def _cells(line: BudgetLine) -> tuple[str, str, str, str, str]:
    limits = tuple("-" if limit is None else core.show(limit) for limit in (line.soft, line.hard))
    return (line.dimension, core.show(line.used), core.show(line.reserved), *limits)  # type: ignore[return-value]


def _as_data(budget: Budget) -> dict[str, Any]:
    return {
        "name": budget.name,
        "run": budget.run_id,
        "on_breach": budget.on_breach,
        "resets": core.show_reset(budget.resets, budget.zone),
        "next_reset": iso(budget.reset_at),
        "reset_count": budget.reset_count,
        "breaches": budget.breaches,
        "soft_breaches": budget.soft_breaches,
        "last_breach": iso(budget.breached_at),
        "breached": budget.breached,
        "dimensions": {line.dimension: _line_as_data(line) for line in budget.lines},
    }


def _line_as_data(line: BudgetLine) -> dict[str, Any]:
    return {
        "used": core.amount(line.used),
        "reserved": core.amount(line.reserved),
        "soft": None if line.soft is None else core.amount(line.soft),
        "hard": None if line.hard is None else core.amount(line.hard),
    }
