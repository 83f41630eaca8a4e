"""``holdfast check``: check definitions, and replay runs with them without doing anything."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from holdfast.cli.context import command_context, printing
from holdfast.cli.definition_files import (
    CheckedFile,
    check_definitions,
    is_definition_path,
    load_definitions,
    without_files,
)
from holdfast.cli.loading import known_workflows, load_module, require_unique_names
from holdfast.cli.output import print_json
from holdfast.cli.params import DURATION, many
from holdfast.cli.progress import counting
from holdfast.connect.dry_replay import LIMIT
from holdfast.connect.open_database import opened
from holdfast.connect.open_store import is_database_file
from holdfast.core.dry_replay import JudgementSummary
from holdfast.core.program import Definition, is_definition
from holdfast.errors import NotCheckable
from holdfast.views import dry_replay as views

EPILOG = """\b
Examples:
  holdfast check flows                              check the .wf files of a folder
  holdfast check nightly.wf --using agents.py       check also that the executors exist
  holdfast check shop.py                            import the module and list its workflows
  holdfast check --using shop.flows --live          replay every live run before a deployment
  holdfast check broken-order.db --using shop.py    replay the runs of an exported file"""


@click.command(short_help="Check definitions, and whether code fits recorded runs.", epilog=EPILOG)
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@many(
    "--using",
    "modules",
    metavar="MODULE",
    help=(
        "A module or .py file whose workflows the runs are replayed with, and whose executors"
        " texts call. E.g. --using shop.py"
    ),
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
    """Check definitions, and whether code fits recorded runs, without doing anything. The exit code
    is 1 if a definition has an error, or if the code does not fit a run.

    PATH is a .wf, .wft, .bpmn or .dmn file, or a folder of such files: all problems are listed. It
    may also be a Python file or module, which is imported, or a database file that `db export` has
    written: its runs are replayed with the workflows of --using and of the other paths. With
    --live, every run of these workflows in the database that has not ended is replayed, too; a
    run of a .wf or .bpmn file, which keeps the definition that it was started with, is judged by
    the file: whether it would have done the same so far, or where it diverges. How a run of a model
    would move to another version is another question: `models migrate --dry-run` answers it.
    If nothing is named, the live runs of all stored texts and models are judged by the definitions
    that they keep.

    Without --using, executors, providers, gates and schemas that do not exist are not reported.

    The command reads only: no step is executed, nothing is written and no run is claimed. The code
    of the workflows itself runs, as it does whenever a worker loads a run."""
    if not paths and not live:
        raise click.UsageError("name a PATH, or add --live to check the runs of the database")
    texts = [path for path in paths if is_definition_path(path)]
    databases = [path for path in paths if path not in texts and is_database_file(path)]
    modules_of_paths = [path for path in paths if path not in texts and path not in databases]
    with _user_output_on_stderr():
        loaded = [_load(target) for target in (*modules, *modules_of_paths)]
        require_unique_names()
        definitions = dict(known_workflows())
        if live or databases:
            definitions |= load_definitions(texts)
        can_judge = bool(definitions) or not texts  # texts with errors judge no run
        if databases and not definitions:
            raise click.UsageError("name the module of the workflows with --using MODULE")
        for folder in without_files(texts):
            click.echo(f"{folder} has no file with a definition", err=True)
        report = _Report(
            modules=loaded,
            texts=check_definitions(texts, using=bool(modules)),
            databases={file: _replay_file(file, definitions, limit) for file in databases},
            live=_replay_live(definitions, limit) if live and can_judge else None,
        )
    if command_context().as_json:
        print_json(report.as_json())
    else:
        report.print()
    if not report.ok:
        raise click.exceptions.Exit(1)


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


def _replay_live(definitions: Mapping[str, Definition], limit: str) -> JudgementSummary:
    """Judge the live runs of definitions; without any, those of all stored texts and models. Raises
    UsageError if there are none."""
    with command_context().opened() as database, counting("{} runs judged") as progress:
        judged = definitions or database.stored_versions()
        if not judged:
            raise click.UsageError("name the module of the workflows with --using MODULE")
        return database.dry_replay(judged, limit=limit).live(progress)


def _replay_file(file: str, definitions: Mapping[str, Definition], limit: str) -> JudgementSummary:
    context = command_context()
    with (
        opened(file, create=False, codec=context.codec(), namespace=context.namespace) as database,
        counting("{} runs judged") as progress,
    ):
        return database.dry_replay(definitions, limit=limit).all(progress)


class _Report:
    """The outcome of all checks of one command."""

    def __init__(
        self,
        *,
        modules: Sequence[dict[str, Any]],
        texts: Sequence[CheckedFile],
        databases: dict[str, JudgementSummary],
        live: JudgementSummary | None,
    ) -> None:
        self._modules: Sequence[dict[str, Any]] = modules
        self._texts: Sequence[CheckedFile] = texts
        self._databases: dict[str, JudgementSummary] = databases
        self._live: list[JudgementSummary] = [] if live is None else [live]

    @property
    def ok(self) -> bool:
        summaries = (*self._databases.values(), *self._live)
        return all(text.ok for text in self._texts) and all(each.fits for each in summaries)

    def as_json(self) -> dict[str, Any]:
        databases = [
            {"path": file, "ok": summary.fits, **views.summary_of(summary)}
            for file, summary in self._databases.items()
        ]
        live = [views.summary_of(summary) for summary in self._live]
        return {
            "ok": self.ok,
            "modules": self._modules,
            "files": [*(text.as_json() for text in self._texts), *databases],
            "live": live[0] if live else None,
        }

    def print(self) -> None:
        for module in self._modules:
            names = ", ".join(module["workflows"]) or "none of its own"
            print(f"{module['module']}: workflows {names}")
        for text in self._texts:
            for line in text.lines():
                print(line)
        for file, summary in self._databases.items():
            print(f"{file}:")
            _print_lines(summary)
        for summary in self._live:
            _print_lines(summary)


def _print_lines(summary: JudgementSummary) -> None:
    for line in views.lines_of(summary):
        print(line)
