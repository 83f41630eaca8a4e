"""``holdfast worker``: work in the foreground until told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import sys
from collections.abc import Iterable
from typing import Any

import click
import msgspec

from holdfast.authoring.python.workflow import Workflow
from holdfast.cli.context import command_context, shared, without_secret
from holdfast.cli.loading import known_workflows, load_module, load_name, split
from holdfast.cli.output import error_line
from holdfast.cli.params import DURATION, LIST
from holdfast.connect.async_engine import AsyncEngine
from holdfast.connect.components import Components, EngineOptions, settings_from
from holdfast.connect.engine import Engine
from holdfast.core.status import Status
from holdfast.core.why.model import brief
from holdfast.engine.worker.worker import Worker
from holdfast.errors import NamespaceBound
from holdfast.store.contract import Hints

log = logging.getLogger("holdfast")

EPILOG = """\b
Examples:
  holdfast worker shop.py
  holdfast worker shop.flows --lanes default,slow --capabilities gpu --concurrency 50 --name gpu-1
  holdfast worker shop.flows:app    app is an Engine, a workflow, or a list of workflows"""

TELL_EACH = 20
"""How many ended runs are told one by one; more at a time are counted."""


@click.command(short_help="Work on runs in the foreground.", epilog=EPILOG)
@click.argument("target", metavar="MODULE[:NAME]")
@click.option(
    "--lanes",
    metavar="A,B",
    type=LIST,
    help="Serve only these lanes; default: all. E.g. --lanes default,slow",
)
@click.option(
    "--capabilities",
    metavar="A,B",
    type=LIST,
    help="What this worker can do that others cannot. E.g. --capabilities gpu",
)
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(min=1),
    help="How many runs at work at once. E.g. --concurrency 50",
)
@click.option(
    "--namespace",
    metavar="NAME",
    help="Serve only this namespace; default: all. E.g. --namespace acme",
)
@click.option(
    "--name",
    metavar="NAME",
    help="What to call this worker; default: host and pid. E.g. --name gpu-1",
)
@click.option(
    "--grace",
    metavar="DURATION",
    type=DURATION,
    help="How long steps may end when told to stop. E.g. --grace 1m",
)
@click.option(
    "--webhook-hosts",
    metavar="A,B",
    type=LIST,
    help=(
        "Deliver webhooks to these hosts although their addresses are not public. E.g."
        " --webhook-hosts hooks.internal [env: HOLDFAST_WEBHOOK_HOSTS]"
    ),
)
@click.option(
    "--no-schedules", is_flag=True, help="Do not write the schedules that the code declares."
)
@click.option("--quiet", is_flag=True, help="Log only warnings and errors.")
@shared
def worker(target: str, quiet: bool, no_schedules: bool, **options: Any) -> None:
    """Work on runs in the foreground. All workflows that importing MODULE defines are served, or
    what NAME names.

    SIGTERM or SIGINT once: steps at work end, waiting runs are parked, everything is released.
    Twice: stop at once; what was at work begins its step again elsewhere."""
    _log_to_stderr(logging.WARNING if quiet else logging.INFO)
    given = {name: value for name, value in options.items() if value is not None}
    bound = command_context().namespace
    if bound is not None and given.setdefault("namespace", bound) != bound:
        raise NamespaceBound(namespace=bound, asked=given["namespace"])
    parts = _parts(target, {**given, "schedules": False} if no_schedules else given)
    _spare_the_collector()
    try:
        code = asyncio.run(_work(parts))
    finally:
        parts.close()
    if code:
        raise click.exceptions.Exit(code)


def _spare_the_collector() -> None:
    """Let the garbage collector look less often, and not at what was there before the work: with
    many runs in memory it took a third of the CPU. Runs leave no cycles behind. Only here, where
    the process is ours alone."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _log_to_stderr(level: int) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.handlers = [handler]
    log.setLevel(level)
    log.propagate = False


def _parts(target: str, options: dict[str, Any]) -> Components:
    module, name = split(target)
    if name is None:
        load_module(module)
        return _open(None if known_workflows() else [], target, options)
    _, found = load_name(target)
    if isinstance(found, Engine | AsyncEngine):
        return _parts_of(found, target, options)
    if isinstance(found, Workflow):
        return _open([found], target, options)
    if isinstance(found, Iterable) and not isinstance(found, str):
        return _open(list(found), target, options)
    raise click.ClickException(
        f"{target} is neither an Engine nor a workflow nor a list of workflows"
    )


