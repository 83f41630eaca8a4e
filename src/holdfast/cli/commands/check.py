"""``holdfast check``: check definitions, and replay runs with them without doing anything."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import click

from holdfast.cli.context import command_context, printing
from holdfast.cli.loading import known_workflows, load_module, require_unique_names
from holdfast.cli.output import print_json
from holdfast.cli.params import DURATION, many
from holdfast.cli.progress import counting
from holdfast.connect.dry_replay import LIMIT
from holdfast.connect.open_database import opened
from holdfast.connect.open_store import is_database_file
from holdfast.core.dry_replay import JudgementSummary
from holdfast.core.program import is_definition
from holdfast.errors import NotCheckable
from holdfast.views import dry_replay as views

EPILOG = """\b
Examples:
  holdfast check shop.py                            import the module and list its workflows
  holdfast check --using shop.flows --live          replay every live run before a deployment
  holdfast check broken-order.db --using shop.py    replay the runs of an exported file"""


@click.command(short_help="Check whether code fits recorded runs.", epilog=EPILOG)
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@many(
    "--using",
    "modules",
    metavar="MODULE",
    help="A module or .py file whose workflows the runs are replayed with. E.g. --using shop.py",
)
@click.option(
    "--live", is_flag=True, help="Replay every live run of these workflows in the database."
)
@click.option(
    "--limit",
    metavar="DURATION",
    type=DURATION,
    default=LIMIT,
    show_default=True,
    help="How long the code of one run may take. E.g. --limit 30s",
)
@printing
def check(paths: tuple[str, ...], modules: list[str], live: bool, limit: str) -> None:
    """Check whether code fits recorded runs, without doing anything. The exit code is 1 if it does
    not fit one of them.

    PATH is a Python file or module, which is imported, or a database file that `db export` has
    written: its runs are replayed with the workflows of --using and of the other paths. With
    --live, every run of these workflows in the database that has not ended is replayed, too.

    The command reads only: no step is executed, nothing is written and no run is claimed. The code
    of the workflows itself runs, as it does whenever a worker loads a run."""
    if not paths and not live:
        raise click.UsageError("name a PATH, or add --live to check the runs of the database")
    files = [path for path in paths if is_database_file(path)]
    targets = [*modules, *(path for path in paths if path not in files)]
    with _user_output_on_stderr():
        checked = [_load(target) for target in targets]
        require_unique_names()
        if (live or files) and not known_workflows():
            raise click.UsageError("name the module of the workflows with --using MODULE")
        of_files = {file: _replay_file(file, limit) for file in files}
        of_database = _replay_live(limit) if live else None
    fits = all(summary.fits for summary in (*of_files.values(), *_given(of_database)))
    if command_context().as_json:
        _print_json(fits, checked, of_files, of_database)
    else:
        _print(checked, of_files, of_database)
    if not fits:
        raise click.exceptions.Exit(1)


def _given(summary: JudgementSummary | None) -> list[JudgementSummary]:
    return [] if summary is None else [summary]


def _load(target: str) -> dict[str, Any]:
    """Import a module and describe it. Raises ClickException, NotCheckable."""
    if os.path.exists(target) and not target.endswith(".py"):
        raise NotCheckable(path=target)
    module = load_module(target)
    names = sorted(value.name for value in vars(module).values() if is_definition(value))
    return {"module": target, "workflows": names}


@contextlib.contextmanager
def _user_output_on_stderr() -> Iterator[None]:
    """Let the code of workflows print to stderr: stdout has the verdicts alone."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


def _replay_live(limit: str) -> JudgementSummary:
    with command_context().opened() as database, counting("{} runs judged") as progress:
        return database.dry_replay(known_workflows(), limit=limit).live(progress)


def _replay_file(file: str, limit: str) -> JudgementSummary:
    context = command_context()
    with (
        opened(file, create=False, codec=context.codec(), namespace=context.namespace) as database,
        counting("{} runs judged") as progress,
    ):
        return database.dry_replay(known_workflows(), limit=limit).all(progress)


def _print_json(
    fits: bool,
    checked: Sequence[dict[str, Any]],
    of_files: dict[str, JudgementSummary],
    of_database: JudgementSummary | None,
) -> None:
    print_json(
        {
            "ok": fits,
            "modules": checked,
            "files": {file: views.summary_of(summary) for file, summary in of_files.items()},
            "live": None if of_database is None else views.summary_of(of_database),
        }
    )


def _print(
    checked: Sequence[dict[str, Any]],
    of_files: dict[str, JudgementSummary],
    of_database: JudgementSummary | None,
) -> None:
    for module in checked:
        names = ", ".join(module["workflows"]) or "none of its own"
        print(f"{module['module']}: workflows {names}")
    for file, summary in of_files.items():
        print(f"{file}:")
        _print_lines(summary)
    for summary in _given(of_database):
        _print_lines(summary)


def _print_lines(summary: JudgementSummary) -> None:
    for line in views.lines_of(summary):
        print(line)
