"""``holdfast operations``: list bulk operations, show, stop and finish them."""

from __future__ import annotations

import click

from holdfast.cli.bulk import print_report
from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_table
from holdfast.cli.paging import paged, print_items, print_next
from holdfast.cli.progress import measuring
from holdfast.core.operations import OperationStatus
from holdfast.views.operations import OperationView
from holdfast.views.text import seconds, short

EPILOG = """\b
Examples:
  holdfast operations --status running
  holdfast operations show 01m7ge8gkb9apz
  holdfast operations stop 01m7ge8gkb9apz"""


@click.group(
    short_help="List bulk operations, stop them.", epilog=EPILOG, invoke_without_command=True
)
@click.option(
    "--status",
    type=click.Choice([str(status) for status in OperationStatus]),
    help="Only operations with this status. E.g. --status running",
)
@paged(limit=50)
@printing
@click.pass_context
def operations(ctx: click.Context, status: str | None, limit: int, after: str | None) -> None:
    """List the bulk operations, newest first: commands that changed many runs. They are kept for 30
    days after their end."""
    if ctx.invoked_subcommand is None:
        _list(status, limit, after)


@operations.command("list", epilog="Example: holdfast operations list --status running")
@click.option(
    "--status",
    type=click.Choice([str(status) for status in OperationStatus]),
    help="Only operations with this status. E.g. --status running",
)
@paged(limit=50)
@printing
def list_operations(status: str | None, limit: int, after: str | None) -> None:
    """List the bulk operations, newest first."""
    _list(status, limit, after)


@operations.command(epilog="Example: holdfast operations show 01m7ge8gkb9apz")
@click.argument("operation", metavar="OPERATION")
@printing
def show(operation: str) -> None:
    """Show how far an operation is, and which runs were refused."""
    with command_context().opened() as database:
        print_report(database.engine.operations.get(operation))


@operations.command(epilog="Example: holdfast operations stop 01m7ge8gkb9apz")
@click.argument("operation", metavar="OPERATION")
@printing
def stop(operation: str) -> None:
    """Stop an operation. Runs that it has changed stay changed, the others stay as they are."""
    with command_context().opened() as database:
        print_report(database.engine.operations.stop(operation, by=command_context().person()))


@operations.command(epilog="Example: holdfast operations wait 01m7ge8gkb9apz")
@click.argument("operation", metavar="OPERATION")
@printing
def wait(operation: str) -> None:
    """Carry out the rest of an operation whose process has died, without waiting for a worker."""
    with command_context().opened() as database:
        report = database.engine.operations.get(operation)
        with measuring(report.verb.value) as progress:
            done = report.changed + report.refusals

            def add(count: int) -> None:
                nonlocal done
                done += count
                progress(done, report.total)

            report = database.engine.operations.wait(operation, progress=add)
        print_report(report)


def _list(status: str | None, limit: int, after: str | None) -> None:
    with command_context().opened() as database:
        views = database.engine.operations.list(status=status, after=after, limit=limit + 1)
    page = views[:limit]
    cursor = page[-1].id if len(views) > limit else None
    if command_context().as_json:
        print_items(page, cursor)
        return
    if not page:
        print("no bulk operations")
        return
    print_table(
        ("ID", "VERB", "STATUS", "RUNS", "CHANGED", "REFUSED", "CREATED", "BY", "SELECTED BY"),
        [_row(view) for view in page],
    )
    print_next(cursor)


def _row(view: OperationView) -> tuple[str, ...]:
    filters = ", ".join(f"{name}={value}" for name, value in view.filters.items())
    return (
        view.id,
        view.verb.value,
        view.status.value,
        str(view.total),
        str(view.changed),
        str(view.refusals),
        seconds(view.created_at),
        view.by or "",
        short(filters, 60),
    )
