"""``holdfast worker``: run a worker in the foreground until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
from collections.abc import Iterable, Sequence
from typing import Any

import click

from holdfast.cli.context import command_context, shared, without_secret
from holdfast.cli.loading import has_handlers, known_workflows, load_module, load_name, split
from holdfast.cli.log_output import logging_options, logging_to_stderr
from holdfast.cli.params import DURATION, many
from holdfast.cli.stop_signals import StopSignals
from holdfast.cli.text_runs import load_folder
from holdfast.connect.async_engine import AsyncEngine
from holdfast.connect.blocking.engine import Engine
from holdfast.connect.foreground_worker import ForegroundWorker
from holdfast.connect.option_checks import is_library
from holdfast.core.program import is_definition
from holdfast.core.status import Status
from holdfast.errors import NamespaceBound
from holdfast.views.runs import RunView
from holdfast.views.text import brief, error_line

log = logging.getLogger("holdfast")

EPILOG = """\b
Examples:
  holdfast worker shop.py
  holdfast worker shop.flows billing.flows
  holdfast worker shop.flows --lane default,slow --capability gpu --concurrency 50 --name gpu-1
  holdfast worker shop.flows:app    app is an Engine, a workflow, or a list of workflows
  holdfast worker                   deployed models that need no handlers"""

LOG_EACH = 20
"""The maximum number of ended runs that are logged one by one; more are only counted."""

LOG_INTERVAL = 0.2
"""Seconds between two logs of ended runs."""


@click.command(short_help="Run a worker in the foreground.", epilog=EPILOG)
@click.argument("targets", metavar="MODULE[:NAME]|FOLDER...", nargs=-1)
@many(
    "--using",
    metavar="MODULE",
    help="The modules that register the executors of text workflows. E.g. --using agents.py",
)
@many(
    "--lane",
    "lanes",
    metavar="A,B",
    help="Serve only these lanes; default: all. E.g. --lane default,slow",
)
@many(
    "--capability",
    "capabilities",
    metavar="A,B",
    help="The capabilities that this worker offers. E.g. --capability gpu",
)
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(min=1),
    help="The maximum number of concurrent runs. E.g. --concurrency 50",
)
@click.option(
    "--namespace",
    metavar="NAME",
    help="Serve only this namespace; default: all. E.g. --namespace acme",
)
@click.option(
    "--name",
    metavar="NAME",
    help="The name of this worker; default: host and pid. E.g. --name gpu-1",
)
@click.option(
    "--shutdown-timeout",
    metavar="DURATION",
    type=DURATION,
    help="How long running steps may take to end on shutdown. E.g. --shutdown-timeout 1m",
)
@many(
    "--webhook-host",
    "webhook_hosts",
    metavar="A,B",
    help=(
        "Deliver webhooks to these hosts even if their addresses are not public. E.g."
        " --webhook-host hooks.internal [env: HOLDFAST_WEBHOOK_HOSTS]"
    ),
)
@click.option(
    "--no-schedules", is_flag=True, help="Do not store the schedules that the code declares."
)
@logging_options
@shared
def worker(
    targets: tuple[str, ...],
    using: Sequence[str],
    quiet: bool,
    no_schedules: bool,
    log_format: str,
    **options: Any,
) -> None:
    """Run a worker in the foreground. It serves all workflows that the modules define or import, or
    those named NAME, all text workflows of a FOLDER, and the deployed models whose tasks need no
    handlers of other modules: without a module, only such models.

    On the first SIGTERM or SIGINT running steps may end, waiting runs are parked, and all leases
    are released. On the second the worker stops at once; interrupted steps run again on another
    worker."""
    settings = {name: value for name, value in options.items() if value not in (None, [])}
    bound = command_context().namespace
    if bound is not None and settings.setdefault("namespace", bound) != bound:
        raise NamespaceBound(namespace=bound, asked=settings["namespace"])
    if no_schedules:
        settings["schedules"] = False
    with logging_to_stderr(logging.WARNING if quiet else logging.INFO, log_format):
        for module in using:
            load_module(module)
        code = _serve(targets, settings)
    if code:
        raise click.exceptions.Exit(code)


def _serve(targets: Sequence[str], settings: dict[str, Any]) -> int:
    """Work until a signal ends it; return the exit code."""
    loaded = _load(targets, settings)
    _tune_garbage_collector()
    try:
        return asyncio.run(_work(loaded))
    finally:
        loaded.close()


def _tune_garbage_collector() -> None:
    """Run the garbage collector less often, and exempt all objects that exist before the work.

    With many runs in memory the collector took a third of the CPU, and runs leave no reference
    cycles behind. The settings are global, so this is done only here, where the process belongs to
    Holdfast alone."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _load(targets: Sequence[str], options: dict[str, Any]) -> ForegroundWorker:
    """Import each MODULE[:NAME] and return a worker for all of them. Raises ClickException."""
    shown = " ".join(targets)
    if not targets:
        return _open(None, shown, options)
    if len(targets) == 1 and split(targets[0])[1] is not None:
        _, value = load_name(targets[0])
        if isinstance(value, Engine | AsyncEngine):
            return _worker_of(value, shown, options)
    if any(os.path.isdir(target) for target in targets):
        return _open(_with_folders(targets), shown, options)
    loaded = [_load_workflows(target) for target in targets]
    named = [workflow for workflows in loaded for workflow in workflows or ()]
    if all(workflows is None for workflows in loaded):
        serves = bool(known_workflows()) or has_handlers()
        return _open(None if serves else [], shown, options)
    if None in loaded:
        raise click.UsageError(
            "a worker serves all workflows of its modules, or named ones: use MODULE or"
            " MODULE:NAME for all of them"
        )
    return _open(named, shown, options)