def _open(workflows: list[Any] | None, target: str, options: dict[str, Any]) -> Components:
    if workflows == []:
        raise click.ClickException(f"{target} has no workflow: decorate a function with @workflow")
    wrong = next((one for one in workflows or () if not isinstance(one, Workflow)), None)
    if wrong is not None:
        raise click.ClickException(f"{target} holds a {type(wrong).__name__}, which is no workflow")
    return Components(
        EngineOptions(
            command_context().url, workflows=workflows, codec=command_context().codec(), **options
        )
    )


def _parts_of(engine: Engine | AsyncEngine, target: str, options: dict[str, Any]) -> Components:
    """Work as the engine of the module would, on its own database; what the command line says goes
    before its settings."""
    parts = (engine._open() if isinstance(engine, AsyncEngine) else engine)._parts
    if command_context().db is not None:
        raise click.UsageError(f"{target} is an Engine and has its own database: leave --db out")
    if parts.worker is not None:
        raise click.ClickException(f"{target} is at work already: do not start it in the module")
    changed = settings_from(options)
    parts.settings = msgspec.structs.replace(
        parts.settings, **{name: getattr(changed, name) for name in options}
    )
    return parts


async def _work(parts: Components) -> int:
    """Work until a signal comes; return the exit code."""
    worker, told = parts.new_worker(), StopSignals()
    teller = RunPrinter(parts)
    await worker.start()
    _introduce(parts, worker)
    telling = asyncio.create_task(teller.tell_forever())
    await told.first.wait()
    log.info(
        "stopping: steps at work may end within %gs; once more to stop at once",
        parts.settings.grace,
    )
    code = await _stop(worker, told)
    telling.cancel()
    teller.tell()
    log.info("stopped; all that was held is free")
    return code


async def _stop(worker: Worker, told: StopSignals) -> int:
    """Stop in peace, or at once when told again."""
    stop = asyncio.create_task(worker.stop())
    again = asyncio.create_task(told.second.wait())
    await asyncio.wait({stop, again}, return_when=asyncio.FIRST_COMPLETED)
    again.cancel()
    if stop.done():
        await stop
        return 0
    log.warning("stopping at once")
    stop.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await stop
    await worker.kill()
    return 128 + told.number


class StopSignals:
    """What SIGTERM and SIGINT have said so far."""

    def __init__(self) -> None:
        self.first, self.second = asyncio.Event(), asyncio.Event()
        self.number = 0
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C ends the loop instead
                loop.add_signal_handler(number, self._heard, number)

    def _heard(self, number: int) -> None:
        self.number = number
        (self.second if self.first.is_set() else self.first).set()


def _introduce(parts: Components, worker: Worker) -> None:
    mine = parts.settings
    lanes = "all lanes" if mine.lanes is None else f"lanes {', '.join(mine.lanes)}"
    offers = f", offers {', '.join(mine.capabilities)}" if mine.capabilities else ""
    served = ", ".join(sorted(parts.definitions()))
    name = next(
        (seen.worker for seen in parts.store.sessions() if seen.id == worker.session_id), mine.name
    )
    log.info(
        "worker %s serves %s in %s%s, %d at once", name, served, lanes, offers, mine.concurrency
    )
    facts: dict[str, Any] = parts.store.facts()
    built_on = [
        f"{name} {facts[name]}" for name in ("driver", "sqlite", "postgres") if name in facts
    ]
    log.info("store %s (%s)", without_secret(parts.store.url), ", ".join(built_on))
    for warning in facts.get("warnings", []):
        log.warning("%s", warning)
    log.info("ready; stop with Ctrl-C or SIGTERM")


class RunPrinter:
    """Logs the runs that ended here, one line each; when many end at once, one line for all."""

    def __init__(self, parts: Components) -> None:
        self._parts = parts
        self._ended: list[str] = []
        parts.writer.listeners.append(self._hinted)

    def _hinted(self, hints: Hints) -> None:
        self._ended.extend(hints.finished)

    async def tell_forever(self) -> None:
        while True:
            await asyncio.sleep(0.2)
            self.tell()

    def tell(self) -> None:
        ended, self._ended = self._ended, []
        if not ended or not log.isEnabledFor(logging.INFO):
            return
        if len(ended) > TELL_EACH:
            log.info("%d runs ended, such as %s", len(ended), ended[-1])
            return
        for run_id in ended:
            self._tell_one(run_id)

    def _tell_one(self, run_id: str) -> None:
        run = self._parts.store.run(run_id)
        if run is None:
            return
        run = self._parts.sealer.shown(run)
        took = brief((run.finished_at or run.created_at) - (run.started_at or run.created_at))
        error = f": {error_line(run.error)}" if run.status is not Status.COMPLETED else ""
        log.info("run %s of %s %s after %s%s", run.id, run.workflow, run.status.value, took, error)
