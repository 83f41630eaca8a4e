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
from holdfast.cli.output import payload, print_json, print_line
from holdfast.cli.params import JSON, MOMENT, NEGATIVE_NUMBERS, TAG
from holdfast.connect.engine import Engine, Run
from holdfast.errors import ResultTimeout

EPILOG = """\b
Examples:
  holdfast run shop.py:checkout '{"items": [1, 2]}'
  holdfast run shop.flows:checkout 42 '"express"' --tag customer=7 --key order-42
  holdfast run shop.py:remind --delay 2h --detach"""

PATIENCE = "5s"
"""How long a person waits before being told what for."""


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
    help="The id of the run; the same id and input again is the same run. E.g. --id order-7",
)
@click.option(
    "--key",
    metavar="KEY",
    help="Start at most one run of this workflow with this key. E.g. --key invoice-2026-11",
)
@click.option("--lane", metavar="NAME", help="The lane that the run waits in. E.g. --lane slow")
@click.option(
    "--priority",
    metavar="N",
    type=int,
    default=0,
    help="Higher goes first, -1000 to 1000. E.g. --priority 10",
)
@click.option(
    "--delay",
    metavar="WHEN",
    type=MOMENT,
    help="Do not begin before. E.g. --delay 2h or 2026-12-24T18:00",
)
@click.option(
    "--deadline",
    metavar="WHEN",
    type=MOMENT,
    help="Stop it, and undo it, if it has not ended by then. E.g. --deadline 1d",
)
@click.option(
    "--tag",
    "tags",
    metavar="NAME=VALUE",
    type=TAG,
    multiple=True,
    help="Label it; may be repeated. E.g. --tag customer=7",
)
@click.option(
    "--share",
    metavar="NAME",
    help="For whom it works, in a lane with limits by share. E.g. --share customer-7",
)
@click.option(
    "--budget",
    "budgets",
    metavar="NAME|DIMENSION=LIMIT",
    multiple=True,
    help=(
        "A shared budget, or a limit for this run and all below it; may be repeated. E.g. --budget"
        " team --budget tokens=1000"
    ),
)
@click.option(
    "--detach", is_flag=True, help="Only start it and print its id; a worker works on it."
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

    MODULE is a dotted module or a .py file. Each ARGS_JSON is one argument of the workflow. While
    it works, this process also goes on with other runs of the workflows that it has imported."""
    workflow = load_workflow(target)
    given = {name: value for name, value in options.items() if value is not None}
    if budgets:
        given["budget"] = _budget(budgets)
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
        with _told_its_id():
            started = engine.start(workflow, *args, tags=dict(tags), **given)
        if detach:
            _print_id(started)
        else:
            _print_result(started)
    except KeyboardInterrupt:
        if started is not None and not detach:
            _say_how_it_goes_on(started.id)
        engine.close(grace="2s")
        raise
    finally:
        engine.close()


def _budget(given: Sequence[str]) -> list[Any]:
    """Return the names of shared budgets, and the limits of the run's own."""
    limits = dict(AMOUNT.convert(one, None, None) for one in given if "=" in one)
    return [*(one for one in given if "=" not in one), *([limits] if limits else [])]


@contextmanager
def _told_its_id() -> Iterator[None]:
    """Let Ctrl-C wait until the run that is being started is known by its id."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def _say_how_it_goes_on(run_id: str) -> None:
    print(
        f"holdfast: stopped working on {run_id}; a worker goes on with it, or `holdfast cancel"
        f" {run_id}`",
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
    _await(started)
    print_line(payload(started.record.result))


def _await(started: Run[Any]) -> None:
    """Wait for the end; a person who waits long is told what for."""
    try:
        started.result(timeout=PATIENCE)
    except ResultTimeout:
        if sys.stderr.isatty():
            print(f"... {started.why().reason}", file=sys.stderr)
        started.result()
