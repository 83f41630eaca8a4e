"""``holdfast budgets``: list, set, raise and reset budgets, and show the spending of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from holdfast.cli.context import command_context, confirm, deleting, printing
from holdfast.cli.output import print_fields, print_json, print_table
from holdfast.cli.paging import paged, print_page
from holdfast.cli.params import SeveralValues, many
from holdfast.connect.open_database import OpenDatabase
from holdfast.core.budgets import rules as core
from holdfast.views.budgets import BudgetLineView, BudgetView
from holdfast.views.text import seconds

EPILOG = """\b
Examples:
  holdfast budgets
  holdfast budgets set team tokens=1000000 money=25.50 --soft tokens=800000 --reset day
  holdfast budgets raise team tokens=500000
  holdfast budgets usage last"""

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
@paged(limit=50, after="team")
@printing
@click.pass_context
def budgets(ctx: click.Context, after: str | None, limit: int) -> None:
    """List the budgets with their limits and the amounts used."""
    if ctx.invoked_subcommand not in ("usage", "refund"):
        command_context().concerns_all("budgets")
    if ctx.invoked_subcommand is None:
        with command_context().opened() as database:
            listed = database.engine.budgets.list(after=after, limit=limit + 1)
        print_page(listed, limit, lambda budget: budget.name, _print_all)


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
@many(
    "--soft",
    metavar="DIMENSION=LIMIT",
    type=SeveralValues(AMOUNT),
    help="Soft limits: exceeding one is only counted. E.g. --soft tokens=800",
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
    soft: list[tuple[str, str | None]],
    on_breach: str | None,
    reset: str | None,
    zone: str | None,
) -> None:
    """Create or change a budget; settings that are not named keep their value. The limit 'none'
    counts a dimension without limiting it."""
    with command_context().opened(create=True) as database:
        database.engine.budgets.set(
            name,
            dict(limits),
            soft=dict(soft) or None,
            on_breach=on_breach,
            reset=reset,
            zone=zone,
            by=command_context().person(),
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
        database.engine.budgets.raise_limits(
            name, dict(amounts), key=key, by=command_context().person()
        )
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
        spent = database.engine.budgets.spend(name, dict(amounts), key=key)
        if command_context().as_json:
            print_json(spent)
            return
        if not spent.counted:
            print("not counted: this key was used before")
        for breach in spent.soft_breaches:
            print(f"over the soft limit: {breach.used:f} of {breach.limit:f} {breach.dimension}")
        _print_one(database, name)


@budgets.command("reset", epilog="Example: holdfast budgets reset team")
@click.argument("name", metavar="NAME")
@printing
def reset_budget(name: str) -> None:
    """Set the amounts used to zero; runs that wait for room in the budget continue."""
    with command_context().opened() as database:
        database.engine.budgets.reset(name, by=command_context().person())
        _print_one(database, name)


@budgets.command("remove", epilog="Example: holdfast budgets remove team --yes")
@click.argument("name", metavar="NAME")
@click.option(
    "--force",
    is_flag=True,
    help="Remove it although runs that have not ended draw on it; they continue without it.",
)
@deleting
@printing
def remove_budget(name: str, force: bool, yes: bool) -> None:
    """Remove the budget NAME, with the amounts used."""
    with command_context().opened() as database:
        confirm(f"Remove the budget {name}?", yes=yes)
        database.engine.budgets.remove(name, force=force, by=command_context().person())
    if command_context().as_json:
        print_json({"removed": name})
    else:
        print(f"budget {name} removed")


@budgets.command("refund", epilog="Example: holdfast budgets refund last")
@click.argument("run", metavar="RUN")
@printing
def refund(run: str) -> None:
    """Give back what a run has spent to the budgets that it draws on. A repeated call gives nothing
    back."""
    with command_context().opened() as database:
        run_id = database.find(run).id
        refunded = database.engine.budgets.refund(run_id, by=command_context().person())
    if command_context().as_json:
        print_json(refunded)
        return
    if not refunded.amounts:
        print("nothing to give back")
        return
    amounts = ", ".join(f"{amount:f} {name}" for name, amount in refunded.amounts.items())
    budgets = ", ".join(refunded.budgets) or "no budget"
    print(f"{amounts} given back to {budgets}")


@budgets.command("usage", epilog="Example: holdfast budgets usage last")
@click.argument("run", metavar="RUN")
@printing
def usage(run: str) -> None:
    """Show what a run and each of its descendants has spent."""
    with command_context().opened() as database:
        spending = database.engine.budgets.usage(database.find(run).id)
    if command_context().as_json:
        print_json(spending)
        return
    rows = [
        (run_id, dimension, f"{amount:f}")
        for run_id, spent in spending.runs.items()
        for dimension, amount in spent.items()
    ]
    rows += [("all", dimension, f"{amount:f}") for dimension, amount in spending.total.items()]
    print_table(("RUN", "DIMENSION", "SPENT"), rows)


def _print_all(budgets: Sequence[BudgetView]) -> None:
    rows = [
        (budget.name, dimension, *_cells(line), budget.resets or "-")
        for budget in budgets
        for dimension, line in budget.dimensions.items()
    ]
    print_table(("BUDGET", "DIMENSION", "USED", "RESERVED", "SOFT", "HARD", "RESETS"), rows)


def _print_one(database: OpenDatabase, name: str) -> None:
    budget = database.engine.budgets.get(name)
    reservations = database.reservations(name)
    waiting = database.waiting_for(name)
    if command_context().as_json:
        fields = {field: getattr(budget, field) for field in budget.__struct_fields__}
        print_json({**fields, "set_aside": reservations, "waiting": waiting})
        return
    last_breach = f"{budget.breached}, {seconds(budget.last_breach)}" if budget.breached else ""
    print_fields(
        [
            ("budget", budget.name),
            ("on breach", budget.on_breach),
            ("resets", budget.resets or "never"),
            ("next reset", seconds(budget.next_reset)),
            ("breaches", f"{budget.breaches} hard, {budget.soft_breaches} soft"),
            ("last breach", last_breach),
            ("waiting", ", ".join(waiting)),
        ]
    )
    print_table(
        ("DIMENSION", "USED", "RESERVED", "SOFT", "HARD"),
        [(dimension, *_cells(line)) for dimension, line in budget.dimensions.items()],
    )
    if reservations:
        rows = [
            (
                reservation.run,
                reservation.dimension,
                f"{reservation.amount:f}",
                seconds(reservation.since),
            )
            for reservation in reservations
        ]
        print_table(("RESERVED BY", "DIMENSION", "AMOUNT", "SINCE"), rows)


def _cells(line: BudgetLineView) -> tuple[str, str, str, str]:
    soft = "-" if line.soft is None else f"{line.soft:f}"
    hard = "-" if line.hard is None else f"{line.hard:f}"
    return (f"{line.used:f}", f"{line.reserved:f}", soft, hard)
