"""The root command ``holdfast``: imports each command on first use, and prints errors as one line
on stderr."""

from __future__ import annotations

import importlib
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any

import click
import msgspec

from holdfast.cli.context import CommandContext, named_database, need_command, version
from holdfast.cli.repeated_options import refuse_repeated
from holdfast.core.text import nearest
from holdfast.errors import BadDuration, BadGraph, BadOption, BadSchedule, BadUrl, HoldfastError
from holdfast.errors.base import safe_repr
from holdfast.views.values import as_json

COMMANDS = {
    "demo": "demo",
    "run": "run",
    "worker": "worker",
    "serve": "serve",
    "mcp": "mcp",
    "ui": "ui",
    "runs": "runs",
    "show": "show",
    "why": "why",
    "tags": "tags",
    "signal": "operate",
    "cancel": "operate",
    "resume": "operate",
    "replay": "operate",
    "release": "bulk",
    "prioritise": "bulk",
    "delete": "bulk",
    "fork": "operate",
    "tail": "tail",
    "approve": "gates",
    "reject": "gates",
    "gates": "gates",
    "waits": "waits",
    "tasks": "tasks",
    "graphs": "graphs",
    "flows": "flows",
    "models": "models",
    "schedules": "schedules",
    "budgets": "budgets",
    "lanes": "lanes",
    "operations": "operations",
    "workers": "workers",
    "api-keys": "api_keys",
    "audit": "audit",
    "events": "events",
    "db": "db",
    "check": "check",
    "fmt": "fmt",
    "draw": "draw",
    "lsp": "lsp",
    "dmn": "dmn",
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

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            refuse_repeated(self, ctx, args)
        return super().parse_args(ctx, args)

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run a command and exit; without *standalone_mode* return, and let errors propagate."""
        extra |= {"prog_name": "holdfast", "standalone_mode": False}
        call: Callable[..., Any] = super().main
        if not standalone_mode:
            return call(*args, **extra)
        words = (args[0] if args else extra.get("args")) or sys.argv[1:]
        sys.exit(guarded(lambda: call(*args, **extra), prints_json="--json" in words))


def guarded(call: Callable[[], Any], *, prints_json: bool = False) -> int:
    """Run *call* and return the exit code: 0 for success, 1 for an error, 2 for wrong usage, 130
    for an interrupt. An error is one line on stderr, with *prints_json* one JSON object."""
    _prepare_streams()
    report = _report_json if prints_json else _report
    try:
        code = call()
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.UsageError as error:
        return report(_misuse(error), 2)
    except click.ClickException as error:
        return report(ErrorReport("Error", error.format_message()), 1)
    except click.Abort as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            return 130
        return report(ErrorReport("Aborted", "aborted"), 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _discard_stdout()
        return 1
    except HoldfastError as error:
        return report(_report_of(error), 2 if isinstance(error, MISUSED) else 1)
    except Exception as error:
        return report(_unexpected(error), 1)


class ErrorReport(msgspec.Struct):
    """An error, as a program reads it."""

    error: str
    message: str
    hint: str | None = None
    facts: dict[str, Any] = {}


def _misuse(error: click.UsageError) -> ErrorReport:
    """Return the report of wrong usage: for a misspelt command or option with the nearest one."""
    if error.ctx is None:
        return ErrorReport("UsageError", error.format_message())
    hint = f"see {error.ctx.command_path} --help"
    mistyped = _UNKNOWN.match(error.message)
    if mistyped is None:
        return ErrorReport("UsageError", error.format_message(), hint)
    kind, word = mistyped.groups()
    suggestion = _similar_option(error.ctx, word)
    if kind == "command":
        suggestion = _similar_command(error.ctx, word)
    if suggestion is not None:
        hint = f"did you mean {suggestion}? {hint}"
    return ErrorReport("UsageError", mistyped.group(0), hint)


_UNKNOWN = re.compile(r"No such (command|option):? ['\"]?(.+?)['\"]?(?:\.|$)")
"""The messages of click for a command or an option that does not exist."""


def _similar_option(context: click.Context, word: str) -> str | None:
    """Return the option that *word* resembles: an option of the command, or an option of
    ``holdfast`` itself, which stands before the command."""
    if word in _options(cli):
        return f"holdfast {word} ... {context.command_path.partition(' ')[2]}"
    return nearest(word, _options(context.command))


def _options(command: click.Command) -> list[str]:
    return [name for option in command.params for name in option.opts if name.startswith("-")]


def _similar_command(context: click.Context, word: str) -> str | None:
    """Return the command that *word* resembles, in the same group or in ``db``, whose commands are
    often looked for at the top."""
    group = context.command
    if not isinstance(group, click.Group):
        return None
    if group is cli:
        inner = cli.get_command(context, "db")
        if isinstance(inner, click.Group) and word in inner.commands:
            return f"holdfast db {word}"
    name = nearest(word, group.list_commands(context))
    if name is None:
        return None
    return f"{context.command_path} {name}"


def _report_of(error: HoldfastError) -> ErrorReport:
    """Return the report of an error: the docstring of its class is a sentence that often names the
    remedy after a colon."""
    sentence = " ".join((type(error).__doc__ or "").split())
    _, _, remedy = sentence.partition(": ")
    facts = {name: _fact(value) for name, value in error.facts.items()}
    return ErrorReport(type(error).__name__, str(error), remedy or None, facts)


def _fact(value: object) -> Any:
    """Return a fact as JSON data if it is such data, else as text."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return safe_repr(value)


def _unexpected(error: Exception) -> ErrorReport:
    description = type(error).__name__
    if str(error):
        description += f": {error}"
    hint = "set HOLDFAST_DEBUG=1 for the traceback"
    return ErrorReport(type(error).__name__, f"unexpected {description}", hint)


def _report(report: ErrorReport, code: int) -> int:
    """Print an error as one line on stderr, with a traceback if HOLDFAST_DEBUG is set. Return
    *code*."""
    # the message of an error of Holdfast contains its remedy
    hint = f" ({report.hint})" if report.hint and report.hint not in report.message else ""
    print(f"holdfast: {' '.join(report.message.split())}{hint}", file=sys.stderr)
    _print_traceback()
    return code


def _report_json(report: ErrorReport, code: int) -> int:
    """Print an error as one JSON object on stderr. Return *code*."""
    print(as_json(report).decode(), file=sys.stderr)
    _print_traceback()
    return code


def _print_traceback() -> None:
    if os.environ.get("HOLDFAST_DEBUG") and sys.exc_info()[1] is not None:
        traceback.print_exc()


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
    callback=named_database,
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
