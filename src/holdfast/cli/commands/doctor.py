"""``holdfast doctor``: check the health of an installation."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from holdfast.cli.context import command_context, printing, version
from holdfast.cli.output import print_fields, print_json
from holdfast.connect.open_database import OpenDatabase
from holdfast.connect.open_store import missing_rights
from holdfast.core.status import Status
from holdfast.core.why.workers import Liveness
from holdfast.views.text import error_line
from holdfast.views.workers import WorkerView

SHOWN = 5
"""The maximum number of stuck runs that are listed."""

FULL = 5000
"""Up to so many runs, all rows are checked. In a larger database that is the job of `db check`."""


class DoctorFinding(msgspec.Struct):
    """A problem, and the command that shows more about it."""

    text: str
    remedy: str | None = None


@click.command(
    short_help="Check the health of the installation.", epilog="Example: holdfast doctor --json"
)
@printing
def doctor() -> None:
    """Check the installation: versions, the database and its laws, workers, stuck runs, and runs
    that no worker serves.

    On PostgreSQL the command also prints the GRANT statements for rights that the role of the URL
    lacks. The exit code is 1 if there is a problem; warnings do not change it."""
    command_context().concerns_all("doctor")
    grants = missing_rights(command_context().url)
    if grants:
        _print_grants(grants)
        raise click.exceptions.Exit(1)
    _examine()


def _print_grants(grants: list[str]) -> None:
    text = (
        "the role of the URL lacks rights: an administrator must execute the statements below in"
        " that database"
    )
    if command_context().as_json:
        print_json(
            {
                "ok": False,
                "facts": {},
                "warnings": [],
                "troubles": [DoctorFinding(text)],
                "grants": grants,
            }
        )
        return
    print(f"problem: {text}")
    print("\n".join(f"  {grant};" for grant in grants))


def _examine() -> None:
    with command_context().opened() as database:
        workers = database.engine.workers.list()
        facts = _facts(database, workers)
        is_small = sum(facts["runs"].values()) <= FULL
        facts["checked"] = (
            "all rows" if is_small else "leased runs; `holdfast db check` reads all rows"
        )
        problems = list(_problems(database, workers, facts["runs"], is_small=is_small))
        warnings = facts.pop("warnings", [])
        # Keys are found in the values themselves, so all of them are read.
        keys = database.keys_in_use() if is_small else {}
        if keys:
            facts["keys"] = keys
        warnings += [
            f"{count} values are encrypted with the key {key}, which is unknown here: add it to"
            " HOLDFAST_KEYS"
            for key, count in keys.items()
            if not database.knows_key(key)
        ]
        if command_context().as_json:
            print_json(
                {
                    "ok": not problems,
                    "facts": facts,
                    "warnings": warnings,
                    "troubles": problems,
                    "grants": [],
                }
            )
        else:
            _print(facts, warnings, problems)
        if problems:
            raise click.exceptions.Exit(1)


def _facts(database: OpenDatabase, workers: list[WorkerView]) -> dict[str, Any]:
    return {
        "holdfast": version(),
        "python": platform.python_version(),
        "system": platform.platform(),
        **database.facts(),
        "runs": database.counts(),
        "workers": dict(Counter(worker.state.value for worker in workers)),
    }


def _print(facts: dict[str, Any], warnings: list[str], problems: list[DoctorFinding]) -> None:
    print_fields([(name, _format_fact(value)) for name, value in facts.items()])
    print()
    for warning in warnings:
        print(f"warning: {warning}")
    for problem in problems:
        print(f"problem: {problem.text}")
        if problem.remedy is not None:
            print(f"  $ {command_context().command(problem.remedy)}")
    if not problems:
        print("no problems found")


def _format_fact(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{count} {name}" for name, count in value.items()) or "none"
    return str(value)


def _problems(
    database: OpenDatabase, workers: list[WorkerView], counts: dict[str, int], *, is_small: bool
) -> Iterator[DoctorFinding]:
    laws = database.broken_laws() if is_small else database.broken_live_laws()
    for law in laws:
        yield DoctorFinding(law, "holdfast db check")
    stuck_runs = database.engine.runs(status=Status.STUCK.value).page(limit=SHOWN)
    for run in stuck_runs:
        yield DoctorFinding(
            f"run {run.id} of {run.workflow} is stuck: {error_line(run.error)}",
            f"holdfast why {run.id}",
        )
    stuck = counts.get(Status.STUCK.value, 0)
    if stuck > SHOWN:
        yield DoctorFinding(f"{stuck - SHOWN} more runs are stuck", "holdfast runs --status stuck")
    for worker in workers:
        if worker.state is Liveness.SILENT:
            yield DoctorFinding(f"{worker.place} sends no more heartbeats", "holdfast workers")
    for route in database.engine.workers.unserved():
        yield DoctorFinding(route.text, route.remedy)
