"""Commands that apply to one run, to several, or to all runs that their options select."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

import click

from holdfast.cli.context import command_context, confirm
from holdfast.cli.output import print_json
from holdfast.cli.progress import measuring
from holdfast.cli.run_filters import are_given, filtering_without, query_of
from holdfast.connect.blocking.runs import RunQuery
from holdfast.connect.open_database import OpenDatabase
from holdfast.core.operations import BulkVerb
from holdfast.views.operations import OperationReportView

F = TypeVar("F", bound=Callable[..., Any])

SHOWN = 20
"""Refusals that are printed."""


class BulkCommand(Protocol):
    """A bulk verb of a query with its own arguments, as a command calls it."""

    def __call__(
        self,
        query: RunQuery,
        /,
        *,
        dry_run: bool,
        by: str | None,
        progress: Callable[[int], None] | None,
    ) -> OperationReportView:
        """Apply the verb and return its report."""


def selecting(*, without: Sequence[str] = ()) -> Callable[[F], F]:
    """Add the options that select runs, and --dry-run, --yes and --by, to a command. They reach it
    as keyword arguments for ``apply_to``."""

    def add(command: F) -> F:
        if "--by" not in without:
            command = click.option(
                "--by", metavar="NAME", help="Who asks, for the record. E.g. --by ann"
            )(command)
        command = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")(command)
        command = click.option(
            "--dry-run", is_flag=True, help="Only show which runs would be changed."
        )(command)
        return filtering_without(*without)(command)

    return add


def is_single(runs: Sequence[str], *, dry_run: bool, filters: dict[str, Any]) -> bool:
    """Return whether a command applies to one run that it names. Raises UsageError if it names no
    run and selects none, or does both."""
    if runs and are_given(**filters):
        raise click.UsageError("name runs, or select them with options, not both")
    if not runs and not are_given(**filters):
        raise click.UsageError(
            "Missing argument 'RUN': name a run, or select runs with options such as --status"
        )
    return len(runs) == 1 and not dry_run


def apply_to(
    database: OpenDatabase,
    verb: BulkVerb,
    call: BulkCommand,
    runs: Sequence[str],
    filters: dict[str, Any],
    *,
    dry_run: bool,
    yes: bool,
    by: str | None,
) -> None:
    """Apply a verb to the named runs, or to the selected ones; print the report, and exit with 1 if
    some were refused."""
    if runs:
        query = database.engine.runs(ids=[database.find(run).id for run in runs])
    else:
        query = query_of(database, **filters)
    total = query.count()
    if not dry_run:
        _ask(verb, total, yes=yes)
    with measuring(verb.value) as show:
        done = 0

        def progress(count: int) -> None:
            nonlocal done
            done += count
            show(done, total)

        person = command_context().person(by)
        keywords = call.keywords if isinstance(call, partial) else {}
        # By its name: a query over HTTP has the same verbs.
        apply = getattr(query, verb.value)
        report = apply(**keywords, dry_run=dry_run, by=person, progress=progress)
    if len(runs) == 1 and report.refusals and not (dry_run or command_context().as_json):
        ((run_id, reason),) = report.refused.items()
        raise click.ClickException(reason if run_id in reason else f"{run_id}: {reason}")
    print_report(report)
    if report.refusals:
        click.get_current_context().exit(1)


def _ask(verb: BulkVerb, total: int, *, yes: bool) -> None:
    """Ask for confirmation. Without a terminal, only a deletion needs --yes."""
    question = f"{verb.value.capitalize()} {total} {_runs(total)}?"
    if verb is BulkVerb.DELETE:
        confirm(question, yes=yes, preview="--dry-run")
    elif total > 1 and not yes and sys.stdin.isatty() and not click.confirm(question, err=True):
        raise click.ClickException("nothing was changed")


def print_report(report: OperationReportView) -> None:
    """Print the report of a bulk verb, with the first refusals."""
    if command_context().as_json:
        print_json(report)
        return
    print(summary(report))
    for run_id, reason in list(report.refused.items())[:SHOWN]:
        print(f"  {run_id}: {reason}")
    if report.refusals > SHOWN:
        print(f"  and {report.refusals - SHOWN} more (--json has them)")
    if report.dry_run:
        for run_id in report.done[:SHOWN]:
            print(f"  {run_id}")
        if report.changed > SHOWN:
            print(f"  and {report.changed - SHOWN} more (--json has them)")


def summary(report: OperationReportView) -> str:
    """Return a report as one line."""
    if report.dry_run:
        return (
            f"dry run of {report.verb.value}: {report.changed} {_runs(report.changed)} would be"
            f" changed, {report.refusals} refused"
        )
    counts = f"{report.changed} of {report.total} {_runs(report.total)} changed"
    refused = f", {report.refusals} refused" if report.refusals else ""
    return f"{report.verb.value} {report.status}: {counts}{refused} (operation {report.id})"


def _runs(count: int) -> str:
    return "run" if count == 1 else "runs"
