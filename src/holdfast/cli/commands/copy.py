"""``holdfast db copy``: move all data of a database to another database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import click

from holdfast.cli.context import command_context, must_be_there, printing
from holdfast.cli.output import is_terminal, print_json, print_table
from holdfast.connect.moved_database import copy_database, count_runs
from holdfast.connect.open_store import file_of
from holdfast.core.status import Status
from holdfast.service.copy import CHECKING, COPYING, CopyReport, Inventory, Progress

EPILOG = """\b
Examples:
  holdfast db copy orders.db postgresql://db.example/orders
  holdfast db copy postgresql://db.example/orders orders.db"""


@click.command(short_help="Move all data to another database.", epilog=EPILOG)
@click.argument("source")
@click.argument("target")
@printing
def copy(source: str, target: str) -> None:
    """Copy all data of the database SOURCE to the new or empty database TARGET, compare both, and
    seal SOURCE. The runs continue in TARGET.

    SOURCE and TARGET are paths or URLs. Stop all workers and clients of both before. If the command
    is interrupted, TARGET cannot be used until the command has been repeated and has completed.
    SOURCE accepts no more writes afterwards: see `db unseal`."""
    command_context().concerns_all("db copy")
    if _same_file(source, target):
        raise click.UsageError("SOURCE and TARGET are the same database")
    must_be_there(source, "SOURCE must be the path or URL of an existing database")
    with _progress_bars(source) as progress:
        report = copy_database(source, target, progress)
    _print(report)
    if not report.same:
        raise click.ClickException(
            "TARGET differs from SOURCE, which was probably written to during the copy: stop all"
            " workers and clients of SOURCE, and repeat the command"
        )


def _same_file(source: str, target: str) -> bool:
    source_path = file_of(source)
    target_path = file_of(target)
    if source_path is None or target_path is None:
        return False
    if os.path.realpath(source_path) == os.path.realpath(target_path):
        return True
    return (  # hard links
        os.path.exists(source_path)
        and os.path.exists(target_path)
        and os.path.samefile(source_path, target_path)
    )


@contextmanager
def _progress_bars(source: str) -> Iterator[Progress]:
    """Show progress bars on a terminal; yield the function that advances them."""
    if command_context().as_json or not is_terminal():
        yield lambda phase, runs: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    total = count_runs(source)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("runs"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, transient=True) as bars:
        tasks = {
            COPYING: bars.add_task(COPYING, total=total),
            CHECKING: bars.add_task(CHECKING, total=2 * total),
        }
        yield lambda phase, runs: bars.advance(tasks[phase], runs)


def _print(report: CopyReport) -> None:
    if command_context().as_json:
        print_json({"same": report.same, "source": report.source, "target": report.target})
        return
    rows = [
        (name, _cell(name, report.source), _cell(name, report.target))
        for name in _row_names(report)
    ]
    print_table(("", "SOURCE", "TARGET"), rows)
    if report.same:
        runs = sum(report.target.runs.values())
        print(f"{runs} {'run' if runs == 1 else 'runs'} copied; SOURCE and TARGET are the same.")
        print("SOURCE is sealed and accepts no more writes: use TARGET from now on.")


def _row_names(report: CopyReport) -> list[str]:
    statuses = [
        status for status in Status if status in report.source.runs or status in report.target.runs
    ]
    return [*statuses, "events", "signals", "tags", "lanes", "payloads", "digest"]


def _cell(name: str, inventory: Inventory) -> str:
    if name == "digest":
        return inventory.digest[:16]
    if name in set(Status):
        return str(inventory.runs.get(name, 0))
    return str(getattr(inventory, name))
