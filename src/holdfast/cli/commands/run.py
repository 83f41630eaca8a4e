"""``holdfast run``: start a run and work until it has ended."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from holdfast.cli.commands.budgets import AMOUNT
from holdfast.cli.context import command_context, printing
from holdfast.cli.loading import load_workflow
from holdfast.cli.output import print_json, print_line
from holdfast.cli.params import JSON, MOMENT, NEGATIVE_NUMBERS, TAGS, many
from holdfast.connect.blocking.engine import Engine
from holdfast.connect.blocking.run import Run
from holdfast.errors import ResultTimeout

EPILOG = """\b
Examples:
  holdfast run shop.py:checkout '{"items": [1, 2]}'
  holdfast run shop.flows:checkout 42 '"express"' --tag customer=7 --key order-42
  holdfast run shop.py:remind --delay 2h --detach"""

EXPLAIN_AFTER = "5s"
"""After this time the user is told what the run waits for."""


@click.command(
    short_help="Start a run and work until it has ended.",
    epilog=EPILOG,
    context_settings=NEGATIVE_NUMBERS,
)
@click.argument("target", metavar="MODULE:WORKFLOW")
@click.argument("args", metavar="[ARGS_JSON]...", nargs=-1, type=JSON)
@click.option(
    "--id",
    metavar="ID",
    help="The id of the run; the same id and input again starts no other run. E.g. --id order-7",
)
@click.option(
    "--key",
    metavar="KEY",
    help="Start at most one run of this workflow with this key. E.g. --key invoice-2026-11",
)
@click.option("--lane", metavar="NAME", help="The lane of the run. E.g. --lane slow")
@click.option(
    "--priority",
    metavar="N",
    type=int,
    default=0,
    help="Runs with a higher priority start first; -1000 to 1000. E.g. --priority 10",
)
@click.option(
    "--delay",
    metavar="WHEN",
    type=MOMENT,
    help="Start after a duration or at a time. E.g. --delay 2h or 2026-12-24T18:00",
)
@click.option(
    "--deadline",
    metavar="WHEN",
    type=MOMENT,
    help="Cancel the run, with compensation, if it has not ended by then. E.g. --deadline 1d",
)
@many(
    "--tag",
    "tags",
    metavar="NAME=VALUE",
    type=TAGS,
    help="The tags of the run. E.g. --tag customer=7",
)
@click.option(
    "--share",
    metavar="NAME",
    help="The share of the run, in a lane with limits per share. E.g. --share customer-7",
)
@many(
    "--budget",
    "budgets",
    metavar="NAME|DIMENSION=LIMIT",
    help=(
        "Shared budgets, and limits for this run and its descendants. E.g. --budget"
        " team,tokens=1000"
    ),
)
@click.option(
    "--detach", is_flag=True, help="Only start the run and print its id; a worker executes it."
)
@printing
def run(
    target: str,
    args: Sequence[Any],
    detach: bool,
    tags: Sequence[tuple[str, str]],
    budgets: Sequence[str],
    **options: Any,
) -> None:
    """Start a run of MODULE:WORKFLOW, work until it has ended, and print its result as JSON.

    MODULE is a dotted module name or a .py file. Each ARGS_JSON is one argument of the workflow.
    Until the run has ended, this process is a worker: it also executes other runs of the workflows
    that it has imported."""
    workflow = load_workflow(target)
    start_options = {name: value for name, value in options.items() if value is not None}
    if budgets:
        start_options["budget"] = _budget(budgets)
    engine = Engine(
        command_context().url,
        codec=command_context().codec(),
        schedules=False,
        namespace=command_context().namespace,
    )
    started: Run[Any] | None = None
    try:
        if not detach:
            engine.work()
        with _deferred_interrupt():
            started = engine.start(workflow, *args, tags=dict(tags), **start_options)
        if detach:
            _print_id(started)
        else:
            _print_result(started)
    except KeyboardInterrupt:
        if started is not None and not detach:
            _explain_interrupt(started.id)
        engine.close(shutdown_timeout="2s")
        raise
    finally:
        engine.close()


def _budget(options: Sequence[str]) -> list[Any]:
    """Return the names of shared budgets, followed by the limits of the run's own budget."""
    budgets: list[Any] = [option for option in options if "=" not in option]
    limits = dict(AMOUNT.convert(option, None, None) for option in options if "=" in option)
    if limits:
        budgets.append(limits)
    return budgets


@contextmanager
def _deferred_interrupt() -> Iterator[None]:
    """Defer Ctrl-C to the end of the block, so that a run that is being started is not lost before
    its id is known."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupts: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if interrupts:
        raise KeyboardInterrupt


def _explain_interrupt(run_id: str) -> None:
    print(
        f"holdfast: stopped working on {run_id}; a worker will continue it, unless you cancel it"
        f" with `holdfast cancel {run_id}`",
        file=sys.stderr,
    )


def _print_id(started: Run[Any]) -> None:
    if command_context().as_json:
        print_json({"id": started.id, "status": started.status.value})
    else:
        print(started.id)


def _print_result(started: Run[Any]) -> None:
    if sys.stderr.isatty():
        print(f"run {started.id}", file=sys.stderr)
    _await_end(started)
    print_line(started.record.result)


def _await_end(started: Run[Any]) -> None:
    """Wait until the run has ended; after EXPLAIN_AFTER say on a terminal what it waits for."""
    try:
        started.result(timeout=EXPLAIN_AFTER)
    except ResultTimeout:
        if sys.stderr.isatty():
            print(f"... {started.why().reason}", file=sys.stderr)
        started.result()
