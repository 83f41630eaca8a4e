"""``holdfast db copy``: move all that a database holds to another one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

import click

from holdfast.cli.context import command_context, must_be_there, printing
from holdfast.cli.output import is_terminal, print_json, print_table
from holdfast.connect.open_store import file_of, open_store
from holdfast.core.codec import JsonCodec
from holdfast.core.status import Status
from holdfast.errors import CodecMismatch
from holdfast.service.copy import CHECKING, COPYING, CopyReport, Inventory, Progress, copy_store
from holdfast.store.contract import Store

EPILOG = """\b
Examples:
  holdfast db copy orders.db postgresql://db.example/orders
  holdfast db copy postgresql://db.example/orders orders.db"""


@click.command(short_help="Copy all runs and lanes to another database.", epilog=EPILOG)
@click.argument("source")
@click.argument("target")
@printing
def copy(source: str, target: str) -> None:
    """Copy all that the database SOURCE holds to the new or empty database TARGET, where the runs
    go on; compare both, and seal SOURCE.

    SOURCE and TARGET are paths or URLs. Nobody may work on them meanwhile. If it is interrupted,
    TARGET cannot be used until the same command has been given again. SOURCE takes no more writes
    afterwards: see `db unseal`."""
    command_context().concerns_all("db copy")
    if _same_file(source, target):
        raise click.UsageError("SOURCE and TARGET are the same database")
    must_be_there(source, "SOURCE is the path or the URL of one")
    store, codec = open_as_it_is(source)
    with closing(store), _shown(store) as progress:
        moved = copy_store(
            store, lambda: open_store(target, half_copied=True, codec=codec), progress
        )
    _tell(moved)
    if not moved.same:
        raise click.ClickException(
            "both sides differ: see to it that nobody writes to SOURCE meanwhile, and repeat the"
            " command"
        )


def _same_file(source: str, target: str) -> bool:
    one, other = file_of(source), file_of(target)
    if one is None or other is None:
        return False
    return os.path.realpath(one) == os.path.realpath(other) or (
        os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)
    )


def open_as_it_is(url: str) -> tuple[Store, str]:
    """Open a database whatever its codec is, and say which: data is copied as it is. It may be
    sealed."""
    try:
        return open_store(url, create=False, sealed=True), JsonCodec.name
    except CodecMismatch as error:
        codec = str(error.facts["stored"])
        return open_store(url, create=False, sealed=True, codec=codec), codec


@contextmanager
def _shown(store: Store) -> Iterator[Progress]:
    """Show on a terminal how far it has come."""
    if command_context().as_json or not is_terminal():
        yield lambda what, runs: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    total = sum(store.counts().values())
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
        yield lambda what, runs: bars.advance(tasks[what], runs)


def _tell(moved: CopyReport) -> None:
    if command_context().as_json:
        print_json({"same": moved.same, "source": moved.source, "target": moved.target})
        return
    print_table(("", "SOURCE", "TARGET"), [(name, *_both(name, moved)) for name in _names(moved)])
    if moved.same:
        runs = sum(moved.target.runs.values())
        print(f"{runs} {'run' if runs == 1 else 'runs'} copied; both sides are the same.")
        print("SOURCE is sealed and takes no more writes: from now on work on TARGET.")


def _names(moved: CopyReport) -> list[str]:
    statuses = [
        status for status in Status if status in moved.source.runs or status in moved.target.runs
    ]
    return [*statuses, "events", "signals", "tags", "lanes", "payloads", "digest"]


def _both(name: str, moved: CopyReport) -> tuple[str, str]:
    return _value(name, moved.source), _value(name, moved.target)


def _value(name: str, inventory: Inventory) -> str:
    if name == "digest":
        return inventory.digest[:16]
    return str(inventory.runs.get(name, 0) if name in set(Status) else getattr(inventory, name))
