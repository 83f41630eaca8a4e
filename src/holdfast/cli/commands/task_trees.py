"""Commands of ``holdfast tasks`` about children, budgets and attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from holdfast.cli.commands.budgets import AMOUNT
from holdfast.cli.commands.lease_output import end_lease, report
from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_table
from holdfast.cli.paging import items_after, paged, print_page
from holdfast.cli.params import JSON, MOMENT, many
from holdfast.service.tasks.children import ON_PARENT_END
from holdfast.views.attempts import AttemptView
from holdfast.views.tasks import TaskChildView
from holdfast.views.text import payload, seconds


@click.command(epilog="Example: holdfast tasks spend LEASE tokens=1200 money=0.03 --key call-1")
@click.argument("lease", metavar="LEASE")
@click.argument("amounts", metavar="DIMENSION=AMOUNT...", nargs=-1, type=AMOUNT, required=True)
@click.option("--key", metavar="KEY", help="Count the amounts once per key. E.g. --key call-1")
@printing
def spend(lease: str, amounts: tuple[tuple[str, str | None], ...], key: str | None) -> None:
    """Spend from the budgets of the run. Without room, the lease is given back, the run is asked to
    stop, or nothing happens, as the budget says."""
    with command_context().opened() as database:
        held = database.engine.tasks.lease(lease)
        spent = held.spend(dict(amounts), key=key)
        line = f"run {held.run_id} has spent it"
        if not spent.counted:
            line = f"run {held.run_id} had spent it before, with this key"
        data = {"run": held.run_id, "counted": spent.counted, "soft_breaches": spent.soft_breaches}
        report(data, line)


@click.command(epilog="""Example: holdfast tasks start LEASE page '{"n": 1}' --id book-7.page-1""")
@click.argument("lease", metavar="LEASE")
@click.argument("task", metavar="NAME")
@click.argument("values", metavar="[ARGS_JSON]...", type=JSON, nargs=-1)
@click.option(
    "--id",
    "run_id",
    metavar="ID",
    help="The id of the child: a repeated call starts it once. E.g. --id part-7",
)
@click.option("--lane", metavar="LANE", help="The lane of the child. E.g. --lane gpu")
@many(
    "--capability",
    "capabilities",
    metavar="A,B",
    help="The capabilities that its holder must offer. E.g. --capability cuda",
)
@click.option(
    "--on-parent-end",
    type=click.Choice(ON_PARENT_END),
    default="cancel",
    show_default=True,
    help="What happens to the child when the run ends. E.g. --on-parent-end leave",
)
@printing
def start(
    lease: str,
    task: str,
    values: tuple[Any, ...],
    run_id: str | None,
    lane: str | None,
    capabilities: list[str],
    on_parent_end: str,
) -> None:
    """Start a child of the run, and print its id."""
    options: dict[str, Any] = {"on_parent_end": on_parent_end}
    named = {"id": run_id, "lane": lane, "capabilities": capabilities or None}
    options |= {name: value for name, value in named.items() if value is not None}
    with command_context().opened() as database:
        child = database.engine.tasks.lease(lease).start(task, *values, **options)
        report({"id": child.id, "status": child.status.value}, child.id)


@click.command(epilog="Example: holdfast tasks children LEASE --json")
@click.argument("lease", metavar="LEASE")
@paged(limit=1000)
@printing
def children(lease: str, limit: int, after: str | None) -> None:
    """List the children that holders of the run have started, with their results."""
    with command_context().opened() as database:
        listed = database.engine.tasks.lease(lease).children()
    print_page(items_after(listed, after, _id, limit), limit, _id, _print_children)


def _id(child: TaskChildView) -> str:
    return child.id


def _print_children(page: Sequence[TaskChildView]) -> None:
    for child in page:
        print(f"{child.id}  {child.status.value}  {payload(child.result)}")


@click.command(epilog="Example: holdfast tasks wait-children LEASE --timeout 1h")
@click.argument("lease", metavar="LEASE")
@click.option(
    "--timeout", type=MOMENT, metavar="WHEN", help="The maximum time to wait. E.g. --timeout 1h"
)
@printing
def wait_children(lease: str, timeout: Any) -> None:
    """Release the lease until the children of the run have ended, or one of them has failed."""
    end_lease(lease, lambda held: held.wait_children(timeout=timeout))


@click.command(epilog="Example: holdfast tasks attempts last --json")
@click.argument("run", metavar="RUN")
@paged(limit=1000, after="12")
@printing
def attempts(run: str, limit: int, after: str | None) -> None:
    """List the attempts at a run: why each was made, by which worker, and how it ended."""
    with command_context().opened() as database:
        listed = database.engine.tasks.attempts(database.find(run, mine=True).id)
    print_page(items_after(listed, after, _number, limit), limit, _number, _print_attempts)


def _number(attempt: AttemptView) -> str:
    return str(attempt.number)


def _print_attempts(page: Sequence[AttemptView]) -> None:
    rows = [
        (
            str(attempt.number),
            attempt.kind.value,
            attempt.worker or "-",
            seconds(attempt.started_at) if attempt.started_at else "-",
            seconds(attempt.ended_at) if attempt.ended_at else "-",
            attempt.outcome or "at work",
        )
        for attempt in page
    ]
    print_table(("ATTEMPT", "KIND", "WORKER", "STARTED", "ENDED", "OUTCOME"), rows)