def _with_folders(targets: Sequence[str]) -> list[Any]:
    """Return the libraries of the folders among the targets, and all workflows of the modules."""
    libraries: list[Any] = []
    for target in targets:
        if os.path.isdir(target):
            libraries.append(load_folder(target))
        else:
            _load_workflows(target)
    return [*libraries, *known_workflows().values()]


def _load_workflows(target: str) -> list[Any] | None:
    """Import MODULE[:NAME]; return the named workflows, None without a name. Raises
    ClickException."""
    module, name = split(target)
    if name is None:
        load_module(module)
        return None
    _, value = load_name(target)
    if isinstance(value, Engine | AsyncEngine):
        raise click.UsageError(f"{target} is an Engine with its own database: name it alone")
    if is_definition(value):
        return [value]
    if isinstance(value, Iterable) and not isinstance(value, str):
        return list(value)
    raise click.ClickException(
        f"{target} is a {type(value).__name__}, not an Engine, a workflow or a list of workflows"
    )


def _open(workflows: list[Any] | None, target: str, options: dict[str, Any]) -> ForegroundWorker:
    """Open the database of the command line; None serves all imported workflows."""
    if workflows == []:
        raise click.ClickException(f"{target} has no workflow: decorate a function with @workflow")
    other = next(
        (item for item in workflows or () if not (is_definition(item) or is_library(item))), None
    )
    if other is not None:
        raise click.ClickException(
            f"{target} contains a {type(other).__name__}, which is not a workflow: decorate a"
            " function with @workflow"
        )
    return ForegroundWorker(
        Engine(
            command_context().url, workflows=workflows, codec=command_context().codec(), **options
        )
    )


def _worker_of(
    engine: Engine | AsyncEngine, target: str, options: dict[str, Any]
) -> ForegroundWorker:
    """Return the worker of an engine of the module, with its database and its settings; options of
    the command line override its settings."""
    loaded = ForegroundWorker(engine)
    if command_context().db is not None:
        raise click.UsageError(f"{target} is an Engine with its own database: omit --db")
    if loaded.is_taken:
        raise click.ClickException(
            f"{target} has already started its worker: do not call work() when the module is"
            " imported"
        )
    loaded.change_settings(options)
    return loaded


async def _work(worker: ForegroundWorker) -> int:
    """Run a worker until a signal stops it; return the exit code."""
    stop_signals = StopSignals()
    printer = RunPrinter(worker)
    await worker.start()
    _log_start(worker)
    printing = asyncio.create_task(printer.log_forever())
    await stop_signals.first.wait()
    log.info(
        "stopping: running steps may end within %gs; signal again to stop at once",
        worker.settings.shutdown_timeout,
    )
    code = await _stop(worker, stop_signals)
    printing.cancel()
    printer.log_ended()
    log.info("stopped; all leases are released")
    return code


async def _stop(worker: ForegroundWorker, stop_signals: StopSignals) -> int:
    """Stop the worker gracefully, or at once after a second signal; return the exit code."""
    stop = asyncio.create_task(worker.stop())
    second = asyncio.create_task(stop_signals.second.wait())
    await asyncio.wait({stop, second}, return_when=asyncio.FIRST_COMPLETED)
    second.cancel()
    if stop.done():
        await stop
        return 0
    log.warning("stopping at once")
    stop.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await stop
    await worker.kill()
    return 128 + stop_signals.number


def _log_start(worker: ForegroundWorker) -> None:
    """Log what the worker serves, and which database it uses."""
    settings = worker.settings
    lanes = "all lanes" if settings.lanes is None else f"lanes {', '.join(settings.lanes)}"
    offers = f", offers {', '.join(settings.capabilities)}" if settings.capabilities else ""
    log.info(
        "worker %s serves %s in %s%s, %d concurrent runs",
        worker.name,
        ", ".join(worker.workflows) or "what is deployed",
        lanes,
        offers,
        settings.concurrency,
    )
    facts = worker.facts()
    versions = [
        f"{name} {facts[name]}" for name in ("driver", "sqlite", "postgres") if name in facts
    ]
    log.info("store %s (%s)", without_secret(worker.url), ", ".join(versions))
    for warning in facts.get("warnings", []):
        log.warning("%s", warning)
    log.info("ready; stop with Ctrl-C or SIGTERM")


class RunPrinter:
    """Log the runs that ended in this process: one line each, or one line for all of many."""

    def __init__(self, worker: ForegroundWorker) -> None:
        self._worker: ForegroundWorker = worker

    async def log_forever(self) -> None:
        """Log ended runs at intervals, until cancelled."""
        while True:
            await asyncio.sleep(LOG_INTERVAL)
            self.log_ended()

    def log_ended(self) -> None:
        """Log the runs that ended since the last call."""
        ended = self._worker.take_ended()
        if not ended or not log.isEnabledFor(logging.INFO):
            return
        if len(ended) > LOG_EACH:
            log.info("%d runs ended, for example %s", len(ended), ended[-1])
            return
        for run in self._worker.runs(ended):
            _log_run(run)


def _log_run(run: RunView) -> None:
    took = brief((run.finished_at or run.created_at) - (run.started_at or run.created_at))
    error = f": {error_line(run.error)}" if run.status is not Status.COMPLETED else ""
    log.info("run %s of %s %s after %s%s", run.id, run.workflow, run.status.value, took, error)
