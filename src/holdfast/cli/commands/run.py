"""``holdfast run``: start a run and work until it has ended."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import click

from holdfast.cli.commands.budgets import AMOUNT
from holdfast.cli.context import command_context, printing, refuse_code
from holdfast.cli.loading import split
from holdfast.cli.model_files import ModelRun, deployed_kind
from holdfast.cli.output import print_json, print_line
from holdfast.cli.params import JSON, MOMENT, NEGATIVE_NUMBERS, TAGS, many
from holdfast.cli.text_runs import TextRun
from holdfast.connect.blocking.engine import Engine
from holdfast.connect.blocking.run import Run
from holdfast.errors import ResultTimeout

EPILOG = """\b
Examples:
  holdfast run shop.py:checkout '{"items": [1, 2]}'
  holdfast run shop.flows:checkout 42 '"express"' --tag customer=7 --key order-42
  holdfast run shop.py:remind --delay 2h --detach
  holdfast run flows/nightly.wf --input branch=main --using agents.py
  holdfast run order.bpmn '{"amount": 10}' --using handlers.py"""

EXPLAIN_AFTER = "5s"
"""After this time the user is told what the run waits for."""


@click.command(
    short_help="Start a run and work until it has ended.",
    epilog=EPILOG,
    context_settings=NEGATIVE_NUMBERS,
)
@click.argument("target", metavar="MODULE:WORKFLOW|FILE.wf|FILE.bpmn|DEPLOYED")
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
    "--input",
    "inputs",
    metavar="NAME=VALUE",
    multiple=True,
    help="An input of a text workflow. E.g. --input branch=main",
)
@click.option(
    "--var",
    "variables",
    metavar="NAME=VALUE",
    multiple=True,
    help="A variable for the placeholders of a text workflow. E.g. --var repo=acme",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Of a text workflow: start no scripts, ask no people, and tell the executors.",
)
@click.option(
    "--keep-going", is_flag=True, help="Of a text workflow: continue after a failed step."
)
@many(
    "--using",
    metavar="MODULE",
    help=(
        "The modules that register the executors of a text workflow, or bind the handlers of a"
        " model. E.g. --using agents.py"
    ),
)
@click.option(
    "--cwd",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="The working folder of a text workflow. E.g. --cwd ../checkout",
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
    inputs: Sequence[str],
    variables: Sequence[str],
    dry_run: bool,
    keep_going: bool,
    using: Sequence[str],
    cwd: str | None,
    **options: Any,
) -> None:
    """Start a run of MODULE:WORKFLOW, of the text FILE.wf or of a model, work until it has ended,
    and print its result as JSON.

    MODULE is a dotted module name or a .py file. Each ARGS_JSON is one argument of the workflow.
    Sub-workflows of a text are looked up beside it. FILE.bpmn is deployed first; DEPLOYED is the
    name of a deployed text or process. A model takes its variables as one JSON object.
    Until the run has ended, this process is a worker: it also executes other runs of the workflows
    that it has imported."""
    start_options = {name: value for name, value in options.items() if value is not None}
    if budgets:
        start_options["budget"] = _budget(budgets)
    text = TextRun(inputs, variables, using, dry_run=dry_run, keep_going=keep_going, cwd=cwd)
    if command_context().is_remote:
        refuse_code(target, "run checkout", using)
        start_options |= text.remote_settings
        args = text.arguments(args)
        _run_elsewhere(target, args, detach=detach, tags=dict(tags), **start_options)
        return
    named = _target(target, args, text, using)
    engine = Engine(
        command_context().url,
        workflows=named.served,
        codec=command_context().codec(),
        schedules=False,
        namespace=command_context().namespace,
    )
    started: Run[Any] | None = None
    try:
        workflow = named.workflow
        if named.model is not None:
            workflow = named.model.deploy(engine)
        if not detach:
            engine.work()
        with _deferred_interrupt():
            started = engine.start(
                workflow,
                *named.args,
                tags=dict(tags),
                **start_options,
                **text.settings,
            )
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


class _Target(NamedTuple):
    """What the command starts, and the workflows that its process serves; None for all imported
    ones."""

    workflow: Any
    args: Sequence[Any]
    served: list[Any] | None = None
    model: ModelRun | None = None


def _target(target: str, args: Sequence[Any], text: TextRun, using: Sequence[str]) -> _Target:
    """Return what a target names: a deployed definition, a file or a workflow of a module. Raises
    ClickException, UsageError, BadWorkflow."""
    kind = deployed_kind(target)
    if kind == "wf":
        return _Target(target, text.deployed(args))
    if kind is not None:
        text.refuse_for_model(target)
        return _Target(target, args, model=ModelRun(target, args, using))
    if split(target)[1] is None and not target.endswith(".wf"):
        raise click.UsageError(
            f"{target!r} is neither a deployed process or text (holdfast models lists them) nor a"
            " file: for a workflow in Python use MODULE:NAME, as in shop.py:checkout"
        )
    workflow, served = text.load(target, args)
    return _Target(workflow, [text.inputs] if text.is_text else args, served)


def _run_elsewhere(target: str, args: Sequence[Any], *, detach: bool, **options: Any) -> None:
    """Start a run on a server, by the name of its workflow, and wait for its result."""
    with command_context().opened() as database:
        started = database.engine.start(target, *args, **options)
        if detach:
            _print_id(started)
            return
        if sys.stderr.isatty():
            print(f"run {started.id}", file=sys.stderr)
        print_line(started.result())


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
