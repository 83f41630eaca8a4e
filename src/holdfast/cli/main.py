"""The root command ``holdfast``: imports each command on first use, and prints errors as one line
on stderr."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import click

from holdfast.cli.context import CommandContext, need_command, version
from holdfast.errors import BadDuration, BadGraph, BadOption, BadSchedule, BadUrl, HoldfastError

COMMANDS = {
    "demo": "demo",
    "run": "run",
    "worker": "worker",
    "runs": "runs",
    "show": "show",
    "why": "why",
    "tail": "tail",
    "events": "events",
    "subscriptions": "subscriptions",
    "signal": "operate",
    "gates": "gates",
    "approve": "gates",
    "reject": "gates",
    "decide": "gates",
    "delegate": "gates",
    "reassign": "gates",
    "waits": "waits",
    "release": "waits",
    "cancel": "operate",
    "resume": "operate",
    "replay": "operate",
    "fork": "operate",
    "export": "export",
    "prune": "prune",
    "schedules": "schedules",
    "retention": "retention",
    "lanes": "lanes",
    "budgets": "budgets",
    "workers": "workers",
    "tasks": "tasks",
    "flows": "flows",
    "graphs": "graphs",
    "keys": "keys",
    "db": "db",
    "bench": "bench",
    "doctor": "doctor",
}
"""The commands, in the order of ``--help``, with the modules that define them."""

MISUSED = (BadOption, BadDuration, BadGraph, BadSchedule, BadUrl)
"""Errors that a wrong argument causes: exit code 2."""


class RootGroup(click.Group):
    """Import a command on first use, and turn every error into one line and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        command: click.Command = getattr(
            importlib.import_module(f"holdfast.cli.commands.{module}"), cmd_name.replace("-", "_")
        )
        return command

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run a command and exit; without *standalone_mode* return, and let errors propagate."""
        extra |= {"prog_name": "holdfast", "standalone_mode": False}
        call: Callable[..., Any] = super().main
        if not standalone_mode:
            return call(*args, **extra)
        sys.exit(guarded(lambda: call(*args, **extra)))


def guarded(call: Callable[[], Any]) -> int:
    """Run *call* and return the exit code: 0 for success, 1 for an error, 2 for wrong usage, 130
    for an interrupt."""
    _prepare_streams()
    try:
        code = call()
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.UsageError as error:
        hint = f" (see {error.ctx.command_path} --help)" if error.ctx is not None else ""
        return _report(f"{error.format_message()}{hint}", 2)
    except click.ClickException as error:
        return _report(error.format_message(), 1)
    except click.Abort as error:
        return 130 if isinstance(error.__cause__, KeyboardInterrupt) else _report("aborted", 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _discard_stdout()
        return 1
    except MISUSED as error:
        return _report(str(error), 2)
    except HoldfastError as error:
        return _report(str(error), 1)
    except Exception as error:
        return _report_unexpected(error)


def _report(message: str, code: int) -> int:
    """Print *message* as one line on stderr, with a traceback if HOLDFAST_DEBUG is set. Return
    *code*."""
    print(f"holdfast: {' '.join(message.split())}", file=sys.stderr)
    if os.environ.get("HOLDFAST_DEBUG") and sys.exc_info()[1] is not None:
        traceback.print_exc()
    return code


def _report_unexpected(error: Exception) -> int:
    description = type(error).__name__
    if str(error):
        description += f": {error}"
    return _report(f"unexpected {description} (set HOLDFAST_DEBUG=1 for the traceback)", 1)


def _prepare_streams() -> None:
    """Print a question mark for a character that the encoding of stdout or stderr lacks, and keep
    the loggers of Holdfast silent unless a command adds a handler."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    log = logging.getLogger("holdfast")
    if not log.handlers:
        log.addHandler(logging.NullHandler())


def _discard_stdout() -> None:
    """Redirect stdout to the null device, so that the interpreter does not report the broken pipe
    when it flushes stdout at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return


EPILOG = """\b
Examples:
  holdfast demo                                  see a run survive kill -9
  holdfast run shop.py:checkout '{"items": [1]}' start a run and work until it has ended
  holdfast worker shop.py                        run a worker in the foreground
  holdfast why last                              explain what blocks the newest run
RUN is the id of a run, at least the first 6 characters of it, or "last"."""


SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


@click.group(cls=RootGroup, epilog=EPILOG, invoke_without_command=True, context_settings=SETTINGS)
@click.option(
    "--db",
    metavar="URL",
    help="The database: a path or a URL. [env: HOLDFAST_DB; default: holdfast.db]",
)
@click.option("--json", "as_json", is_flag=True, help="Print data as JSON.")
@click.option(
    "--codec",
    metavar="MODULE:NAME",
    help=(
        "The codec of stored values, or a function that returns it. E.g. --codec keys.py:codec"
        " [env: HOLDFAST_CODEC, HOLDFAST_KEYS]"
    ),
)
@click.option(
    "--namespace",
    metavar="NAME",
    envvar="HOLDFAST_NAMESPACE",
    help=(
        "The namespace of the runs, tasks, graphs, flows and schedules. E.g. --namespace acme [env:"
        " HOLDFAST_NAMESPACE; default: default]"
    ),
)
@click.version_option(version(), prog_name="holdfast")
@click.pass_context
def cli(
    ctx: click.Context, db: str | None, as_json: bool, codec: str | None, namespace: str | None
) -> None:
    """Durable workflows: work that was started gets finished, whatever crashes."""
    ctx.obj = CommandContext(db, as_json, codec, namespace)
    need_command(ctx)
